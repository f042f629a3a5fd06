//! The book has no dead link, no page that nobody finds, and no command of which it is not said whether tests run it.

use std::path::Path;

use velero_tests::book::{Book, Page, Tally, build, check};

fn list(lines: &[String]) -> String {
    lines.join("\n  ")
}

#[test]
fn no_link_of_the_book_and_of_the_pages_beside_it_is_dead() {
    let book = Book::read().unwrap();
    let findings = check(&book);
    println!(
        "{} links; not followed, since they lead to other hosts:\n  {}",
        findings.looked_at,
        list(&findings.outside)
    );
    assert!(findings.looked_at > 50, "only {} links were found", findings.looked_at);
    assert!(findings.dead.is_empty(), "dead links:\n  {}", list(&findings.dead));
}

#[test]
fn every_page_is_in_the_summary_once() {
    let book = Book::read().unwrap();
    assert!(book.unlisted.is_empty(), "docs/SUMMARY.md does not name these pages: {:?}", book.unlisted);
    let mut chapters = book.chapters.clone();
    chapters.sort();
    chapters.dedup();
    assert_eq!(chapters.len(), book.chapters.len(), "docs/SUMMARY.md names a page twice");
}

#[test]
fn the_book_is_built_with_every_page_in_it() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path()).unwrap();
    for chapter in Book::read().unwrap().chapters {
        let page = folder.path().join(chapter.strip_prefix("docs").unwrap()).with_extension("html");
        assert!(page.exists(), "there is no {}", page.display());
    }
}

#[test]
fn of_every_block_of_commands_it_is_said_whether_a_test_runs_it() {
    let book = Book::read().unwrap();
    let mut tally = Tally::default();
    for page in book.in_order() {
        for command in page.commands().unwrap() {
            tally.count(page, &command);
        }
        let nameless: Vec<usize> =
            page.blocks.iter().filter(|block| block.info.is_empty()).map(|block| block.line).collect();
        assert!(nameless.is_empty(), "{}: blocks without a language in lines {nameless:?}", page.path.display());
    }
    println!("{tally}");
    assert!(tally.run > tally.not_run.len(), "most commands of the book are not run: {tally}");
}

#[test]
fn headings_links_and_commands_of_a_page_are_found() {
    let text = "# A `b` c\n\n[x](y.md#z) ![p](p.svg)\n\n## Again\n\n## Again\n\n```bash run on=new lost=old\nls\n```\n\n```bash norun=no cloud\naws\n```\n";
    let page = Page::parse(Path::new("a.md"), text);
    assert_eq!(page.anchors.iter().map(String::as_str).collect::<Vec<_>>(), ["a-b-c", "again", "again-1"]);
    let links: Vec<_> = page.links.iter().map(|link| (link.target.as_str(), link.line)).collect();
    assert_eq!(links, [("y.md#z", 3), ("p.svg", 3)]);
    let commands = page.commands().unwrap();
    assert_eq!(
        (commands[0].text, commands[0].cluster, commands[0].lost, commands[0].line),
        ("ls\n", "new", Some("old"), 9)
    );
    assert_eq!((commands[1].not_run, commands[1].cluster), (Some("no cloud"), "first"));
}

#[test]
fn a_block_that_does_not_say_whether_it_is_run_is_an_error_that_names_it() {
    for (info, expected) in [
        ("bash", "neither run nor norun=REASON"),
        ("bash norun=", "without a reason"),
        ("bash run at=home", "means nothing"),
    ] {
        let page = Page::parse(Path::new("a.md"), &format!("text\n\n```{info}\nls\n```\n"));
        let problem = page.commands().unwrap_err();
        assert!(problem.starts_with("a.md:3: ") && problem.contains(expected), "{info}: {problem}");
    }
}
