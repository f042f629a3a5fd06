//! JSON as Go's encoder writes it, so that files compare equal byte by byte.
//!
//! Go escapes `<`, `>`, `&` and the two Unicode line separators, and prints numbers without a useless fraction.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// Serializes a value compactly.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Vec<u8>> {
    let mut output = Vec::with_capacity(256);
    to_writer(&mut output, value)?;
    Ok(output)
}

/// Serializes a value compactly into a writer.
pub fn to_writer<W: Write, T: Serialize + ?Sized>(writer: W, value: &T) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(writer, GoFormatter))
}

/// A formatter with Go's escapes and number forms.
#[derive(Clone, Copy, Debug, Default)]
pub struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let bytes = fragment.as_bytes();
        let mut written = 0;
        for (index, byte) in bytes.iter().enumerate() {
            let (escape, length) = match byte {
                b'<' => ("\\u003c", 1),
                b'>' => ("\\u003e", 1),
                b'&' => ("\\u0026", 1),
                0xe2 if bytes[index..].starts_with(&[0xe2, 0x80, 0xa8]) => ("\\u2028", 3),
                0xe2 if bytes[index..].starts_with(&[0xe2, 0x80, 0xa9]) => ("\\u2029", 3),
                _ => continue,
            };
            writer.write_all(&bytes[written..index])?;
            writer.write_all(escape.as_bytes())?;
            written = index + length;
        }
        writer.write_all(&bytes[written..])
    }

    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let size = value.abs();
        if size != 0.0 && !(1e-6..1e21).contains(&size) {
            let text = format!("{value:e}");
            let positive_exponent = size >= 1e21;
            return match text.split_once('e') {
                Some((digits, exponent)) if positive_exponent => {
                    write!(writer, "{digits}e+{exponent}")
                }
                _ => writer.write_all(text.as_bytes()),
            };
        }
        write!(writer, "{value}")
    }

    fn write_f32<W: ?Sized + Write>(&mut self, writer: &mut W, value: f32) -> io::Result<()> {
        CompactFormatter.write_f32(writer, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text<T: Serialize>(value: &T) -> String {
        String::from_utf8(to_vec(value).unwrap()).unwrap()
    }

    #[test]
    fn strings_are_escaped_as_go_does() {
        for (value, expected) in [
            ("plain", r#""plain""#),
            ("<a href=\"x\">&</a>", r#""\u003ca href=\"x\"\u003e\u0026\u003c/a\u003e""#),
            ("line\u{2028}and\u{2029}end", r#""line\u2028and\u2029end""#),
            ("tab\tnul\0 \u{7f} é €", "\"tab\\tnul\\u0000 \u{7f} é €\""),
        ] {
            assert_eq!(text(&value), expected);
        }
    }

    #[test]
    fn numbers_are_printed_as_go_does() {
        for (value, expected) in [
            (1.0, "1"),
            (0.5, "0.5"),
            (-0.0, "-0"),
            (100_000_000_000_000_000_000.0, "100000000000000000000"),
            (1e21, "1e+21"),
            (-2.5e22, "-2.5e+22"),
            (1e-6, "0.000001"),
            (1.5e-7, "1.5e-7"),
        ] {
            assert_eq!(text(&value), expected);
        }
    }

    #[test]
    fn keys_are_sorted_and_escaped() {
        let value = json!({"b": 1, "a<": [null, true]});
        assert_eq!(text(&value), r#"{"a\u003c":[null,true],"b":1}"#);
    }
}
