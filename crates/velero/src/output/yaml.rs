//! YAML as the Go library behind Velero and kubectl writes it, so that output can be compared byte by byte.

mod scalar;

use super::document::Document;
use scalar::write_scalar;

/// How much deeper a nested block starts.
const STEP: usize = 2;

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    MappingValue,
    ListItem,
}

/// Renders a document.
pub(super) fn render(document: &Document) -> String {
    let mut text = String::new();
    write_node(&mut text, document, 0, Place::Root);
    text
}

/// Writes a node behind its key or dash; `indent` is that of the block it stands in.
fn write_node(text: &mut String, node: &Document, indent: usize, place: Place) {
    match node {
        Document::Fields(fields) if !fields.is_empty() => {
            let inner = if place == Place::Root { 0 } else { indent + STEP };
            write_block(text, inner, place == Place::MappingValue, fields.iter(), |text, (name, value)| {
                write_scalar(text, name, inner, true);
                text.push(':');
                write_node(text, value, inner, Place::MappingValue);
            });
        }
        Document::List(items) if !items.is_empty() => {
            // A list under a key is not indented.
            let inner = if place == Place::ListItem { indent + STEP } else { indent };
            write_block(text, inner, place == Place::MappingValue, items.iter(), |text, item| {
                text.push('-');
                write_node(text, item, inner, Place::ListItem);
            });
        }
        scalar => {
            if place != Place::Root {
                text.push(' ');
            }
            match scalar {
                Document::Fields(_) => text.push_str("{}"),
                Document::List(_) => text.push_str("[]"),
                Document::Null => text.push_str("null"),
                Document::Bool(value) => text.push_str(&value.to_string()),
                Document::Number(value) => text.push_str(&value.to_string()),
                Document::Text(value) => write_scalar(text, value, indent, false),
            }
            text.push('\n');
        }
    }
}

/// Writes the entries of a block, the first one on the line of its dash unless the block follows a key.
fn write_block<T>(
    text: &mut String,
    indent: usize,
    on_new_line: bool,
    entries: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    let after_dash = text.ends_with('-');
    if on_new_line {
        text.push('\n');
    }
    for (position, entry) in entries.enumerate() {
        if position == 0 && after_dash {
            text.push(' ');
        } else {
            text.extend(std::iter::repeat_n(' ', indent));
        }
        write(text, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(json: &str) -> String {
        render(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn lists_are_not_indented_under_their_key() {
        let json = r#"{"a":{"b":["x",{"c":1,"d":{}},[1,2]],"e":[]},"f":null}"#;
        assert_eq!(yaml(json), "a:\n  b:\n  - x\n  - c: 1\n    d: {}\n  - - 1\n    - 2\n  e: []\nf: null\n");
    }

    #[test]
    fn texts_are_quoted_only_where_they_would_be_read_as_something_else() {
        for (text, expected) in [
            ("plain text", "plain text"),
            ("true", "\"true\""),
            ("y", "\"y\""),
            ("", "\"\""),
            ("12", "\"12\""),
            ("1e3", "\"1e3\""),
            ("0s", "0s"),
            ("2026-11-15T09:00:00Z", "\"2026-11-15T09:00:00Z\""),
            ("*", "'*'"),
            ("a: b", "'a: b'"),
            ("it's: x", "'it''s: x'"),
            ("0 */6 * * *", "0 */6 * * *"),
            ("@every 1h", "'@every 1h'"),
            ("12:30", "\"12:30\""),
            ("a\tb", "\"a\\tb\""),
            (" lead", "' lead'"),
            ("-x", "-x"),
            ("- x", "'- x'"),
        ] {
            assert_eq!(
                yaml(&serde_json::to_string(&serde_json::json!({ "k": text })).unwrap()),
                format!("k: {expected}\n")
            );
        }
    }

    #[test]
    fn a_text_of_several_lines_is_a_literal_block() {
        assert_eq!(yaml(r#"{"k":"a\nb\n"}"#), "k: |\n  a\n  b\n");
        assert_eq!(yaml(r#"{"k":"a\n\n b"}"#), "k: |-\n  a\n\n   b\n");
    }

    #[test]
    fn a_long_line_is_folded_at_the_first_space_behind_column_80() {
        let text = "word ".repeat(20);
        let folded = format!("k: {}\n  {}\n", "word ".repeat(16).trim_end(), "word ".repeat(4).trim_end());
        assert_eq!(yaml(&format!(r#"{{"k":"{}"}}"#, text.trim_end())), folded);
    }
}
