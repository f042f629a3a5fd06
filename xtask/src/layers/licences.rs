//! Licences as crates name them: `MIT OR (Apache-2.0 AND ISC)`, in old crates `MIT/Apache-2.0`.

/// Whether what is allowed is enough to use something under this expression. One that cannot be read is not allowed.
pub(super) fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    matches!(either(&words, allowed), Some((true, [])))
}

/// Whether it is allowed, and the words behind it.
type Read<'a, 'b> = Option<(bool, &'a [&'b str])>;

fn either<'a, 'b>(words: &'a [&'b str], allowed: &[String]) -> Read<'a, 'b> {
    let (mut is_allowed, mut rest) = both(words, allowed)?;
    while let ["OR", behind @ ..] = rest {
        let (other, behind) = both(behind, allowed)?;
        (is_allowed, rest) = (is_allowed || other, behind);
    }
    Some((is_allowed, rest))
}

fn both<'a, 'b>(words: &'a [&'b str], allowed: &[String]) -> Read<'a, 'b> {
    let (mut is_allowed, mut rest) = one(words, allowed)?;
    while let ["AND", behind @ ..] = rest {
        let (other, behind) = one(behind, allowed)?;
        (is_allowed, rest) = (is_allowed && other, behind);
    }
    Some((is_allowed, rest))
}

fn one<'a, 'b>(words: &'a [&'b str], allowed: &[String]) -> Read<'a, 'b> {
    match words {
        ["(", behind @ ..] => match either(behind, allowed)? {
            (is_allowed, [")", behind @ ..]) => Some((is_allowed, behind)),
            _ => None,
        },
        [name, "WITH", exception, behind @ ..] => {
            let name = format!("{name} WITH {exception}");
            Some((allowed.contains(&name), behind))
        }
        [name, behind @ ..] => Some((allowed.iter().any(|allowed| allowed == name), behind)),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_allowed_if_some_choice_is() {
        let allowed = ["MIT", "ISC", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("Unlicense/MIT", true),
            ("Apache-2.0 / MIT", true),
            ("MIT AND GPL-3.0", false),
            ("GPL-3.0 OR MIT AND ISC", true),
            ("(GPL-3.0 OR MIT) AND ISC", true),
            ("ISC AND (GPL-3.0 OR BSD-3-Clause)", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("MIT WITH LLVM-exception", false),
            ("(MIT", false),
            ("MIT OR", false),
            ("MIT)", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), expected, "{expression:?}");
        }
    }
}
