//! `cargo xtask book`: the book as HTML, the picture of a terminal session in the README, and pictures of the page.

mod picture;
mod screens;

use anyhow::Result;
use clap::Args;
use velero_testkit::install::{repository_root, target_folder};
use velero_tests::book::{self, Book, Reader};

use self::picture::Exchange;
use crate::output::out;

/// The page whose commands are typed for the picture.
const PAGE: &str = "docs/start.md";
/// Which of them are shown, by how they begin.
const SHOWN: [&str; 6] = [
    "velero install",
    "velero backup create",
    "kubectl delete namespace",
    "velero restore create --from-backup",
    "velero restore create back",
    "kubectl -n shop get configmap",
];
const PICTURE: &str = "docs/session.svg";

#[derive(Args)]
pub(crate) struct Options {
    /// Do what the first page says in a box, and draw what was typed and said into docs/session.svg, instead
    #[arg(long)]
    picture: bool,
    /// Take pictures of the page in a browser, into docs/page, instead
    #[arg(long, conflicts_with = "picture")]
    screens: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.picture {
        return draw();
    }
    if options.screens {
        return screens::take();
    }
    let folder = target_folder().join("book");
    book::build(&folder)?;
    out!("the book is in {}", folder.join("index.html").display());
    Ok(())
}

fn draw() -> Result<()> {
    let book = Book::read()?;
    let mut reader = Reader::new("picture")?;
    let mut session = Vec::new();
    for command in book.page(PAGE)?.commands().map_err(anyhow::Error::msg)? {
        for line in command.text.lines().filter(|_| command.not_run.is_none()) {
            let said = reader.type_line(&command, line)?;
            if SHOWN.iter().any(|beginning| line.starts_with(beginning)) {
                session.push(Exchange { typed: line.to_owned(), said });
            }
        }
    }
    reader.done()?;
    std::fs::write(repository_root().join(PICTURE), picture::svg(&session))?;
    out!("wrote {PICTURE}");
    Ok(())
}
