//! What these commands print. Where nobody reads it any more, as behind `| head`, they end without a word.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::exit;

/// What a shell sees of a program that was ended for writing where nobody reads.
const READER_GONE: i32 = 141;

/// Prints a line.
macro_rules! out {
    ($($text:tt)*) => {
        $crate::output::print(format_args!("{}\n", format_args!($($text)*)))
    };
}

pub(crate) use out;

/// Prints a text as it is.
#[expect(clippy::disallowed_methods, reason = "there is nobody left to tell anything")]
pub(crate) fn print(text: impl Display) {
    let mut output = io::stdout().lock();
    match write!(output, "{text}").and_then(|()| output.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit(READER_GONE),
        Err(error) => {
            eprintln!("error: cannot write to standard output: {error}");
            exit(1);
        }
    }
}
