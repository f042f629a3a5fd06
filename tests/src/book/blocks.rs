//! The commands of a page: which of them a test runs, where, and why not the others.

use std::fmt;

use super::page::{Block, Page};

/// The languages of blocks that are typed at a prompt.
const SHELLS: [&str; 4] = ["bash", "sh", "shell", "console"];

/// A block of commands for a shell.
#[derive(Debug, PartialEq, Eq)]
pub struct Command<'a> {
    /// What a reader types.
    pub text: &'a str,
    /// The line of the page.
    pub line: usize,
    /// The cluster it is typed at, where the page has several.
    pub cluster: &'a str,
    /// A cluster that is lost before.
    pub lost: Option<&'a str>,
    /// Why a test cannot run it; nothing where it can.
    pub not_run: Option<&'a str>,
}

impl<'a> Command<'a> {
    /// Reads what stands behind the fence: `bash run`, `bash run on=new lost=old`, or `bash norun=` and the reason.
    pub(super) fn parse(block: &'a Block) -> Option<Result<Self, String>> {
        let (language, marks) = block.info.split_once(' ').unwrap_or((&block.info, ""));
        if !SHELLS.contains(&language) {
            return None;
        }
        let marks = marks.trim();
        let mut command = Self { text: &block.text, line: block.line, cluster: "first", lost: None, not_run: None };
        if let Some(reason) = marks.strip_prefix("norun=") {
            command.not_run = Some(reason.trim());
            return Some(if reason.trim().is_empty() {
                Err("norun= without a reason".to_owned())
            } else {
                Ok(command)
            });
        }
        let mut words = marks.split_whitespace();
        if words.next() != Some("run") {
            return Some(Err(format!("{marks:?} is neither run nor norun=REASON")));
        }
        for word in words {
            match word.split_once('=') {
                Some(("on", cluster)) => command.cluster = cluster,
                Some(("lost", cluster)) => command.lost = Some(cluster),
                _ => return Some(Err(format!("{word:?} means nothing behind run"))),
            }
        }
        Some(Ok(command))
    }
}

impl Page {
    /// The commands of the page in their order; an error names a block that is not marked as it should be.
    pub fn commands(&self) -> Result<Vec<Command<'_>>, String> {
        let commands = self.blocks.iter().filter_map(|block| {
            let command = Command::parse(block)?;
            Some(command.map_err(|problem| format!("{}:{}: {problem}", self.path.display(), block.line)))
        });
        commands.collect()
    }
}

/// How many blocks of commands were run, and why the others were not.
#[derive(Debug, Default)]
pub struct Tally {
    /// How many were run.
    pub run: usize,
    /// The others: page, line and reason.
    pub not_run: Vec<String>,
}

impl Tally {
    /// Adds a block.
    pub fn count(&mut self, page: &Page, command: &Command<'_>) {
        match command.not_run {
            None => self.run += 1,
            Some(reason) => self.not_run.push(format!("{}:{}: {reason}", page.path.display(), command.line)),
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.run + self.not_run.len();
        let share = (self.run * 100).checked_div(all).unwrap_or(100);
        write!(formatter, "{} of {all} blocks of commands are run ({share} %); not run:", self.run)?;
        self.not_run.iter().try_for_each(|block| write!(formatter, "\n  {block}"))
    }
}
