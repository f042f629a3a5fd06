//! Whether a backup whose server was interrupted is taken again, and under which name.

/// How often a backup is taken again.
const MOST: u32 = 2;
/// The longest name an object can have.
const LONGEST_NAME: usize = 253;

/// What is known of a backup whose server was interrupted while it ran.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interrupted<'a> {
    /// Its name.
    pub name: &'a str,
    /// The schedule that made it; empty when none did.
    pub schedule: &'a str,
    /// What its annotation says of being taken again; empty when it has none.
    pub wish: &'a str,
    /// Which try it was itself; empty for the first backup.
    pub number: &'a str,
    /// Whether somebody asked for its end, or it is being deleted.
    pub is_unwanted: bool,
}

/// The try that follows an interrupted backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The name of the backup to make. It follows from the name of the first one and the number of the try, so that who
    /// makes it twice makes one.
    pub name: String,
    /// Which try it is.
    pub number: u32,
}

impl Interrupted<'_> {
    /// The try that follows; nothing when the backup is not taken again.
    pub fn retry(&self) -> Option<Retry> {
        let wanted = match self.wish {
            "true" => true,
            "false" => false,
            _ => !self.schedule.is_empty(),
        };
        // A number that cannot be read is none of ours: it must not lead to tries without end.
        let before: u32 = if self.number.is_empty() { 0 } else { self.number.parse().unwrap_or(MOST) };
        if !wanted || self.is_unwanted || before >= MOST {
            return None;
        }
        let number = before + 1;
        let first = self.name.strip_suffix(&suffix(before)).filter(|_| before > 0).unwrap_or(self.name);
        let suffix = suffix(number);
        let room = first.len().min(LONGEST_NAME - suffix.len());
        let first = first.get(..room)?.trim_end_matches(['-', '.']);
        Some(Retry { name: format!("{first}{suffix}"), number })
    }
}

fn suffix(number: u32) -> String {
    format!("-retry-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_taken_again_as_the_table_says() {
        for (name, schedule, wish, number, is_unwanted, expected) in [
            ("b", "", "", "", false, None),
            ("b", "", "true", "", false, Some(("b-retry-1", 1))),
            ("b", "", "yes", "", false, None),
            ("daily-1", "daily", "", "", false, Some(("daily-1-retry-1", 1))),
            ("daily-1", "daily", "false", "", false, None),
            ("daily-1", "daily", "", "", true, None),
            ("daily-1-retry-1", "daily", "", "1", false, Some(("daily-1-retry-2", 2))),
            ("daily-1-retry-2", "daily", "", "2", false, None),
            ("daily-1-retry-1", "daily", "", "", false, Some(("daily-1-retry-1-retry-1", 1))),
            ("renamed", "daily", "", "1", false, Some(("renamed-retry-2", 2))),
            ("daily-1", "daily", "", "many", false, None),
            ("daily-1", "daily", "", "-1", false, None),
        ] {
            let retry = Interrupted { name, schedule, wish, number, is_unwanted }.retry();
            let expected = expected.map(|(name, number)| Retry { name: name.to_owned(), number });
            assert_eq!(retry, expected, "{name} {schedule} {wish} {number}");
        }
    }

    #[test]
    fn a_long_name_is_cut_and_stays_a_name() {
        let long = "a".repeat(244) + ".bcdefghi";
        let retry = Interrupted { name: &long, wish: "true", ..Interrupted::default() }.retry().unwrap();
        assert_eq!(retry.name, "a".repeat(244) + "-retry-1");
        assert!(retry.name.len() <= LONGEST_NAME);
    }
}
