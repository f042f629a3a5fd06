//! What EC2 answers, as far as it matters here.

use serde::Deserialize;

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Volume {
    #[serde(rename = "volumeType")]
    pub(crate) volume_type: String,
    pub(crate) iops: Option<i64>,
    #[serde(rename = "tagSet")]
    pub(crate) tags: Set<Tag>,
}

/// A snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Snapshot {
    #[serde(rename = "snapshotId")]
    pub(crate) id: String,
    #[serde(rename = "volumeId")]
    pub(crate) volume_id: String,
    /// `pending`, `completed`, `error`, or where the recycle bin has it `recoverable` and `recovering`.
    pub(crate) status: String,
    /// A percentage such as `45%`.
    pub(crate) progress: String,
    /// Why it failed.
    #[serde(rename = "statusMessage")]
    pub(crate) status_message: String,
    #[serde(rename = "startTime")]
    pub(crate) start_time: String,
    pub(crate) encrypted: Option<bool>,
    #[serde(rename = "tagSet")]
    pub(crate) tags: Set<Tag>,
}

/// A tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Tag {
    pub(crate) key: String,
    pub(crate) value: String,
}

/// The answer to a question about volumes.
#[derive(Debug, Deserialize)]
pub(crate) struct DescribeVolumesResponse {
    #[serde(rename = "volumeSet", default)]
    volumes: Set<Volume>,
}

/// The answer to a question about snapshots.
#[derive(Debug, Deserialize)]
pub(crate) struct DescribeSnapshotsResponse {
    #[serde(rename = "snapshotSet", default)]
    snapshots: Set<Snapshot>,
}

/// A snapshot was begun.
#[derive(Debug, Deserialize)]
pub(crate) struct CreateSnapshotResponse {
    #[serde(rename = "snapshotId")]
    pub(crate) snapshot_id: String,
}

/// A volume was made.
#[derive(Debug, Deserialize)]
pub(crate) struct CreateVolumeResponse {
    #[serde(rename = "volumeId")]
    pub(crate) volume_id: String,
}

/// Something was done, and there is nothing more to say.
#[derive(Debug, Deserialize)]
pub(crate) struct Done {}

/// A refusal.
#[derive(Debug, Deserialize)]
pub(super) struct ErrorResponse {
    #[serde(rename = "Errors", default)]
    errors: Errors,
}

#[derive(Debug, Default, Deserialize)]
struct Errors {
    #[serde(rename = "Error", default)]
    all: Vec<ErrorAnswer>,
}

/// Why a request was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ErrorAnswer {
    #[serde(rename = "Code")]
    pub(super) code: String,
    #[serde(rename = "Message")]
    pub(super) message: String,
}

/// A list, each element of which is called `item`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
pub(crate) struct Set<T> {
    #[serde(default)]
    item: Vec<T>,
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self { item: Vec::new() }
    }
}

impl Volume {
    pub(crate) fn tags(&self) -> &[Tag] {
        &self.tags.item
    }
}

impl Snapshot {
    pub(crate) fn tags(&self) -> &[Tag] {
        &self.tags.item
    }
}

impl Tag {
    pub(crate) fn new(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), value: value.to_owned() }
    }
}

impl DescribeVolumesResponse {
    pub(crate) fn into_volumes(self) -> Vec<Volume> {
        self.volumes.item
    }
}

impl DescribeSnapshotsResponse {
    pub(crate) fn into_snapshots(self) -> Vec<Snapshot> {
        self.snapshots.item
    }
}

impl ErrorResponse {
    pub(super) fn into_first(self) -> Option<ErrorAnswer> {
        self.errors.all.into_iter().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_read_with_its_tags_and_unknown_fields_are_passed_over() {
        let text = r#"<?xml version="1.0" encoding="UTF-8"?>
<DescribeSnapshotsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>59dbff89</requestId>
    <snapshotSet>
        <item>
            <snapshotId>snap-1</snapshotId><volumeId>vol-1</volumeId><status>pending</status>
            <startTime>2026-01-02T03:04:05.678Z</startTime><progress>30%</progress><volumeSize>15</volumeSize>
            <description>Daily &amp; more</description><encrypted>true</encrypted>
            <tagSet><item><key>a</key><value>&lt;1&gt;</value></item><item><key>b</key><value/></item></tagSet>
        </item>
        <item><snapshotId>snap-2</snapshotId><status>error</status><statusMessage>why</statusMessage></item>
    </snapshotSet>
</DescribeSnapshotsResponse>"#;
        let answer: DescribeSnapshotsResponse = quick_xml::de::from_str(text).unwrap();
        let snapshots = answer.into_snapshots();
        let first = &snapshots[0];
        let seen = (first.id.as_str(), first.status.as_str(), first.progress.as_str(), first.encrypted);
        assert_eq!(seen, ("snap-1", "pending", "30%", Some(true)));
        assert_eq!(first.tags(), [Tag::new("a", "<1>"), Tag::new("b", "")]);
        assert_eq!((snapshots[1].status_message.as_str(), snapshots[1].tags()), ("why", &[][..]));
    }

    #[test]
    fn empty_lists_and_missing_lists_are_empty() {
        for text in ["<DescribeVolumesResponse/>", "<DescribeVolumesResponse><volumeSet/></DescribeVolumesResponse>"] {
            let answer: DescribeVolumesResponse = quick_xml::de::from_str(text).unwrap();
            assert!(answer.into_volumes().is_empty(), "{text}");
        }
    }

    #[test]
    fn a_refusal_says_why() {
        let text = "<Response><Errors><Error><Code>InvalidSnapshot.NotFound</Code><Message/></Error></Errors>\
            <RequestID>request-id</RequestID></Response>";
        let answer: ErrorResponse = quick_xml::de::from_str(text).unwrap();
        assert_eq!(answer.into_first().unwrap().code, "InvalidSnapshot.NotFound");
    }
}
