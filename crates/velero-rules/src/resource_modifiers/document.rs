//! The document as it is written.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::resource_policies::null_as_empty;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Document {
    #[serde(deserialize_with = "text")]
    pub(super) version: String,
    #[serde(deserialize_with = "null_as_empty")]
    pub(super) resource_modifier_rules: Vec<RuleDocument>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct RuleDocument {
    #[serde(deserialize_with = "null_as_empty")]
    pub(super) conditions: ConditionsDocument,
    #[serde(deserialize_with = "null_as_empty")]
    pub(super) patches: Vec<JsonPatchDocument>,
    #[serde(deserialize_with = "null_as_empty")]
    pub(super) merge_patches: Vec<PatchDataDocument>,
    #[serde(deserialize_with = "null_as_empty")]
    pub(super) strategic_patches: Vec<PatchDataDocument>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ConditionsDocument {
    #[serde(deserialize_with = "null_as_empty")]
    pub(super) namespaces: Vec<String>,
    #[serde(deserialize_with = "text")]
    pub(super) group_resource: String,
    #[serde(deserialize_with = "text")]
    pub(super) resource_name_regex: String,
    pub(super) label_selector: Option<LabelSelector>,
    #[serde(deserialize_with = "null_as_empty")]
    pub(super) matches: Vec<MatchDocument>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct MatchDocument {
    #[serde(deserialize_with = "text")]
    pub(super) path: String,
    #[serde(deserialize_with = "text")]
    pub(super) value: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct JsonPatchDocument {
    #[serde(deserialize_with = "text")]
    pub(super) operation: String,
    #[serde(deserialize_with = "text")]
    pub(super) from: String,
    #[serde(deserialize_with = "text")]
    pub(super) path: String,
    #[serde(deserialize_with = "text")]
    pub(super) value: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct PatchDataDocument {
    #[serde(deserialize_with = "text")]
    pub(super) patch_data: String,
}

/// Takes a number or a boolean that was written without quotes for its text, and nothing for the empty text.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    deserializer.deserialize_any(Text)
}

struct Text;

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_unit<E: Error>(self) -> Result<String, E> {
        Ok(String::new())
    }

    fn visit_none<E: Error>(self) -> Result<String, E> {
        Ok(String::new())
    }
}
