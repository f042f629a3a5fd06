//! Glob patterns with the meaning Velero gives them: `*`, `**`, `?`, `[abc]`, `[a-z]`, `[!a]`, `{a,b}` and `\` escapes.
//!
//! A class holds either a list of characters or exactly one range, as in the original: `[a-z0-9]` is an error.
//! Matching walks all reachable positions at once, so no pattern can make it slow.

/// The characters that turn a namespace name into a pattern.
const WILDCARD_CHARACTERS: [char; 3] = ['*', '?', '['];

/// How deep `{…}` may nest before a pattern is refused.
const DEEPEST_NESTING: usize = 32;

/// Why a pattern was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WildcardError {
    /// A character that namespace patterns do not support.
    #[error("wildcard pattern contains unsupported characters: |, (, ), !, {{, }}, ,")]
    UnsupportedCharacters,
    /// Two asterisks in a row in a namespace pattern.
    #[error("wildcard pattern contains consecutive asterisks (only single * allowed)")]
    ConsecutiveAsterisks,
    /// `[]` in a namespace pattern.
    #[error("wildcard pattern contains empty bracket pattern '[]'")]
    EmptyBracket,
    /// `[` without `]`.
    #[error("wildcard pattern contains unclosed bracket '['")]
    UnclosedBracket,
    /// `]` without `[`.
    #[error("wildcard pattern contains unmatched closing bracket ']'")]
    UnmatchedClosingBracket,
    /// A bracket that holds neither one list of characters nor one range.
    #[error(
        "wildcard pattern {pattern:?}: a bracket must hold a list of characters such as [abc] or one range such as [a-z]"
    )]
    MalformedClass {
        /// The whole pattern.
        pattern: String,
    },
    /// A range whose end comes before its beginning.
    #[error("wildcard pattern {pattern:?}: range end {high:?} comes before its beginning {low:?}")]
    BackwardRange {
        /// The whole pattern.
        pattern: String,
        /// The first character of the range.
        low: char,
        /// The last character of the range.
        high: char,
    },
    /// Alternatives nested beyond reason.
    #[error("wildcard pattern nests alternatives more than {DEEPEST_NESTING} deep")]
    TooDeep,
}

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wildcard {
    tokens: Vec<Token>,
    separator: Option<char>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Literal(char),
    AnyCharacter,
    AnyRun,
    AnyRunAcrossSeparators,
    List { negated: bool, characters: Vec<char> },
    Range { negated: bool, low: char, high: char },
    Alternatives(Vec<Vec<Self>>),
}

impl Wildcard {
    /// Compiles a pattern in which `*` crosses every character.
    pub fn compile(pattern: &str) -> Result<Self, WildcardError> {
        Parser::new(pattern).parse(None)
    }

    /// Compiles a pattern in which `*` and `?` stop at `separator`, while `**` crosses it.
    pub fn compile_with_separator(pattern: &str, separator: char) -> Result<Self, WildcardError> {
        Parser::new(pattern).parse(Some(separator))
    }

    /// Says whether the whole text matches.
    pub fn matches(&self, text: &str) -> bool {
        // Most entries are plain names, and most patterns begin like one: what differs there need not be searched.
        let (mut tokens, mut text) = (self.tokens.as_slice(), text.chars());
        while let [Token::Literal(expected), others @ ..] = tokens {
            if text.next() != Some(*expected) {
                return false;
            }
            tokens = others;
        }
        match tokens {
            [] => return text.next().is_none(),
            [Token::AnyRunAcrossSeparators] => return true,
            [Token::AnyRun] if self.separator.is_none() => return true,
            _ => {}
        }
        let text: Vec<char> = text.collect();
        let mut reachable = vec![false; text.len() + 1];
        reachable[0] = true;
        self.advance(tokens, &text, reachable)[text.len()]
    }

    /// Moves the set of reachable positions over a sequence of tokens.
    fn advance(&self, tokens: &[Token], text: &[char], mut reachable: Vec<bool>) -> Vec<bool> {
        for token in tokens {
            reachable = match token {
                Token::AnyRun => run(&reachable, |index| Some(text[index]) != self.separator),
                Token::AnyRunAcrossSeparators => run(&reachable, |_| true),
                Token::Alternatives(branches) => {
                    let mut union = vec![false; reachable.len()];
                    for branch in branches {
                        let ends = self.advance(branch, text, reachable.clone());
                        union.iter_mut().zip(ends).for_each(|(seen, end)| *seen |= end);
                    }
                    union
                }
                single => one(&reachable, |index| self.accepts(single, text[index])),
            };
        }
        reachable
    }

    fn accepts(&self, token: &Token, character: char) -> bool {
        match token {
            Token::Literal(expected) => *expected == character,
            Token::AnyCharacter => Some(character) != self.separator,
            Token::List { negated, characters } => characters.contains(&character) != *negated,
            Token::Range { negated, low, high } => (*low..=*high).contains(&character) != *negated,
            Token::AnyRun | Token::AnyRunAcrossSeparators | Token::Alternatives(_) => false,
        }
    }
}

fn one(reachable: &[bool], accepts: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut next = vec![false; reachable.len()];
    for index in 0..reachable.len() - 1 {
        next[index + 1] = reachable[index] && accepts(index);
    }
    next
}

fn run(reachable: &[bool], accepts: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut next = reachable.to_vec();
    for index in 0..reachable.len() - 1 {
        next[index + 1] |= next[index] && accepts(index);
    }
    next
}

struct Parser<'a> {
    pattern: &'a str,
    characters: Vec<char>,
    position: usize,
}

impl<'a> Parser<'a> {
    fn new(pattern: &'a str) -> Self {
        Self { pattern, characters: pattern.chars().collect(), position: 0 }
    }

    fn parse(mut self, separator: Option<char>) -> Result<Wildcard, WildcardError> {
        let mut branches = self.branches(0)?;
        Ok(Wildcard { tokens: branches.swap_remove(0), separator })
    }

    fn peek(&self) -> Option<char> {
        self.characters.get(self.position).copied()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.position += 1;
        Some(character)
    }

    /// Reads comma-separated branches up to the closing brace, or one branch when not nested.
    fn branches(&mut self, depth: usize) -> Result<Vec<Vec<Token>>, WildcardError> {
        if depth > DEEPEST_NESTING {
            return Err(WildcardError::TooDeep);
        }
        let nested = depth > 0;
        let mut finished = Vec::new();
        let mut branch = Vec::new();
        while let Some(character) = self.next() {
            match character {
                ',' if nested => finished.push(std::mem::take(&mut branch)),
                '}' if nested => break,
                '{' => branch.push(Token::Alternatives(self.branches(depth + 1)?)),
                '[' => branch.push(self.class()?),
                '?' => branch.push(Token::AnyCharacter),
                '*' if self.peek() == Some('*') => {
                    self.position += 1;
                    branch.push(Token::AnyRunAcrossSeparators);
                }
                '*' => branch.push(Token::AnyRun),
                '\\' => branch.extend(self.next().map(Token::Literal)),
                literal => branch.push(Token::Literal(literal)),
            }
        }
        finished.push(branch);
        Ok(finished)
    }

    fn class(&mut self) -> Result<Token, WildcardError> {
        let negated = self.peek() == Some('!');
        if negated {
            self.position += 1;
        }
        if self.characters.get(self.position + 1) == Some(&'-') {
            return self.range(negated);
        }
        let mut characters = Vec::new();
        loop {
            match self.next() {
                None => return Err(WildcardError::UnclosedBracket),
                Some(']') if characters.is_empty() => return Err(self.malformed()),
                Some(']') => {
                    return Ok(Token::List { negated, characters });
                }
                Some('\\') => characters.extend(self.next()),
                Some(character) => characters.push(character),
            }
        }
    }

    fn range(&mut self, negated: bool) -> Result<Token, WildcardError> {
        let low = self.next();
        self.position += 1;
        let high = self.next();
        let (Some(low), Some(high)) = (low, high) else {
            return Err(WildcardError::UnclosedBracket);
        };
        match self.next() {
            None => Err(WildcardError::UnclosedBracket),
            Some(']') if high < low => {
                Err(WildcardError::BackwardRange { pattern: self.pattern.to_owned(), low, high })
            }
            Some(']') => Ok(Token::Range { negated, low, high }),
            Some(_) => Err(self.malformed()),
        }
    }

    fn malformed(&self) -> WildcardError {
        WildcardError::MalformedClass { pattern: self.pattern.to_owned() }
    }
}

/// Says whether a pattern matches its own text and nothing else.
pub(crate) fn is_plain(pattern: &str) -> bool {
    !pattern.contains(['*', '?', '[', '{', '\\'])
}

/// Says whether a namespace entry is a pattern rather than a name.
pub fn contains_wildcard(pattern: &str) -> bool {
    pattern.contains(WILDCARD_CHARACTERS)
}

/// Checks that a namespace entry is a pattern this server understands.
pub fn validate_namespace_pattern(pattern: &str) -> Result<(), WildcardError> {
    if pattern.contains(['|', '(', ')', '!', '{', '}', ',']) {
        return Err(WildcardError::UnsupportedCharacters);
    }
    if pattern.contains("**") {
        return Err(WildcardError::ConsecutiveAsterisks);
    }
    validate_brackets(pattern)?;
    Wildcard::compile(pattern).map(drop)
}

fn validate_brackets(pattern: &str) -> Result<(), WildcardError> {
    let mut open: Option<usize> = None;
    for (index, character) in pattern.char_indices() {
        match (character, open) {
            ('[', None) => open = Some(index),
            (']', Some(start)) if start + 1 == index => return Err(WildcardError::EmptyBracket),
            (']', Some(_)) => open = None,
            (']', None) => return Err(WildcardError::UnmatchedClosingBracket),
            _ => {}
        }
    }
    match open {
        Some(_) => Err(WildcardError::UnclosedBracket),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_match_as_the_table_says() {
        let table: &[(&str, &[&str], &[&str])] = &[
            ("", &[""], &["a"]),
            ("abc", &["abc"], &["ab", "abcd", ""]),
            ("*", &["", "a", "a.b"], &[]),
            ("app-*", &["app-", "app-prod"], &["app", "my-app-1"]),
            ("app-**", &["app-", "app-prod"], &["app", "my-app-1"]),
            ("*-prod", &["a-prod", "-prod"], &["prod", "a-prod-b"]),
            ("*a*b*a*", &["abba", "xaxbxax"], &["aab", "ba"]),
            ("ns?", &["ns1", "nsä"], &["ns", "ns10"]),
            ("ns[abc]", &["nsa", "nsc"], &["nsd", "ns", "nsab"]),
            ("ns[a-c]", &["nsa", "nsb"], &["nsd", "ns-"]),
            ("ns[!a]", &["nsb"], &["nsa", "ns"]),
            ("ns[!a-c]", &["nsd"], &["nsb"]),
            ("ns[ab-d]", &["nsa", "ns-", "nsd"], &["nsc"]),
            ("{pods,*.apps}", &["pods", "deployments.apps"], &["jobs.batch", ""]),
            ("a{b,c{d,}}e", &["abe", "acde", "ace"], &["ade", "acd"]),
            ("a{b", &["ab"], &["a{b"]),
            (r"a\*", &["a*"], &["ab", r"a\b"]),
            ("a,b}", &["a,b}"], &["a"]),
            ("a]", &["a]"], &["a"]),
        ];
        for (pattern, matching, other) in table {
            let wildcard = Wildcard::compile(pattern).unwrap();
            for text in *matching {
                assert!(wildcard.matches(text), "{pattern:?} must match {text:?}");
            }
            for text in *other {
                assert!(!wildcard.matches(text), "{pattern:?} must not match {text:?}");
            }
        }
    }

    #[test]
    fn a_single_asterisk_stops_at_the_separator_and_two_cross_it() {
        let core_only = Wildcard::compile_with_separator("*", '.').unwrap();
        assert!(core_only.matches("pods"));
        assert!(!core_only.matches("deployments.apps"));
        assert!(Wildcard::compile_with_separator("**", '.').unwrap().matches("deployments.apps"));
        assert!(!Wildcard::compile_with_separator("a?b", '.').unwrap().matches("a.b"));
        assert!(!Wildcard::compile_with_separator("a*", '.').unwrap().matches("ab.c"));
        assert!(Wildcard::compile_with_separator("a*", '.').unwrap().matches("abc"));
        assert!(Wildcard::compile_with_separator("a**", '.').unwrap().matches("ab.c"));
    }

    #[test]
    fn a_class_with_several_ranges_is_refused() {
        for pattern in ["ns[a-z0-9]", "[]", "[!]", "[a-", "[a", "[a-]", "[z-a]"] {
            assert!(Wildcard::compile(pattern).is_err(), "{pattern:?}");
        }
    }

    #[test]
    fn namespace_patterns_are_validated() {
        use WildcardError::*;
        for valid in ["ns", "*", "ns*", "ns?", "ns[abc]", "prefix-[a-c]-suffix", "app.prod", "[a][b]"] {
            assert_eq!(validate_namespace_pattern(valid), Ok(()), "{valid}");
        }
        let table = [
            ("ns(1|2)", UnsupportedCharacters),
            ("ns[!a]", UnsupportedCharacters),
            ("ns{a,b}", UnsupportedCharacters),
            ("app-**", ConsecutiveAsterisks),
            ("ns[]", EmptyBracket),
            ("ns[abc", UnclosedBracket),
            ("ns-abc]", UnmatchedClosingBracket),
            ("ns[a]]", UnmatchedClosingBracket),
            ("ns[a-z0-9]", MalformedClass { pattern: "ns[a-z0-9]".into() }),
        ];
        for (pattern, error) in table {
            assert_eq!(validate_namespace_pattern(pattern), Err(error), "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn no_pattern_panics(pattern in ".{0,40}", text in ".{0,40}") {
            if let Ok(wildcard) = Wildcard::compile(&pattern) {
                let _ = wildcard.matches(&text);
            }
            let _ = validate_namespace_pattern(&pattern);
        }

        #[test]
        fn patterns_of_special_characters_never_panic(pattern in r"[\[\]{}!,*?\\a-]{0,60}") {
            if let Ok(wildcard) = Wildcard::compile(&pattern) {
                let _ = wildcard.matches("a-a");
            }
        }

        #[test]
        fn what_is_plain_matches_itself_only(pattern in r"[\[\]{}!,*?\\ab-]{0,4}", other in r"[\]}!,ab-]{0,4}") {
            if is_plain(&pattern) {
                let wildcard = Wildcard::compile(&pattern).unwrap();
                prop_assert!(wildcard.matches(&pattern));
                prop_assert_eq!(wildcard.matches(&other), pattern == other);
            }
        }

        #[test]
        fn a_plain_name_matches_itself_only(name in "[a-z0-9.-]{1,20}", other in "[a-z0-9.-]{1,20}") {
            let wildcard = Wildcard::compile(&name).unwrap();
            prop_assert!(wildcard.matches(&name));
            prop_assert_eq!(wildcard.matches(&other), name == other);
        }
    }
}
