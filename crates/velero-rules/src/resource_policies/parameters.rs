//! What the snapshot action of a volume policy is told beside its type.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{PolicyError, VolumeActionType, invalid};

const SNAPSHOT_CLASS: &str = "snapshotClass";
const DATA_MOVER: &str = "dataMover";
/// The data mover that is built in.
const BUILT_IN: &str = "velero";
/// What else that one is called.
const NAMES_OF_BUILT_IN: [&str; 3] = ["", BUILT_IN, "velero-fs"];
/// One that the version of Velero to come has, and this one has not.
const BLOCK_MOVER: &str = "velero-block";

/// With what a snapshot is taken and its data moved, as far as a volume policy says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotParameters {
    /// The VolumeSnapshotClass. What the claim itself names goes before it.
    pub snapshot_class: Option<String>,
    /// The data mover. Whether data is moved at all is up to the backup.
    pub data_mover: Option<String>,
}

impl SnapshotParameters {
    /// Reads the parameters of an action; those of other actions may only have what is not meant here. `place` is where they
    /// stand in the document.
    pub(super) fn read(
        place: &str,
        kind: VolumeActionType,
        parameters: &BTreeMap<String, Value>,
    ) -> Result<Self, PolicyError> {
        let text = |key: &str| match parameters.get(key) {
            None => Ok(None),
            Some(_) if kind != VolumeActionType::Snapshot => Err(invalid(format!(
                "{place}.{key}: only the action snapshot has this parameter; remove it, or make the type snapshot"
            ))),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(invalid(format!("{place}.{key}: {other} is no text; write it in quotes"))),
        };
        let snapshot_class = text(SNAPSHOT_CLASS)?;
        if snapshot_class.as_deref() == Some("") {
            return Err(invalid(format!(
                "{place}.{SNAPSHOT_CLASS}: it is empty; name a VolumeSnapshotClass, or remove the parameter"
            )));
        }
        let data_mover = text(DATA_MOVER)?.map(|name| built_in(place, &name)).transpose()?;
        Ok(Self { snapshot_class, data_mover })
    }
}

fn built_in(place: &str, name: &str) -> Result<String, PolicyError> {
    match name {
        name if NAMES_OF_BUILT_IN.contains(&name) => Ok(BUILT_IN.to_owned()),
        BLOCK_MOVER => {
            Err(invalid(format!("{place}.{DATA_MOVER}: {BLOCK_MOVER} is not there in this version; use {BUILT_IN}")))
        }
        other => Err(invalid(format!(
            "{place}.{DATA_MOVER}: {other:?} is unknown; use {BUILT_IN}, or name the data mover of a vendor in spec.dataMover of the \
             backup"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ResourcePolicies, VolumeData};

    fn parsed(action: &str) -> Result<ResourcePolicies, String> {
        let document = format!("version: v1\nvolumePolicies:\n- conditions: {{}}\n  action: {action}\n");
        ResourcePolicies::parse(&document).map_err(|error| error.to_string())
    }

    #[test]
    fn a_snapshot_action_names_class_and_data_mover() {
        for (action, class, mover) in [
            ("{type: snapshot}", None, None),
            ("{type: snapshot, parameters: {}}", None, None),
            ("{type: snapshot, parameters: {snapshotClass: fast}}", Some("fast"), None),
            ("{type: snapshot, parameters: {dataMover: velero}}", None, Some("velero")),
            ("{type: snapshot, parameters: {dataMover: velero-fs}}", None, Some("velero")),
            ("{type: snapshot, parameters: {dataMover: '', snapshotClass: a}}", Some("a"), Some("velero")),
            ("{type: custom, parameters: {anything: 1}}", None, None),
            ("{type: fs-backup, parameters: {speed: slow}}", None, None),
        ] {
            let found = parsed(action).unwrap().snapshot_parameters(&VolumeData::default());
            assert_eq!((found.snapshot_class.as_deref(), found.data_mover.as_deref()), (class, mover), "{action}");
        }
    }

    #[test]
    fn parameters_that_cannot_be_meant_are_refused_with_place_and_remedy() {
        for (action, expected) in [
            ("{type: skip, parameters: {snapshotClass: a}}", "volumePolicies[0].action.parameters.snapshotClass: only"),
            (
                "{type: fs-backup, parameters: {dataMover: velero}}",
                "action.parameters.dataMover: only the action snapshot",
            ),
            ("{type: custom, parameters: {dataMover: velero}}", "make the type snapshot"),
            ("{type: snapshot, parameters: {snapshotClass: ''}}", "it is empty; name a VolumeSnapshotClass"),
            ("{type: snapshot, parameters: {snapshotClass: 7}}", "7 is no text"),
            ("{type: snapshot, parameters: {dataMover: [velero]}}", "is no text"),
            ("{type: snapshot, parameters: {dataMover: velero-block}}", "is not there in this version; use velero"),
            ("{type: snapshot, parameters: {dataMover: vendor}}", "spec.dataMover of the backup"),
        ] {
            let refusal = parsed(action).unwrap_err();
            assert!(refusal.contains(expected), "{action}: {refusal}");
        }
    }
}
