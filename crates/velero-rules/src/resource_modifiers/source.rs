//! Whose modifiers change the objects of a restore.

use k8s_openapi::api::core::v1::TypedLocalObjectReference;
use velero_api::v1::RestoreSpec;

/// Whose modifiers change the objects of a restore.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ModifierSource<'a> {
    /// Nobody's.
    Nobody,
    /// Those the restore names.
    Restore(&'a TypedLocalObjectReference),
    /// Those the server has for restores that name none, by the name of their ConfigMap.
    Server(&'a str),
}

impl<'a> ModifierSource<'a> {
    /// Decides by what the restore says. Its own modifiers count alone: those of the server are not mixed in, so that who writes
    /// modifiers sees all that is changed.
    pub fn of(spec: &'a RestoreSpec, server_default: &'a str) -> Self {
        match &spec.resource_modifier {
            Some(own) => Self::Restore(own),
            None if server_default.is_empty() || spec.skip_default_resource_modifier == Some(true) => Self::Nobody,
            None => Self::Server(server_default),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restore_has_its_own_modifiers_or_those_of_the_server_unless_it_wants_none() {
        let own = TypedLocalObjectReference { kind: "configmap".to_owned(), name: "own".to_owned(), api_group: None };
        for (named, skips, default, expected) in [
            (None, None, "", ModifierSource::Nobody),
            (None, Some(true), "", ModifierSource::Nobody),
            (None, None, "all", ModifierSource::Server("all")),
            (None, Some(false), "all", ModifierSource::Server("all")),
            (None, Some(true), "all", ModifierSource::Nobody),
            (Some(&own), None, "", ModifierSource::Restore(&own)),
            (Some(&own), None, "all", ModifierSource::Restore(&own)),
            (Some(&own), Some(true), "all", ModifierSource::Restore(&own)),
        ] {
            let spec = RestoreSpec {
                resource_modifier: named.cloned(),
                skip_default_resource_modifier: skips,
                ..RestoreSpec::default()
            };
            assert_eq!(ModifierSource::of(&spec, default), expected, "{named:?} {skips:?} {default:?}");
        }
    }
}
