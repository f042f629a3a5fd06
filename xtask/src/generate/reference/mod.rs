//! The reference of the book: commands and flags as the program has them, kinds as their definitions have them, labels,
//! annotations, metrics and events as the sources have them.

mod events;
mod kinds;
mod metrics;
mod sources;
mod words;

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use velero_testkit::install::our_binary;

/// The pages, with their paths in the repository.
pub(super) fn pages(root: &Path) -> Result<Vec<(String, String)>> {
    let pages = [
        ("commands", "Commands and flags", commands(root)?),
        ("kinds", "Kinds", kinds::page()),
        ("labels", "Labels and annotations", words::page(root)?),
        ("metrics", "Metrics", metrics::page(root)?),
        ("events", "Events", events::page(root)?),
    ];
    let made = |title: &str, text: &str| format!("# {title}\n\n<!-- Made by cargo xtask gen. -->\n\n{text}");
    Ok(pages
        .map(|(name, title, text)| (format!("docs/reference/{name}.md"), made(title, text.trim_end()) + "\n"))
        .into())
}

fn commands(root: &Path) -> Result<String> {
    // Where no cluster and no file of a user can be found.
    let output = Command::new(our_binary("dev")?).arg("reference").env_clear().current_dir(root).output()?;
    ensure!(output.status.success(), "velero reference: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Text that a cell of a table shows as it is; what is code in it stays code.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let pieces = text.split('`').enumerate().map(|(number, piece)| match number % 2 {
        0 => piece.replace('<', "\\<").replace('*', "\\*"),
        _ => piece.to_owned(),
    });
    pieces.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn a_cell_shows_signs_of_markdown_but_for_those_in_code() {
        assert_eq!(cell("a <b>\n| `<c>` *"), "a \\<b> \\| `<c>` \\*");
    }
}
