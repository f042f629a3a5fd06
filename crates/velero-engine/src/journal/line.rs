//! One line of a log, in the forms logrus writes.

use std::borrow::Cow;

use jiff::Timestamp;

/// The form of the lines in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `time="…" level=info msg="…" key=value`
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The present second as text, printed once a second.
#[derive(Default)]
pub(super) struct Clock {
    second: i64,
    text: String,
}

impl Clock {
    pub(super) fn text(&mut self, now: Timestamp) -> &str {
        if self.second != now.as_second() || self.text.is_empty() {
            self.second = now.as_second();
            self.text = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        }
        &self.text
    }
}

/// Writes a line. Fields come sorted by key.
pub(super) fn write(
    output: &mut Vec<u8>,
    format: LogFormat,
    time: &str,
    level: &str,
    message: &str,
    fields: &[(&'static str, Cow<'_, str>)],
) {
    match format {
        LogFormat::Text => write_text(output, time, level, message, fields),
        LogFormat::Json => write_json(output, time, level, message, fields),
    }
    output.push(b'\n');
}

fn write_text(output: &mut Vec<u8>, time: &str, level: &str, message: &str, fields: &[(&'static str, Cow<'_, str>)]) {
    let fixed = [("time", time), ("level", level), ("msg", message)];
    let fields = fields.iter().map(|(key, value)| (*key, value.as_ref()));
    for (index, (key, value)) in fixed.into_iter().chain(fields).enumerate() {
        if index > 0 {
            output.push(b' ');
        }
        output.extend_from_slice(key.as_bytes());
        output.push(b'=');
        if value.bytes().all(is_plain) {
            output.extend_from_slice(value.as_bytes());
        } else {
            write_quoted(output, value);
        }
    }
}

/// The characters that need no quotes.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._/@^+".contains(&byte)
}

/// A value in quotes with Go's escapes.
fn write_quoted(output: &mut Vec<u8>, value: &str) {
    output.push(b'"');
    for character in value.chars() {
        match character {
            '"' => output.extend_from_slice(b"\\\""),
            '\\' => output.extend_from_slice(b"\\\\"),
            '\n' => output.extend_from_slice(b"\\n"),
            '\r' => output.extend_from_slice(b"\\r"),
            '\t' => output.extend_from_slice(b"\\t"),
            control if control.is_control() => {
                output.extend_from_slice(format!("\\x{:02x}", u32::from(control)).as_bytes());
            }
            other => output.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    output.push(b'"');
}

fn write_json(output: &mut Vec<u8>, time: &str, level: &str, message: &str, fields: &[(&'static str, Cow<'_, str>)]) {
    let fixed = [("time", time), ("level", level), ("msg", message)];
    let fields = fields.iter().map(|(key, value)| (*key, value.as_ref()));
    let all: std::collections::BTreeMap<&str, &str> = fields.chain(fixed).collect();
    // A map of texts always has a JSON form, and memory takes it.
    let _ = serde_json::to_writer(output, &all);
}
