//! Which objects a command works on, and what went wrong with some of them.

use anyhow::{Error, Result, anyhow, ensure};
use velero_api::resource::VeleroResource;
use velero_rules::selector::Selector;

use crate::arguments::{DeleteArguments, SelectArguments};
use crate::session::Session;

/// The objects that were found and the names that were not.
pub(super) struct Selected<K> {
    /// The objects.
    pub(super) items: Vec<K>,
    /// One error for each name that does not exist.
    pub(super) missing: Vec<Error>,
}

/// Finds the objects a command names.
pub(super) async fn select<K: VeleroResource>(session: &Session, arguments: &SelectArguments) -> Result<Selected<K>> {
    let mut selected = Selected { items: Vec::new(), missing: Vec::new() };
    if arguments.names.is_empty() {
        let selector = arguments.selector.as_ref().map(Selector::try_from).transpose()?.unwrap_or_default();
        selected.items = session.list(&selector.to_string()).await?.items;
    }
    for name in &arguments.names {
        match session.find(name).await? {
            Some(object) => selected.items.push(object),
            None => selected.missing.push(anyhow!("{}.velero.io {name:?} not found", K::PLURAL)),
        }
    }
    Ok(selected)
}

/// Refuses a command line that selects in no way or in several.
pub(super) fn validate(arguments: &SelectArguments, kind: &str) -> Result<()> {
    let ways = [!arguments.names.is_empty(), arguments.all, arguments.selector.is_some()];
    ensure!(
        ways.iter().filter(|way| **way).count() == 1,
        "you must specify exactly one of: specific {kind} name(s), the --all flag, or the --selector flag"
    );
    Ok(())
}

/// Checks the command line of a deletion and asks the person; says whether to go on.
pub(super) fn confirm_deletion(session: &Session, arguments: &DeleteArguments, kind: &str) -> Result<bool> {
    validate(&arguments.select, kind)?;
    if arguments.confirm { Ok(true) } else { session.printer.confirm() }
}

/// One error for several.
pub(super) fn aggregate(errors: &[Error]) -> Result<()> {
    let texts: Vec<String> = errors.iter().map(|error| format!("{error:#}")).collect();
    match texts.as_slice() {
        [] => Ok(()),
        [text] => Err(anyhow!("{text}")),
        _ => Err(anyhow!("[{}]", texts.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_way_to_select_is_needed() {
        let none = SelectArguments { names: Vec::new(), all: false, selector: None };
        let all = SelectArguments { all: true, ..none.clone() };
        let both = SelectArguments { names: vec!["a".to_owned()], ..all.clone() };
        assert!(validate(&none, "backup").is_err());
        assert!(validate(&all, "backup").is_ok());
        assert!(validate(&both, "backup").unwrap_err().to_string().contains("specific backup name(s)"));
    }

    #[test]
    fn several_errors_become_one() {
        assert_eq!(aggregate(&[anyhow!("a"), anyhow!("b")]).unwrap_err().to_string(), "[a, b]");
        assert!(aggregate(&[]).is_ok());
    }
}
