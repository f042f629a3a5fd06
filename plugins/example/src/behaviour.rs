//! What the example does with an item, steered by annotations of the item.
//!
//! `example.velero.io/execute` (in a restore `…/restore-execute`, in a deletion `…/delete-execute`):
//!
//! | value | the call |
//! |---|---|
//! | `slow=2s` | takes that long |
//! | `fail` | fails |
//! | `hang` | never answers |
//! | `crash` | ends the process |
//! | `panic` | panics |
//! | `flood` | logs a hundred thousand lines first |
//! | `print` | prints a line to stdout, as a library might |
//! | `other-kind` | returns an item of another kind |

use std::time::Duration;

use serde_json::{Value, json};
use velero_plugin::{Error, Result, item};

use crate::DOMAIN;

/// How many lines a flood has.
const FLOOD: u32 = 100_000;

/// An annotation of the example on an item.
pub fn annotation<'a>(item: &'a Value, name: &str) -> Option<&'a str> {
    item::annotation(item, &format!("{DOMAIN}/{name}"))
}

/// Sets an annotation of the example.
pub fn annotate(item: &mut Value, name: &str, value: &str) {
    item::set_annotation(item, &format!("{DOMAIN}/{name}"), value);
}

/// A time such as `250ms`, `3s` or `2m`.
pub fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number = text[..digits].parse().ok()?;
    match &text[digits..] {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number * 60)),
        _ => None,
    }
}

/// Does what the annotation asks of a call, and says whether the item must become another.
#[expect(clippy::disallowed_methods, reason = "a crash cleans nothing up")]
pub async fn behave(item: &Value, name: &str) -> Result<Outcome> {
    let Some(behaviour) = annotation(item, name) else {
        return Ok(Outcome::Usual);
    };
    tracing::info!(behaviour, "behaving as the item asks");
    match behaviour {
        "fail" => return Err(Error::Failed("the item asked for a failure".to_owned())),
        "hang" => std::future::pending().await,
        "crash" => std::process::exit(7),
        "panic" => panic!("the item asked for a panic"),
        "other-kind" => return Ok(Outcome::OtherKind),
        "flood" => (0..FLOOD).for_each(|number| tracing::info!(number, "a line of the flood")),
        "print" => println!("a line on stdout"),
        other => match other.strip_prefix("slow=").and_then(duration) {
            Some(time) => tokio::time::sleep(time).await,
            None => return Err(Error::Failed(format!("annotation {name}: {other:?} is not a behaviour"))),
        },
    }
    Ok(Outcome::Usual)
}

/// What becomes of the item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// What the action usually makes of it.
    Usual,
    /// An item of another kind.
    OtherKind,
}

impl Outcome {
    /// Marks an item, or makes something else of it.
    pub fn apply(self, item: &Value, mark: &str, value: &str) -> Value {
        let mut item = item.clone();
        match self {
            Self::Usual => annotate(&mut item, mark, value),
            Self::OtherKind => item["kind"] = json!("SomethingElse"),
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_unit() {
        for (text, expected) in [
            ("250ms", Some(Duration::from_millis(250))),
            ("3s", Some(Duration::from_secs(3))),
            ("2m", Some(Duration::from_secs(120))),
            ("3", None),
            ("s", None),
            ("3h", None),
        ] {
            assert_eq!(duration(text), expected, "{text}");
        }
    }

    #[test]
    fn an_item_without_annotations_can_be_marked() {
        let item = json!({"kind": "Pod", "metadata": {"name": "web"}});
        let marked = Outcome::Usual.apply(&item, "backed-up-by", "nightly");
        assert_eq!(annotation(&marked, "backed-up-by"), Some("nightly"));
    }
}
