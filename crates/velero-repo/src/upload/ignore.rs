//! `.kopiaignore`: files that a volume itself asks to leave out. Patterns are those of `.gitignore`. Pure.

/// The file with the patterns of its folder and all below.
pub(super) const IGNORE_FILE: &str = ".kopiaignore";
/// The file that says its folder is a cache, and how it begins.
pub(super) const CACHE_TAG: &str = "CACHEDIR.TAG";
pub(super) const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// A pattern that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pattern {pattern:?} {problem}")]
pub(super) struct BadPattern {
    pattern: String,
    problem: &'static str,
}

/// The patterns of one file.
pub(super) struct IgnoreRules {
    /// How long the path of the folder with the file is.
    base: usize,
    patterns: Vec<Pattern>,
}

impl IgnoreRules {
    /// Reads the patterns of the file in a folder.
    pub(super) fn parse(folder: &str, text: &str) -> Result<Self, BadPattern> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let patterns = lines.map(Pattern::parse).collect::<Result<_, _>>()?;
        Ok(Self { base: folder.len(), patterns })
    }

    /// Whether the last pattern that has a say leaves a path out. The path begins with that of the folder.
    pub(super) fn ignore(&self, path: &str, is_folder: bool) -> bool {
        let below = path.get(self.base..).unwrap_or(path);
        let below: Vec<char> = std::iter::once('/').chain(below.trim_start_matches('/').chars()).collect();
        let mut ignored = false;
        for pattern in &self.patterns {
            if pattern.negated == ignored && pattern.matches(&below, is_folder) {
                ignored = !pattern.negated;
            }
        }
        ignored
    }
}

struct Pattern {
    tokens: Vec<Token>,
    folders_only: bool,
    negated: bool,
}

enum Token {
    /// One letter; a slash is one of them.
    Letter(char),
    /// `?`: any letter but a slash.
    Any,
    /// `*`: any letters but slashes.
    Star,
    /// `**`: anything.
    DoubleStar,
    /// `[…]`.
    Set { negated: bool, members: Vec<(char, char)> },
}

impl Pattern {
    fn parse(line: &str) -> Result<Self, BadPattern> {
        let wrong = |problem| BadPattern { pattern: line.to_owned(), problem };
        let mut text = if line.ends_with("\\ ") { line.trim_start() } else { line.trim() };
        let negated = text.starts_with('!');
        text = text.strip_prefix('!').unwrap_or(text);
        let folders_only = text.ends_with('/');
        text = text.strip_suffix('/').unwrap_or(text);
        let mut tokens = Vec::new();
        if !text.contains('/') {
            tokens.push(Token::DoubleStar);
        }
        if !text.starts_with('/') {
            tokens.push(Token::Letter('/'));
        }
        let letters: Vec<char> = text.chars().collect();
        let mut at = 0;
        while let Some(&letter) = letters.get(at) {
            at += 1;
            match letter {
                '\\' => {
                    let escaped = letters.get(at).ok_or_else(|| wrong("ends in a backslash"))?;
                    tokens.push(Token::Letter(*escaped));
                    at += 1;
                }
                '?' => tokens.push(Token::Any),
                '*' => {
                    let before = at.checked_sub(2).map(|before| letters[before]);
                    let stars = letters[at..].iter().take_while(|letter| **letter == '*').count();
                    at += stars;
                    let alone = before.is_none() || before == Some('/') && matches!(letters.get(at), None | Some('/'));
                    tokens.push(if stars > 0 && alone { Token::DoubleStar } else { Token::Star });
                }
                '[' => {
                    let (set, end) = parse_set(&letters, at).ok_or_else(|| wrong("has a set without its end"))?;
                    tokens.push(set);
                    at = end;
                }
                other => tokens.push(Token::Letter(other)),
            }
        }
        Ok(Self { tokens, folders_only, negated })
    }

    /// Follows all ways through the pattern at once, so that no pattern takes long.
    fn matches(&self, path: &[char], is_folder: bool) -> bool {
        if self.folders_only && !is_folder {
            return false;
        }
        let mut places = vec![false; self.tokens.len() + 1];
        self.enter(0, &mut places);
        for letter in path {
            let mut next = vec![false; places.len()];
            for (place, token) in self.tokens.iter().enumerate().filter(|(place, _)| places[*place]) {
                let stays = match token {
                    Token::Star => *letter != '/',
                    Token::DoubleStar => true,
                    _ => false,
                };
                let passes = match token {
                    Token::Letter(wanted) => letter == wanted,
                    Token::Any => *letter != '/',
                    Token::Set { negated, members } => {
                        members.iter().any(|(first, last)| (first..=last).contains(&letter)) != *negated
                    }
                    Token::Star | Token::DoubleStar => false,
                };
                if stays {
                    next[place] = true;
                    self.enter(place + 1, &mut next);
                }
                if passes {
                    self.enter(place + 1, &mut next);
                }
            }
            places = next;
        }
        places[self.tokens.len()]
    }

    /// Marks a place and those that are reached from it without a letter.
    fn enter(&self, place: usize, places: &mut [bool]) {
        places[place] = true;
        match self.tokens.get(place) {
            Some(Token::Star) => self.enter(place + 1, places),
            Some(Token::DoubleStar) => {
                self.enter(place + 1, places);
                // `**/x` is also `x`, but only where a name begins; and the start of a path is its slash.
                if place > 0 && matches!(self.tokens.get(place + 1), Some(Token::Letter('/'))) && !places[place + 2] {
                    self.enter(place + 2, places);
                }
            }
            _ => {}
        }
    }
}

/// The set after its opening bracket, and where it ends.
fn parse_set(letters: &[char], mut at: usize) -> Option<(Token, usize)> {
    let negated = letters.get(at) == Some(&'!');
    at += usize::from(negated);
    let mut members = Vec::new();
    let escaped = |at: usize| match letters.get(at)? {
        '\\' => Some((*letters.get(at + 1)?, at + 2)),
        letter => Some((*letter, at + 1)),
    };
    loop {
        if *letters.get(at)? == ']' {
            return Some((Token::Set { negated, members }, at + 1));
        }
        if let Some((class, end)) = parse_class(letters, at) {
            members.extend_from_slice(class);
            at = end;
            continue;
        }
        let (first, after) = escaped(at)?;
        let is_range = letters.get(after) == Some(&'-') && letters.get(after + 1).is_some_and(|next| *next != ']');
        let (last, after) = if is_range { escaped(after + 1)? } else { (first, after) };
        members.push((first, last));
        at = after;
    }
}

/// A named class such as `[:digit:]` and where it ends.
fn parse_class(letters: &[char], at: usize) -> Option<(&'static [(char, char)], usize)> {
    const CLASSES: [(&str, &[(char, char)]); 10] = [
        ("alnum", &[('0', '9'), ('A', 'Z'), ('a', 'z')]),
        ("alpha", &[('A', 'Z'), ('a', 'z')]),
        ("ascii", &[('\0', '\u{7f}')]),
        ("blank", &[(' ', ' '), ('\t', '\t')]),
        ("digit", &[('0', '9')]),
        ("lower", &[('a', 'z')]),
        ("punct", &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')]),
        ("space", &[(' ', ' '), ('\t', '\r')]),
        ("upper", &[('A', 'Z')]),
        ("xdigit", &[('0', '9'), ('A', 'F'), ('a', 'f')]),
    ];
    let rest: String = letters.get(at..)?.iter().take(10).collect();
    let rest = rest.strip_prefix("[:")?;
    let (name, members) =
        CLASSES.iter().find(|(name, _)| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with(":]")))?;
    Some((members, at + name.len() + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_those_of_git() {
        for (pattern, path, is_folder, expected) in [
            ("*.log", "a.log", false, true),
            ("*.log", "deep/er/a.log", false, true),
            ("*.log", "a.log.txt", false, false),
            ("/a", "a", false, true),
            ("/a", "b/a", false, false),
            ("a/b", "a/b", false, true),
            ("a/b", "c/a/b", false, false),
            ("cache/", "cache", true, true),
            ("cache/", "cache", false, false),
            ("cache/", "x/cache", true, true),
            ("a/**", "a/b/c", false, true),
            ("a/**", "a", true, false),
            ("a/**/z", "a/z", false, true),
            ("a/**/z", "a/b/c/z", false, true),
            ("a/**/z", "a/bz", false, false),
            ("**/z", "z", false, true),
            ("**/z", "b/z", false, true),
            ("**", "x/y", false, true),
            ("a*b", "axxb", false, true),
            ("/a*b", "ax/xb", false, false),
            ("a?c", "abc", false, true),
            ("[a-c]x", "bx", false, true),
            ("[!a-c]x", "bx", false, false),
            ("[[:digit:]]x", "7x", false, true),
            ("\\!x", "!x", false, true),
            ("\\#x", "#x", false, true),
            ("x  ", "x", false, true),
            ("*", "any/thing", false, true),
        ] {
            let rules = IgnoreRules::parse("", pattern).unwrap();
            assert_eq!(rules.ignore(path, is_folder), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn the_last_word_counts_and_comments_have_none() {
        let rules = IgnoreRules::parse("base", "# note\n\n*.log\n!keep.log\n").unwrap();
        assert!(rules.ignore("base/x.log", false));
        assert!(!rules.ignore("base/keep.log", false));
        assert!(!rules.ignore("base/x.txt", false));
        for wrong in ["a\\", "[a-"] {
            assert!(IgnoreRules::parse("", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_pattern_takes_long() {
        let rules = IgnoreRules::parse("", &"*a".repeat(60)).unwrap();
        assert!(!rules.ignore(&format!("{}b", "a".repeat(4000)), false));
    }
}
