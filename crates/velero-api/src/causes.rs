//! An error in words.

/// An error with all its causes on one line: the words of client libraries often say no more than that something failed.
/// What an outer error repeats is told once.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let words = next.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(&'static str, std::io::Error);

    impl std::fmt::Display for Outer {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str(self.0)
        }
    }

    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.1)
        }
    }

    #[test]
    fn every_cause_is_told_once() {
        let refused = || std::io::Error::other("connection refused");
        assert_eq!(with_causes(&Outer("client error", refused())), "client error: connection refused");
        assert_eq!(with_causes(&Outer("connection refused by 10.0.0.1", refused())), "connection refused by 10.0.0.1");
    }
}
