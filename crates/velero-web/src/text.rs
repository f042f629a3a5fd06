//! Words and figures as the page writes them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// Whether an object can have this name. Anybody may write anything into an address, and the name becomes part of a
/// request to the API server.
pub(crate) fn is_object_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let ends = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = name.as_bytes();
    bytes.len() <= LONGEST_NAME && bytes.iter().copied().all(is_part) && ends(bytes.first()) && ends(bytes.last())
}

/// A moment, to the second.
pub(crate) fn moment(time: Option<&Time>) -> Option<Timestamp> {
    Timestamp::from_second(time?.0.as_second()).ok()
}

/// How far two moments lie apart: `3d 4h`, `5m 6s`.
pub(crate) fn span(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.as_second().saturating_sub(from.as_second()).max(0);
    let parts = [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let begin = parts.iter().position(|(count, _)| *count > 0).unwrap_or(3);
    let shown: Vec<String> = parts[begin..].iter().take(2).map(|(count, unit)| format!("{count}{unit}")).collect();
    shown.join(" ")
}

/// A number of bytes: `1.5 GiB`.
pub(crate) fn size(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes.max(0) as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{} B", bytes.max(0)) } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// The entries of a list that somebody typed: separated by commas or blanks, none twice.
pub(crate) fn entries(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for entry in text.split([',', ' ', '\n', '\r', '\t']).filter(|entry| !entry.is_empty()) {
        if !found.iter().any(|known| known == entry) {
            found.push(entry.to_owned());
        }
    }
    found
}

/// A part of an address: what is not a letter, a digit or one of `-._~` is written as `%xx`.
pub(crate) fn address_part(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => written.push(char::from(byte)),
            other => written.push_str(&format!("%{other:02X}")),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_an_object_is_not_looked_for() {
        assert!(is_object_name("nginx-backup-20260101") && is_object_name("a.b") && is_object_name("0"));
        let long = "a".repeat(254);
        for name in ["", ".", "..", "../secrets", "a/b", "a?watch=true", "a%2fb", "Big", "a\nb", "-a", "a-", &long] {
            assert!(!is_object_name(name), "{name}");
        }
    }

    #[test]
    fn spans_and_sizes_are_told_in_two_units() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        for (seconds, expected) in [(0, "0s"), (59, "59s"), (61, "1m 1s"), (3600, "1h 0m"), (90_000, "1d 1h")] {
            assert_eq!(span(at(0), at(seconds)), expected);
        }
        assert_eq!(span(at(5), at(0)), "0s", "clocks differ");
        for (bytes, expected) in [(-1, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 40, "1.0 TiB")] {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn a_typed_list_is_taken_as_people_type_it() {
        assert_eq!(entries(" a, b\r\nc,,a "), ["a", "b", "c"]);
        assert!(entries(" , ").is_empty());
    }

    #[test]
    fn a_part_of_an_address_stays_one() {
        assert_eq!(address_part("a b/c?d=e&f\"<é"), "a%20b%2Fc%3Fd%3De%26f%22%3C%C3%A9");
    }
}
