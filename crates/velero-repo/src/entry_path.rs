//! The paths of entries in a snapshot.

use std::sync::Arc;

/// The path of an entry of a folder.
pub(crate) fn join(folder: &str, name: &str) -> Arc<str> {
    if folder.is_empty() { Arc::from(name) } else { Arc::from(format!("{folder}/{name}")) }
}

/// Refuses names that could lead out of their folder.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    match name {
        "" => Err("it has no name"),
        "." | ".." => Err("its name would lead out of its directory"),
        _ if name.contains('/') => Err("its name has a slash"),
        _ if name.contains('\0') => Err("its name has a zero byte"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for wrong in ["", ".", "..", "/etc/passwd", "a/b", "a\0b"] {
            assert!(check_name(wrong).is_err(), "{wrong:?}");
        }
        for right in ["a", "...", "..a", "a b", "ü", "-"] {
            assert!(check_name(right).is_ok(), "{right:?}");
        }
    }
}
