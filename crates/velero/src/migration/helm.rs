//! What Helm remembers of a release: its chart, and the values it was given.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use serde_json::Value;

use super::{Line, Verdict, text};

/// The values our chart takes.
const OUR_SCHEMA: &str = include_str!("../../../../deploy/chart/velero/values.schema.json");
/// How the description of a value begins that the chart knows and refuses.
const REFUSED: &str = "Refused: ";
/// What says which image runs.
const OF_THE_IMAGE: [&str; 3] = ["repository", "tag", "digest"];
const WRONG_IMAGE: &str = "our chart refuses the image of the original: leave it out, or name a copy of ours";
/// The oldest of Velero's charts whose objects have the names of ours.
const OLDEST_CHART: u32 = 11;
/// The newest of them that is known.
const NEWEST_CHART: u32 = 12;
/// The labels that the pods of a release are found by.
const OF_THE_SELECTOR: [&str; 4] = ["name", "role", "app.kubernetes.io/instance", "app.kubernetes.io/name"];
/// The longest document that is unpacked.
const LONGEST: u64 = 64 << 20;

/// A release of Helm.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Release {
    name: String,
    namespace: String,
    /// How often it was changed.
    revision: u64,
    chart: String,
    chart_version: String,
    /// The values that were given, beside the defaults of the chart.
    values: Value,
}

impl Release {
    /// Reads the data of the Secret that Helm keeps a release in; nothing for what is none.
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        let packed = BASE64_STANDARD.decode(data).ok()?;
        let mut document = Vec::new();
        GzDecoder::new(packed.as_slice()).take(LONGEST).read_to_end(&mut document).ok()?;
        let document: Value = serde_json::from_slice(&document).ok()?;
        Some(Self {
            name: text(&document, "/name").to_owned(),
            namespace: text(&document, "/namespace").to_owned(),
            revision: document["version"].as_u64().unwrap_or_default(),
            chart: text(&document, "/chart/metadata/name").to_owned(),
            chart_version: text(&document, "/chart/metadata/version").to_owned(),
            values: document.pointer("/config").cloned().unwrap_or_default(),
        })
    }

    /// Of each release the newest revision: one that failed lies beside the one in force, or is all there is.
    pub(crate) fn newest(found: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut found: Vec<Self> = found.into_iter().collect();
        found.sort_by_key(|release| release.revision);
        let newest: BTreeMap<String, Self> = found.into_iter().map(|release| (release.name.clone(), release)).collect();
        newest.into_values().collect()
    }

    /// What it is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a Velero's.
    pub(crate) fn is_of_velero(&self) -> bool {
        self.chart == "velero"
    }
}

/// What becomes of a release and its values.
pub(super) fn judge(release: &Release) -> Vec<Line> {
    let object = format!("Release/{}", release.name);
    let Release { chart, chart_version, values, .. } = release;
    if chart_version == env!("CARGO_PKG_VERSION") {
        return vec![Line::new(object, Verdict::Works, format!("chart {chart}-{chart_version}: it is ours already"))];
    }
    let first = match chart_version.split('.').next().and_then(|major| major.parse::<u32>().ok()) {
        Some(major) if (1..OLDEST_CHART).contains(&major) => {
            "upgrade the release to Velero's chart 12 first, since the objects of older ones have other names; then"
        }
        Some(major) if major > NEWEST_CHART => {
            let detail = format!(
                "chart {chart}-{chart_version} is newer than {NEWEST_CHART}, the newest of Velero's that is known here: its \
                 objects may hold what would be lost"
            );
            return vec![Line::new(object, Verdict::Refused, detail)];
        }
        _ => "upgrade the release",
    };
    let detail = format!(
        "chart {chart}-{chart_version}: {first} to our chart, with its values (docs/from-velero.md); what is exchanged \
         without Helm it takes back at its next upgrade"
    );
    let mut lines = vec![Line::new(&object, Verdict::Differs, detail)];
    let value = |path: &str, detail: &str| Line::new(format!("{object} value {path}"), Verdict::Missing, detail);
    lines.extend(refused_values(values).iter().map(|(path, reason)| value(path, reason)));
    let impossible = impossible_values(values, &release.namespace);
    lines.extend(impossible.iter().map(|(path, reason)| value(path, &format!("our chart refuses it: {reason}"))));
    let of_the_image = OF_THE_IMAGE.iter().filter(|field| !text(values, &format!("/image/{field}")).is_empty());
    lines.extend(of_the_image.map(|field| value(&format!("image.{field}"), WRONG_IMAGE)));
    lines
}

/// The values of a release that our chart refuses, by their paths, each with the reason.
fn refused_values(values: &Value) -> Vec<(String, String)> {
    let schema: Value = serde_json::from_str(OUR_SCHEMA).unwrap_or_default();
    let mut refused = Vec::new();
    find_refused(values, &schema, "", &mut refused);
    refused
}

fn find_refused(value: &Value, schema: &Value, path: &str, refused: &mut Vec<(String, String)>) {
    if let Some(reason) = text(schema, "/description").strip_prefix(REFUSED) {
        refused.push((path.to_owned(), format!("our chart refuses it: {reason}")));
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match schema["properties"].get(name) {
                    Some(known) => find_refused(field, known, &path, refused),
                    None if schema["additionalProperties"] == false => {
                        refused.push((path, "our chart does not know it, and refuses it: leave it out".to_owned()));
                    }
                    None => find_refused(field, &schema["additionalProperties"], &path, refused),
                }
            }
        }
        Value::Array(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                find_refused(entry, &schema["items"], &format!("{path}[{index}]"), refused);
            }
        }
        _ => {}
    }
}

/// The values that our chart knows and refuses for what they say, as its templates do (`templates/checks`).
fn impossible_values(values: &Value, namespace: &str) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    let configuration = &values["configuration"];
    if configuration["uploaderType"] == "restic" {
        found.push(("configuration.uploaderType".to_owned(), "restic is no longer written; leave it out"));
    }
    for field in ["backupStorageLocation", "volumeSnapshotLocation"] {
        if configuration[field].is_object() {
            found.push((format!("configuration.{field}"), "it is a list since chart 4, each entry with its provider"));
        }
        let mut names = BTreeSet::new();
        for entry in configuration[field].as_array().into_iter().flatten() {
            let name = Some(text(entry, "/name")).filter(|name| !name.is_empty()).unwrap_or("default");
            if !names.insert(name) {
                found.push((format!("configuration.{field}"), "two entries have the same name"));
            }
            if text(entry, "/credential/name").is_empty() != text(entry, "/credential/key").is_empty() {
                found.push((format!("configuration.{field}.{name}.credential"), "it needs both name and key"));
            }
        }
    }
    if !["", namespace].contains(&text(configuration, "/namespace")) {
        found.push(("configuration.namespace".to_owned(), "the objects of the release are in another; leave it out"));
    }
    found.extend(of_restore_helper(&values["configMaps"]));
    let budget = &values["podDisruptionBudget"];
    if ["minAvailable", "maxUnavailable"].iter().all(|field| is_set(&budget[field])) {
        found.push(("podDisruptionBudget".to_owned(), "Kubernetes takes one of minAvailable and maxUnavailable"));
    }
    for (path, pods) in [("", values), ("nodeAgent.", &values["nodeAgent"])] {
        for (moment, handler) in pods["lifecycle"].as_object().into_iter().flatten() {
            if is_set(&handler["exec"]) {
                let path = format!("{path}lifecycle.{moment}.exec");
                found.push((path, "the image has no shell; use httpGet, tcpSocket or sleep"));
            }
        }
        for label in OF_THE_SELECTOR.iter().filter(|label| !pods["podLabels"][label].is_null()) {
            let path = format!("{path}podLabels.{label}");
            found.push((path, "the pods of the release are found by it; use another label"));
        }
    }
    found
}

/// What Velero's chart had once in the settings of the restore helper.
fn of_restore_helper(maps: &Value) -> Vec<(String, &'static str)> {
    let helper = &maps["fs-restore-action-config"];
    let refused = [
        (
            !maps["restic-restore-action-config"].is_null(),
            "restic-restore-action-config",
            "it is called fs-restore-action-config since chart 3",
        ),
        (
            !helper["labels"]["velero.io/restic"].is_null(),
            "fs-restore-action-config.labels",
            "velero.io/restic is called velero.io/pod-volume-restore since chart 3",
        ),
        (
            text(helper, "/data/image").contains("velero-restic-restore-helper"),
            "fs-restore-action-config.data.image",
            "it knows restic alone; leave it out",
        ),
    ];
    let refused = refused.into_iter().filter(|(is_there, ..)| *is_there);
    refused.map(|(_, path, reason)| (format!("configMaps.{path}"), reason)).collect()
}

/// Whether a value says something.
fn is_set(value: &Value) -> bool {
    !(value.is_null() || value == "" || value == 0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::json;

    use super::*;

    impl Release {
        /// A release of Velero's chart.
        pub(in crate::migration) fn of_velero_called(name: &str) -> Self {
            Self { name: name.to_owned(), chart: "velero".to_owned(), ..Self::default() }
        }
    }

    fn packed(document: &Value) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(document.to_string().as_bytes()).unwrap();
        BASE64_STANDARD.encode(encoder.finish().unwrap()).into_bytes()
    }

    #[test]
    fn a_release_is_read_as_helm_keeps_it() {
        let release = Release::read(&packed(&json!({
            "name": "backup", "chart": {"metadata": {"name": "velero", "version": "12.1.0"}},
            "config": {"snapshotsEnabled": false, "noSuchValue": {"a": 1}},
        })))
        .unwrap();
        assert!(release.is_of_velero());
        let lines = judge(&release);
        assert!(lines[0].object == "Release/backup" && lines[0].detail.contains("velero-12.1.0"), "{lines:?}");
        assert!(
            lines.iter().any(|line| line.object.ends_with("value noSuchValue") && line.verdict == Verdict::Missing)
        );
        assert_eq!(Release::read(b"not base64!"), None);
        assert_eq!(Release::read(BASE64_STANDARD.encode("not gzip").as_bytes()), None);
    }

    #[test]
    fn values_that_our_chart_refuses_are_named_by_their_path_with_the_reason() {
        let location = json!({"provider": "aws", "bucket": "b", "region": "r", "config": {"any": "1"}});
        let refused = refused_values(&json!({
            "global": {"any": 1}, "securityContext": {"any": 1}, "resources": {"limits": {"any": 1}}, "replicas": 1,
            "deployRestic": true,
            "configuration": {"backupStorageLocation": [location], "defaultBackupTtl": "1h", "resticTimeout": "1h"},
            "schedules": {"daily": {"schedule": "@daily", "cron": "x", "template": {"includeNamespaces": ["a"]}}},
        }));
        let mut paths: Vec<&str> = refused.iter().map(|(path, _)| path.as_str()).collect();
        paths.sort_unstable();
        let expected = [
            "configuration.backupStorageLocation[0].region",
            "configuration.defaultBackupTtl",
            "configuration.resticTimeout",
            "deployRestic",
            "schedules.daily.cron",
            "schedules.daily.template.includeNamespaces",
        ];
        assert_eq!(paths, expected);
        let reason = |path: &str| refused.iter().find(|(found, _)| found == path).map(|(_, reason)| reason.as_str());
        assert_eq!(reason("deployRestic"), Some("our chart refuses it: it is called deployNodeAgent."));
    }

    #[test]
    fn values_that_cannot_work_are_told_before_the_chart_refuses_them() {
        let command = json!({"exec": {"command": ["sleep", "5"]}});
        let impossible = impossible_values(
            &json!({
                "configuration": {"uploaderType": "restic", "backupStorageLocation": {"bucket": "b"}, "namespace": "other"},
                "podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": 1},
                "lifecycle": {"preStop": command}, "nodeAgent": {"podLabels": {"role": "x"}},
            }),
            "velero",
        );
        let paths: Vec<&str> = impossible.iter().map(|(path, _)| path.as_str()).collect();
        let expected = [
            "configuration.uploaderType",
            "configuration.backupStorageLocation",
            "configuration.namespace",
            "podDisruptionBudget",
            "lifecycle.preStop.exec",
            "nodeAgent.podLabels.role",
        ];
        assert_eq!(paths, expected);
        let helper =
            json!({"labels": {"velero.io/restic": "x"}, "data": {"image": "velero/velero-restic-restore-helper:v1"}});
        let maps = json!({"restic-restore-action-config": {}, "fs-restore-action-config": helper});
        let impossible = impossible_values(&json!({ "configMaps": maps }), "velero");
        let paths: Vec<&str> = impossible.iter().map(|(path, _)| path.as_str()).collect();
        let expected = [
            "configMaps.restic-restore-action-config",
            "configMaps.fs-restore-action-config.labels",
            "configMaps.fs-restore-action-config.data.image",
        ];
        assert_eq!(paths, expected);
        let twice = json!([{}, {"name": "default", "credential": {"name": "cloud"}}]);
        let impossible = impossible_values(&json!({"configuration": {"backupStorageLocation": twice}}), "velero");
        let expected =
            ["configuration.backupStorageLocation", "configuration.backupStorageLocation.default.credential"];
        assert_eq!(impossible.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), expected);
        let fine = json!({
            "configuration": {"uploaderType": "kopia",
                "backupStorageLocation": [{}, {"name": "b", "credential": {"name": "c", "key": "k"}}], "namespace": "velero"},
            "podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": ""}, "lifecycle": {"preStop": {"sleep": 1}},
        });
        for values in [fine, Value::Null] {
            assert!(impossible_values(&values, "velero").is_empty(), "{values}");
        }
    }

    #[test]
    fn of_a_release_the_newest_revision_counts_whatever_became_of_it() {
        let revision = |name: &str, revision: u64, version: &str| Release {
            name: name.to_owned(),
            revision,
            chart_version: version.to_owned(),
            ..Release::default()
        };
        let found = [revision("velero", 10, "12.1.0"), revision("velero", 9, "12.0.0"), revision("other", 1, "11.0.0")];
        let versions: Vec<String> = Release::newest(found).into_iter().map(|release| release.chart_version).collect();
        assert_eq!(versions, ["11.0.0", "12.1.0"]);
    }

    #[test]
    fn what_must_be_done_before_a_release_is_upgraded_is_told() {
        let of = |version: &str, values: Value| Release {
            name: "velero".to_owned(),
            chart: "velero".to_owned(),
            chart_version: version.to_owned(),
            values,
            ..Release::default()
        };
        let original = json!({"image": {"repository": "velero/velero", "tag": "v1.18.1", "pullPolicy": "Always"}});
        let lines = judge(&of("12.1.0", original));
        let objects: Vec<&str> = lines.iter().map(|line| line.object.as_str()).collect();
        let expected = ["Release/velero", "Release/velero value image.repository", "Release/velero value image.tag"];
        assert_eq!(objects, expected);
        assert!(judge(&of("8.7.2", json!({})))[0].detail.contains("to Velero's chart 12 first"));
        assert_eq!(judge(&of("13.0.0", json!({})))[0].verdict, Verdict::Refused);
        assert_eq!(judge(&of(env!("CARGO_PKG_VERSION"), json!({})))[0].verdict, Verdict::Works);
    }
}
