//! JSON as Go writes it, so that the same directory has the same bytes whoever saved it.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};

/// Compact JSON with Go's escapes.
pub(crate) fn to_vec(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, GoFormatter))?;
    Ok(bytes)
}

struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (before, from) = rest.split_at(at);
            writer.write_all(before.as_bytes())?;
            let mut letters = from.chars();
            let letter = letters.next().map_or(0, u32::from);
            write!(writer, "\\u{letter:04x}")?;
            rest = letters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: Write + ?Sized>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        CompactFormatter.write_char_escape(writer, escape)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn letters_are_escaped_as_go_does() {
        let written = super::to_vec(&"a<b>&\u{2028}é\"\\\n\u{8}\u{1}\u{7f}").unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "\"a\\u003cb\\u003e\\u0026\\u2028é\\\"\\\\\\n\\b\\u0001\u{7f}\""
        );
    }
}
