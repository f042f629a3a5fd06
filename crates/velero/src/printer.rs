//! The one place that prints: stdout is data, stderr the rest.

use std::fmt::{self, Display};
use std::io::{self, BufRead, Write};

use anyhow::{Context, Error, Result};
use velero_api::v1::Ending;

/// Whoever read the output has gone, as `head` does after its lines. The command ends without a word.
#[derive(Debug)]
pub(crate) struct ReaderGone;

impl Display for ReaderGone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("nobody reads the output any more")
    }
}

impl std::error::Error for ReaderGone {}

/// Why output could not be written.
pub(crate) fn write_error(error: io::Error, what: &'static str) -> Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Error::new(ReaderGone),
        _ => Error::new(error).context(what),
    }
}

/// Writes to the terminal. Colours are on or off for the whole command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printer {
    /// How texts are coloured.
    pub(crate) style: Style,
}

impl Printer {
    /// Writes data without a line end.
    pub(crate) fn print(self, text: impl Display) -> Result<()> {
        self.bytes(text.to_string().as_bytes())
    }

    /// Writes a line of data.
    pub(crate) fn line(self, text: impl Display) -> Result<()> {
        self.print(format_args!("{text}\n"))
    }

    /// Writes bytes of data.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<()> {
        let mut output = io::stdout().lock();
        output
            .write_all(bytes)
            .and_then(|()| output.flush())
            .map_err(|error| write_error(error, "cannot write to stdout"))
    }

    /// Writes a line for the person at the terminal.
    pub(crate) fn note(self, text: impl Display) {
        // When stderr is closed there is nobody left to tell.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Asks for a yes or no until one is given; the end of the input is a no.
    pub(crate) fn confirm(self) -> Result<bool> {
        loop {
            self.print("Are you sure you want to continue (Y/N)? ")?;
            let mut answer = String::new();
            let read = io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
            if read == 0 || !answer.ends_with('\n') {
                self.note("error reading user input: EOF");
                return Ok(false);
            }
            match answer.trim() {
                "y" | "Y" => return Ok(true),
                "n" | "N" => return Ok(false),
                _ => {}
            }
        }
    }
}

/// How texts are coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// Whether they are at all.
    pub(crate) colorized: bool,
}

impl Style {
    /// A name.
    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", "22", text)
    }

    /// Bad news.
    pub(crate) fn red(self, text: &str) -> String {
        self.wrap("31", "0", text)
    }

    /// Good news.
    pub(crate) fn green(self, text: &str) -> String {
        self.wrap("32", "0", text)
    }

    /// A phase: good or bad news once there is an end.
    pub(crate) fn ending(self, ending: Option<Ending>, phase: &str) -> String {
        match ending {
            Some(ending) if ending.is_good() => self.green(phase),
            Some(_) => self.red(phase),
            None => phase.to_owned(),
        }
    }

    fn wrap(self, on: &str, off: &str, text: &str) -> String {
        if self.colorized { format!("\x1b[{on}m{text}\x1b[{off}m") } else { text.to_owned() }
    }
}
