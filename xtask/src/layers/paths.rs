//! Which paths the source of a module names. It is read word by word, not as the compiler reads it: enough for code that
//! `cargo fmt` has formatted, and no macro hides an import in ours.

/// A path that a module names, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// Its parts, from `crate`, `super`, `self` or a name on.
    pub(super) parts: Vec<String>,
    /// Under which name a `pub use` hands it on.
    pub(super) handed_on_as: Option<String>,
    /// Where it is written.
    pub(super) line: usize,
}

/// A word or a sign, and its line.
type Token = (usize, String);

/// The paths of a source with more than one part, outside of comments, strings and tests.
pub(super) fn paths(source: &str) -> Vec<Path> {
    let tokens = tokens(without_tests(source));
    let mut found = Vec::new();
    let mut handed_on = false;
    let mut at = 0;
    while at < tokens.len() {
        let (line, word) = &tokens[at];
        match word.as_str() {
            "use" => handed_on = is_public(&tokens, at),
            ";" => handed_on = false,
            _ if is_name(word) && follows(&tokens, at, "::") => {
                let mut reader = Reader { tokens: &tokens, at, handed_on, line: *line, found: &mut found };
                reader.read(&mut Vec::new());
                at = reader.at;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Whether `use` at a place stands behind `pub` or `pub(…)`.
fn is_public(tokens: &[Token], at: usize) -> bool {
    let word = |back: usize| at.checked_sub(back).map_or("", |place| tokens[place].1.as_str());
    word(1) == "pub" || (word(1) == ")" && word(3) == "(" && word(4) == "pub")
}

fn follows(tokens: &[Token], at: usize, sign: &str) -> bool {
    tokens.get(at + 1).is_some_and(|(_, word)| word == sign)
}

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Reads one path, or a tree of them, and stops behind it.
struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    handed_on: bool,
    line: usize,
    found: &'a mut Vec<Path>,
}

impl Reader<'_> {
    fn word(&self) -> &str {
        self.tokens.get(self.at).map_or("", |(_, word)| word)
    }

    fn read(&mut self, parts: &mut Vec<String>) {
        let depth = parts.len();
        while is_name(self.word()) || self.word() == "*" {
            self.line = self.tokens[self.at].0;
            parts.push(self.word().to_owned());
            self.at += 1;
            if self.word() != "::" {
                break;
            }
            self.at += 1;
        }
        if self.word() == "{" && self.tokens[self.at - 1].1 == "::" {
            self.read_group(parts);
        } else {
            self.keep(parts);
        }
        parts.truncate(depth);
    }

    fn read_group(&mut self, parts: &mut Vec<String>) {
        self.at += 1;
        while !matches!(self.word(), "}" | "") {
            let before = self.at;
            self.read(parts);
            if self.word() == "," || self.at == before {
                self.at += 1;
            }
        }
        self.at += 1;
    }

    fn keep(&mut self, parts: &[String]) {
        let mut parts = parts.to_vec();
        if parts.len() > 1 && parts.last().is_some_and(|last| last == "self") {
            parts.pop();
        }
        let mut name = parts.last().cloned();
        if self.word() == "as" {
            self.at += 1;
            name = Some(self.word().to_owned());
            self.at += 1;
        }
        if parts.len() > 1 || self.handed_on {
            self.found.push(Path { parts, handed_on_as: name.filter(|_| self.handed_on), line: self.line });
        }
    }
}

/// A source up to its tests, which may use anything.
fn without_tests(source: &str) -> &str {
    source.find("\n#[cfg(test)]\nmod ").map_or(source, |end| &source[..end])
}

/// The words and signs of a source, without comments and strings.
fn tokens(source: &str) -> Vec<Token> {
    let mut found = Vec::new();
    for (number, line) in without_strings(source).lines().enumerate() {
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let is_part = |sign: char| sign.is_alphanumeric() || sign == '_';
            let length = match first {
                _ if first.is_whitespace() => 0,
                _ if is_part(first) => rest.find(|sign| !is_part(sign)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                _ => first.len_utf8(),
            };
            if length > 0 {
                found.push((number + 1, rest[..length].to_owned()));
            }
            rest = &rest[length.max(first.len_utf8())..];
        }
    }
    found
}

/// A source without comments and strings; their lines stay, so that places stay right.
fn without_strings(source: &str) -> String {
    let mut kept = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let is_in_word = kept.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' => string_length(rest),
            'r' if !is_in_word => raw_string_length(rest),
            // A quotation mark as a character begins no string.
            '\'' if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") => {
                rest[1..].find("'").map_or(1, |end| end + 2)
            }
            _ => 0,
        };
        let (skipped, kept_sign) = if length == 0 { (first.len_utf8(), Some(first)) } else { (length, None) };
        kept.extend(kept_sign);
        if kept_sign.is_none() {
            kept.extend(rest[..skipped].chars().filter(|sign| *sign == '\n'));
        }
        rest = &rest[skipped..];
    }
    kept
}

/// How long the string is that a text begins with.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, sign) in text.char_indices().skip(1) {
        match sign {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// How long the raw string is that a text begins with; zero when it begins with none.
fn raw_string_length(text: &str) -> usize {
    let hashes = text[1..].chars().take_while(|sign| *sign == '#').count();
    if !text[1 + hashes..].starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let begin = hashes + 2;
    text[begin..].find(&end).map_or(text.len(), |at| begin + at + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_they_are_written() {
        let table: &[(&str, &[&str])] = &[
            ("use crate::a::b;", &["crate::a::b"]),
            (
                "use crate::a::{b, c::{D, self}, e as f};",
                &["crate::a::b", "crate::a::c::D", "crate::a::c", "crate::a::e"],
            ),
            ("use super::a::*;", &["super::a::*"]),
            ("pub(crate) fn f() { super::super::g(crate::a::h::<T>(x)) }", &["super::super::g", "crate::a::h"]),
            (
                "fn f(a: &child::Thing) -> crate::Error { child::make() }",
                &["child::Thing", "crate::Error", "child::make"],
            ),
            ("// crate::a::b\nlet text = \"crate::a::b\"; /// [`crate::c`]", &[]),
            ("let (sign, text) = ('\"', \"crate::a\"); crate::b::c();", &["crate::b::c"]),
            ("let text = r#\"a \"crate::a\" \"#; crate::b::c();", &["crate::b::c"]),
            ("let text = \"a \\\" crate::a\\\\\"; crate::b::c(); let r = r\"crate::d\";", &["crate::b::c"]),
            ("use std::x;\n#[cfg(test)]\nmod tests {\n    use crate::a::b;\n}", &["std::x"]),
        ];
        for (source, expected) in table {
            let found: Vec<String> = paths(source).iter().map(|path| path.parts.join("::")).collect();
            assert_eq!(found, *expected, "{source}");
        }
    }

    #[test]
    fn what_is_handed_on_has_a_name() {
        let table: &[(&str, Option<&str>)] = &[
            ("use a::B;", None),
            ("pub use a::B;", Some("B")),
            ("pub(crate) use a::B as C;", Some("C")),
            ("pub(crate) mod x;\nuse a::B;", None),
        ];
        for (source, expected) in table {
            let found = paths(source);
            assert_eq!(found.len(), 1, "{source}");
            assert_eq!(found[0].handed_on_as.as_deref(), *expected, "{source}");
        }
        assert_eq!(paths("\n\nuse crate::{\n    a::b,\n};")[0].line, 4);
    }
}
