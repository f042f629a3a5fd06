//! Why something that a spec refers to cannot be used.

/// Why policies or modifiers that a spec refers to cannot be used, in words: whoever has read them knows, and what is
/// wrong with a spec is told in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(pub String);
