//! What is wrong with a rule, or with what it makes of an object.

use crate::selector::SelectorError;
use crate::strategic_merge::StrategicMergeError;
use crate::wildcard::WildcardError;

/// Why a rule can be read but not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum RuleError {
    /// It is for no type.
    #[error("groupResource cannot be empty")]
    NoGroupResource,
    /// The types it is for are no pattern.
    #[error("bad glob pattern of groupResource {pattern:?}: {problem}")]
    GroupResource { pattern: String, problem: WildcardError },
    /// The names it is for are no regular expression.
    #[error("error in matching regex {0}")]
    Name(regex::Error),
    /// The labels it is for are no selector.
    #[error("error in creating label selector {0}")]
    Labels(SelectorError),
    /// A value is to be somewhere, and nobody knows where.
    #[error("path is required for match rule")]
    NoMatchPath,
    /// It changes nothing.
    #[error("no patch data found: specify patches, mergePatches or strategicPatches")]
    NoPatches,
    /// Its patches are of several kinds.
    #[error("only one of patches, mergePatches, strategicPatches can be specified")]
    SeveralKinds,
    /// A patch does nothing.
    #[error("operation cannot be empty")]
    NoOperation,
    /// A patch does what JSON patches cannot.
    #[error("unsupported operation {0}")]
    Operation(String),
    /// A patch changes nobody knows what.
    #[error("path cannot be empty")]
    NoPath,
    /// A patch is no JSON patch.
    #[error("error in decoding json patch of path {path:?}: {problem}")]
    JsonPatch { path: String, problem: serde_json::Error },
    /// A value is neither a text nor JSON.
    #[error("value {text:?} is no valid JSON: {problem}")]
    Value { text: String, problem: serde_json::Error },
    /// A patch to be merged is no object.
    #[error("patchData must be an object")]
    PatchDataNotAnObject,
    /// A patch to be merged is no YAML.
    #[error("error in converting YAML to JSON {problem}")]
    PatchData { problem: String },
}

/// Why a rule cannot change an object.
#[derive(Debug, thiserror::Error)]
pub(super) enum PatchError {
    /// The object would become too deep to be read again.
    #[error("JSON patch {0}: it goes too deep")]
    TooDeep(String),
    /// The object would become too large.
    #[error("JSON patch {0}: the rule copies more than {1} bytes")]
    TooMuch(String, usize),
    /// An operation does not fit the object.
    #[error("JSON patch {0}: {1}")]
    Operation(String, String),
    /// A strategic merge does not fit the object.
    #[error(transparent)]
    Strategic(#[from] StrategicMergeError),
    /// Nobody would know what the object is.
    #[error("the patch leaves the object without its kind")]
    NoKind,
}
