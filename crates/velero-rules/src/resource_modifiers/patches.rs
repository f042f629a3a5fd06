//! What a rule does to an object.

use json_patch::PatchOperation;
use serde_json::{Value, json};

use super::document::{JsonPatchDocument, PatchDataDocument, RuleDocument};
use super::error::{PatchError, RuleError};
use crate::strategic_merge::strategic_merge;

/// The deepest an object may become: nothing deeper could be read again.
const DEEPEST: usize = 128;
/// How much the operations of a rule may copy, in bytes: what they copy they can copy again, so each may double the object.
const MOST_COPIED: usize = 16 << 20;

const OPERATIONS: [&str; 6] = ["add", "remove", "replace", "test", "move", "copy"];

/// The patches of a rule, which are all of one kind.
#[derive(Debug, Clone)]
pub(super) enum Patches {
    Json(Vec<PatchOperation>),
    Merge(Vec<Value>),
    Strategic(Vec<Value>),
}

impl Patches {
    pub(super) fn new(document: &RuleDocument) -> Result<Self, RuleError> {
        let (json, merge, strategic) = (&document.patches, &document.merge_patches, &document.strategic_patches);
        match (json.is_empty(), merge.is_empty(), strategic.is_empty()) {
            (false, true, true) => json.iter().map(operation).collect::<Result<_, _>>().map(Self::Json),
            (true, false, true) => merge.iter().map(patch_data).collect::<Result<_, _>>().map(Self::Merge),
            (true, true, false) => strategic.iter().map(patch_data).collect::<Result<_, _>>().map(Self::Strategic),
            (true, true, true) => Err(RuleError::NoPatches),
            _ => Err(RuleError::SeveralKinds),
        }
    }

    /// Gives the object with all patches applied, in order.
    pub(super) fn apply(&self, object: &Value) -> Result<Value, PatchError> {
        let mut changed = object.clone();
        match self {
            Self::Json(operations) => {
                if !apply_operations(&mut changed, operations)? {
                    return Ok(object.clone());
                }
            }
            Self::Merge(patches) => patches.iter().for_each(|patch| json_patch::merge(&mut changed, patch)),
            Self::Strategic(patches) => {
                for patch in patches {
                    strategic_merge(&mut changed, patch)?;
                }
            }
        }
        match changed["kind"].as_str() {
            Some(kind) if !kind.is_empty() => Ok(changed),
            _ => Err(PatchError::NoKind),
        }
    }
}

/// Carries out operations until a test fails; says whether all were carried out.
fn apply_operations(object: &mut Value, operations: &[PatchOperation]) -> Result<bool, PatchError> {
    let mut copied = 0;
    for operation in operations {
        copied += growth(object, operation).ok_or_else(|| PatchError::TooDeep(operation.to_string()))?;
        if copied > MOST_COPIED {
            return Err(PatchError::TooMuch(operation.to_string(), MOST_COPIED));
        }
        match operation {
            PatchOperation::Test(test) if holds(object, test.path.as_str(), &test.value) => {}
            PatchOperation::Test(_) => return Ok(false),
            other => {
                let patched = json_patch::patch(object, std::slice::from_ref(other));
                patched.map_err(|error| PatchError::Operation(other.to_string(), error.kind.to_string()))?;
            }
        }
    }
    Ok(true)
}

/// How many bytes an operation copies; none where it would make the object too deep.
fn growth(object: &Value, operation: &PatchOperation) -> Option<usize> {
    let value = match operation {
        PatchOperation::Add(add) => Some(&add.value),
        PatchOperation::Replace(replace) => Some(&replace.value),
        PatchOperation::Copy(copy) => object.pointer(copy.from.as_str()),
        PatchOperation::Move(moved) => object.pointer(moved.from.as_str()),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => None,
    };
    let levels = operation.path().as_str().matches('/').count();
    let size = value.map_or(Some(0), |value| size_within(value, DEEPEST.checked_sub(levels)?))?;
    Some(if matches!(operation, PatchOperation::Copy(_)) { size } else { 0 })
}

/// About how many bytes a value takes; none where it is deeper than some levels.
fn size_within(value: &Value, levels: usize) -> Option<usize> {
    let below = |value: &Value| size_within(value, levels.checked_sub(1)?);
    match value {
        Value::Array(items) => items.iter().map(below).try_fold(2, |sum, size| Some(sum + size? + 1)),
        Value::Object(fields) => {
            fields.iter().try_fold(2, |sum: usize, (key, value)| Some(sum + key.len() + 4 + below(value)?))
        }
        Value::String(text) => Some(text.len() + 2),
        _ => Some(4),
    }
}

/// Says whether an object has a value at a path. What is missing is null.
pub(super) fn holds(object: &Value, path: &str, value: &Value) -> bool {
    object.pointer(path).unwrap_or(&Value::Null) == value
}

fn operation(document: &JsonPatchDocument) -> Result<PatchOperation, RuleError> {
    let JsonPatchDocument { operation, from, path, value } = document;
    if operation.is_empty() {
        return Err(RuleError::NoOperation);
    }
    let name = operation.to_lowercase();
    if !OPERATIONS.contains(&name.as_str()) {
        return Err(RuleError::Operation(operation.clone()));
    }
    if path.is_empty() {
        return Err(RuleError::NoPath);
    }
    let value = read_value(value)?;
    let whole = json!({"op": name, "from": from, "path": path, "value": value});
    serde_json::from_value(whole).map_err(|problem| RuleError::JsonPatch { path: path.clone(), problem })
}

fn patch_data(document: &PatchDataDocument) -> Result<Value, RuleError> {
    let text = &document.patch_data;
    let read = serde_json::from_str(text).or_else(|_| serde_saphyr::from_str(text));
    match read {
        Ok(patch @ Value::Object(_)) => Ok(patch),
        Ok(_) => Err(RuleError::PatchDataNotAnObject),
        Err(error) => Err(RuleError::PatchData { problem: error.to_string() }),
    }
}

/// Reads the value of an operation or a condition, which is written as a text.
///
/// Objects, lists, numbers, booleans and null stand for themselves, all else for a text. Quotes around it make a text
/// of anything.
pub(super) fn read_value(text: &str) -> Result<Value, RuleError> {
    if let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return Ok(quoted(inner));
    }
    if text.starts_with(['{', '[']) {
        return serde_json::from_str(text).map_err(|problem| RuleError::Value { text: text.to_owned(), problem });
    }
    let is_boolean = ["true", "false"].iter().any(|word| text.eq_ignore_ascii_case(word));
    let plain = if is_boolean { text.to_lowercase() } else { text.to_owned() };
    Ok(serde_json::from_str(&plain).unwrap_or_else(|_| quoted(text)))
}

/// Escapes such as `\n` count where they are those of JSON.
fn quoted(text: &str) -> Value {
    serde_json::from_str(&format!("\"{text}\"")).unwrap_or_else(|_| Value::String(text.to_owned()))
}
