//! What is done for a person: a form, and what comes of it. Everything is done with the token of that person.

pub(crate) mod cancel;
pub(crate) mod delete;
mod matched;
pub(crate) mod new_backup;
pub(crate) mod new_restore;
pub(crate) mod preview;
pub(crate) mod schedule;
pub(crate) mod sign_in;

use axum::response::Redirect;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use velero_rules::selector::Selector;

use crate::problem::Problem;

/// Where to go once it is done, or why it is not.
pub(crate) type Done = Result<Redirect, Problem>;

/// What is said of a field for labels.
const LABELS: &str = "as in app=web,tier!=cache; nothing means any";

/// The labels that somebody typed, as the flag of the commands takes them; none where nothing was.
fn selector(text: &str) -> Result<Option<LabelSelector>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = text.parse::<Selector>().and_then(|selector| selector.to_label_selector());
    parsed.map(Some).map_err(|error| format!("labels are written as app=web,tier!=cache: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_taken_as_the_commands_take_them() {
        assert_eq!(selector(""), Ok(None));
        let labels = selector("app=web,tier!=cache").unwrap().unwrap();
        assert_eq!(labels.match_labels.unwrap()["app"], "web");
        assert_eq!(labels.match_expressions.unwrap()[0].key, "tier");
        let problem = selector("app=<b>").unwrap_err();
        assert!(problem.contains("app=web"), "{problem}");
    }
}
