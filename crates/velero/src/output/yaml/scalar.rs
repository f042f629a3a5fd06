//! Texts: plain, quoted, or as a literal block.

use super::STEP;

/// Behind this column a text goes on in the next line.
const WIDTH: usize = 80;

/// Texts that mean something else when they stand unquoted.
const WORDS: &[&str] = &[
    "", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", "n", "N",
    "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF", ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF",
    "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF", "<<",
];

/// Writes a text. A key stays on its line.
pub(super) fn write_scalar(text: &mut String, value: &str, indent: usize, is_key: bool) {
    let shape = Shape::of(value);
    if value.contains('\n') && !is_key && shape.literal {
        write_literal(text, value, indent + STEP);
    } else if value.contains('\n') || is_other_type(value) || !shape.single_quoted {
        write_double_quoted(text, value, indent + STEP, is_key);
    } else if shape.plain {
        write_folded(text, value, indent + STEP, is_key);
    } else {
        text.push('\'');
        write_folded(text, &value.replace('\'', "''"), indent + STEP, is_key);
        text.push('\'');
    }
}

/// In which forms a text can be written.
struct Shape {
    plain: bool,
    single_quoted: bool,
    literal: bool,
}

impl Shape {
    fn of(value: &str) -> Self {
        let characters: Vec<char> = value.chars().collect();
        let is_blank_at = |position: usize| characters.get(position).is_none_or(|next| next.is_whitespace());
        let indicator = |(position, character): (usize, &char)| match character {
            '#' if position > 0 => is_blank_at(position - 1),
            '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                position == 0
            }
            '?' | '-' => position == 0 && is_blank_at(1),
            ':' => is_blank_at(position + 1),
            _ => false,
        };
        let special = characters.iter().any(|character| *character != '\n' && !is_printable(*character));
        let space_before_break = value.contains(" \n");
        let outer_space = value.starts_with(' ') || value.ends_with(' ');
        let document_mark = value.starts_with("---") || value.starts_with("...");
        Self {
            plain: !special && !outer_space && !document_mark && !characters.iter().enumerate().any(indicator),
            single_quoted: !special && !space_before_break,
            literal: !special && !space_before_break && !value.ends_with(' '),
        }
    }
}

fn is_printable(character: char) -> bool {
    matches!(character, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
        || character == '\u{85}'
}

/// Whether the unquoted text would be read as a number, a time, a truth value or null.
fn is_other_type(value: &str) -> bool {
    WORDS.contains(&value) || is_number(value) || is_sexagesimal(value) || is_timestamp(value)
}

fn is_number(value: &str) -> bool {
    let digits = value.replace('_', "");
    let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(&digits);
    let is_radix = |prefix: &str, radix: u32| {
        unsigned
            .strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|digit| digit.is_digit(radix)))
    };
    if is_radix("0x", 16) || is_radix("0b", 2) || is_radix("0o", 8) {
        return true;
    }
    let starts_like_one = unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    starts_like_one
        && unsigned.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte))
        && unsigned.parse::<f64>().is_ok()
}

/// Numbers in base 60, as in `12:30`, which older YAML knows.
fn is_sexagesimal(value: &str) -> bool {
    let unsigned = value.strip_prefix(['+', '-']).unwrap_or(value);
    let mut parts = unsigned.split(':');
    let is_first = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_digit())
            && part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    let is_later = |part: &str| {
        let whole = part.split_once('.').map_or(part, |(whole, _)| whole);
        whole.parse::<u8>().is_ok_and(|number| number < 60) && whole.len() <= 2
    };
    let first = parts.next().is_some_and(is_first);
    let later: Vec<&str> = parts.collect();
    first && !later.is_empty() && later.into_iter().all(is_later)
}

fn is_timestamp(value: &str) -> bool {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    if digits != 4 || value.as_bytes().get(4) != Some(&b'-') {
        return false;
    }
    value.parse::<jiff::Timestamp>().is_ok() || value.parse::<jiff::civil::DateTime>().is_ok() && !value.contains('[')
}

fn column(text: &str) -> usize {
    text.rsplit('\n').next().unwrap_or_default().chars().count()
}

/// Writes a text and goes on in the next line at the first single space behind the width.
fn write_folded(text: &mut String, value: &str, indent: usize, is_key: bool) {
    let characters: Vec<char> = value.chars().collect();
    let mut column = column(text);
    for (position, character) in characters.iter().enumerate() {
        let is_space = |position: usize| characters.get(position) == Some(&' ');
        let lone = *character == ' ' && position > 0 && !is_space(position - 1) && !is_space(position + 1);
        if lone && !is_key && column > WIDTH && position + 1 < characters.len() {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else {
            text.push(*character);
            column += 1;
        }
    }
}

fn write_double_quoted(text: &mut String, value: &str, indent: usize, is_key: bool) {
    text.push('"');
    let characters: Vec<char> = value.chars().collect();
    let mut spaces = false;
    for (position, character) in characters.iter().enumerate() {
        let inside = position > 0 && position + 1 < characters.len();
        if *character == ' ' && !spaces && !is_key && inside && column(text) > WIDTH {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', indent));
            if characters[position + 1] == ' ' {
                text.push('\\');
            }
        } else {
            push_escaped(text, *character);
        }
        spaces = *character == ' ';
    }
    text.push('"');
}

fn push_escaped(text: &mut String, character: char) {
    match character {
        '"' => text.push_str("\\\""),
        '\\' => text.push_str("\\\\"),
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        '\0' => text.push_str("\\0"),
        '\u{7}' => text.push_str("\\a"),
        '\u{8}' => text.push_str("\\b"),
        '\u{b}' => text.push_str("\\v"),
        '\u{c}' => text.push_str("\\f"),
        '\u{1b}' => text.push_str("\\e"),
        printable if is_printable(printable) => text.push(printable),
        small if u32::from(small) <= 0xff => text.push_str(&format!("\\x{:02X}", u32::from(small))),
        other if u32::from(other) <= 0xffff => text.push_str(&format!("\\u{:04X}", u32::from(other))),
        large => text.push_str(&format!("\\U{:08X}", u32::from(large))),
    }
}

/// Writes a text of several lines as it is, behind a mark that says how it begins and ends.
fn write_literal(text: &mut String, value: &str, indent: usize) {
    text.push('|');
    if value.starts_with([' ', '\n']) {
        text.push_str(&STEP.to_string());
    }
    let body = match value.strip_suffix('\n') {
        None => {
            text.push('-');
            value
        }
        Some(body) if body.ends_with('\n') || body.is_empty() => {
            text.push('+');
            body
        }
        Some(body) => body,
    };
    for line in body.split('\n') {
        text.push('\n');
        if !line.is_empty() {
            text.extend(std::iter::repeat_n(' ', indent));
            text.push_str(line);
        }
    }
}
