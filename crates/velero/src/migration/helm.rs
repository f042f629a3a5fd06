//! What Helm remembers of a release: its chart, and the values it was given.

use std::io::Read;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use serde_json::Value;

use super::{Line, Verdict, text};

/// The values our chart knows, with their defaults.
const OUR_VALUES: &str = include_str!("../../../../deploy/chart/velero/values.yaml");
/// The longest document that is unpacked.
const LONGEST: u64 = 64 << 20;

/// A release of Helm.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Release {
    name: String,
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
            chart: text(&document, "/chart/metadata/name").to_owned(),
            chart_version: text(&document, "/chart/metadata/version").to_owned(),
            values: document.pointer("/config").cloned().unwrap_or_default(),
        })
    }

    /// Whether it is a Velero's.
    pub(crate) fn is_of_velero(&self) -> bool {
        self.chart == "velero"
    }
}

/// What becomes of a release and its values.
pub(super) fn judge(release: &Release) -> Vec<Line> {
    let object = format!("Release/{}", release.name);
    let mut lines = vec![Line::new(
        &object,
        Verdict::Differs,
        format!(
            "chart {}-{}: upgrade the release to our chart, with its values (docs/from-velero.md); what is exchanged without \
             Helm it takes back at its next upgrade",
            release.chart, release.chart_version
        ),
    )];
    let ours: Value = serde_saphyr::from_str(OUR_VALUES).unwrap_or_default();
    let mut unknown = Vec::new();
    find_unknown(&release.values, &ours, "", &mut unknown);
    lines.extend(unknown.into_iter().map(|path| {
        Line::new(format!("{object} value {path}"), Verdict::Missing, "our chart does not have it; it has no effect")
    }));
    lines
}

/// The paths of values that ours has not. Where ours is empty anything may be written.
fn find_unknown(theirs: &Value, ours: &Value, path: &str, unknown: &mut Vec<String>) {
    let (Value::Object(theirs), Value::Object(known)) = (theirs, ours) else { return };
    if known.is_empty() {
        return;
    }
    for (key, value) in theirs {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match known.get(key) {
            Some(ours) => find_unknown(value, ours, &path, unknown),
            None => unknown.push(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::json;

    use super::*;

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
    fn values_that_ours_has_not_are_named_by_their_path() {
        let ours = json!({"a": {"b": 1, "free": {}}, "list": []});
        let theirs = json!({"a": {"b": {"x": 1}, "c": 2, "free": {"any": 1}}, "list": [1], "d": 1});
        let mut unknown = Vec::new();
        find_unknown(&theirs, &ours, "", &mut unknown);
        assert_eq!(unknown, ["a.c", "d"]);
    }
}
