//! The text of a description while it grows.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Resource;
use tabwriter::TabWriter;
use velero_api::metadata;

use super::Manner;
use crate::output::tables::selector_text;

/// What stands for nothing.
pub(super) const NONE: &str = "<none>";

/// Collects lines whose cells end with tabs; columns are aligned at the end.
pub(super) struct Describer<'a> {
    text: String,
    prefix: &'static str,
    /// How to write.
    pub(super) manner: &'a Manner,
}

impl<'a> Describer<'a> {
    /// An empty description.
    pub(super) fn new(manner: &'a Manner) -> Self {
        Self { text: String::new(), prefix: "", manner }
    }

    /// Writes text as it is.
    pub(super) fn raw(&mut self, text: impl Display) {
        self.text.push_str(self.prefix);
        self.text.push_str(&text.to_string());
    }

    /// Writes a line.
    pub(super) fn line(&mut self, text: impl Display) {
        self.raw(format_args!("{text}\n"));
    }

    /// Writes an empty line.
    pub(super) fn gap(&mut self) {
        self.line("");
    }

    /// Writes a name and a value. Tabs in front of the name indent it.
    pub(super) fn field(&mut self, name: &str, value: impl Display) {
        self.line(format_args!("{name}:\t{value}"));
    }

    /// Writes a part indented by one more tab.
    pub(super) fn indented(&mut self, write: impl FnOnce(&mut Self)) {
        self.prefix = "\t";
        write(self);
        self.prefix = "";
    }

    /// Writes what every object has.
    pub(super) fn metadata<K: Resource>(&mut self, object: &K) {
        let name = self.manner.style.bold(metadata::name(object));
        self.field("Name", name);
        self.field("Namespace", metadata::namespace(object));
        let (metadata, none) = (object.meta(), BTreeMap::new());
        self.map("Labels", metadata.labels.as_ref().unwrap_or(&none));
        self.map("Annotations", metadata.annotations.as_ref().unwrap_or(&none));
    }

    /// Writes pairs, one a line.
    pub(super) fn map(&mut self, name: &str, pairs: &BTreeMap<String, String>) {
        let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
        self.values(&format!("{name}:\t"), "\t", NONE, &pairs);
    }

    /// Writes messages, one a line, indented by so many tabs.
    pub(super) fn list(&mut self, depth: usize, name: &str, items: &[String]) {
        let tabs = "\t".repeat(depth);
        self.values(&format!("{tabs}{name}:\t"), &format!("{tabs}\t"), &format!("{tabs}{NONE}"), items);
    }

    fn values(&mut self, heading: &str, further: &str, none: &str, items: &[String]) {
        self.raw(heading);
        for (position, item) in items.iter().enumerate() {
            let before = if position == 0 { "" } else { further };
            self.line(format_args!("{before}{item}"));
        }
        if items.is_empty() {
            self.line(none);
        }
    }

    /// Writes why an object was refused.
    pub(super) fn validation_errors(&mut self, errors: &[String]) {
        if errors.is_empty() {
            return;
        }
        self.gap();
        self.raw("Validation errors:");
        for error in errors {
            let error = self.manner.style.red(error);
            self.line(format_args!("\t{error}"));
        }
    }

    /// Writes the two lists of a filter.
    pub(super) fn filter(&mut self, tabs: &str, included: &[String], all: &str, excluded: &[String]) {
        self.field(&format!("{tabs}Included"), joined(included, all));
        self.field(&format!("{tabs}Excluded"), joined(excluded, NONE));
    }

    /// Writes both kinds of label selectors.
    pub(super) fn selectors(&mut self, selector: Option<&LabelSelector>, alternatives: &[LabelSelector]) {
        self.field("Label selector", selector_text(selector));
        self.gap();
        let texts: Vec<String> = alternatives.iter().map(|selector| selector_text(Some(selector))).collect();
        let text = if texts.is_empty() { NONE.to_owned() } else { texts.join(" or ") };
        self.field("Or label selector", text);
    }

    /// The description with its columns aligned.
    pub(super) fn finish(self) -> String {
        let mut writer = TabWriter::new(Vec::new()).minwidth(0).padding(2);
        // Writing to memory cannot fail; should it, the text is shown as it is.
        let aligned = writer.write_all(self.text.as_bytes()).ok().and_then(|()| writer.into_inner().ok());
        aligned.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or(self.text)
    }
}

/// A list in one line, or what stands for an empty one.
pub(super) fn joined(items: &[String], empty: &str) -> String {
    if items.is_empty() { empty.to_owned() } else { items.join(", ") }
}

/// A switch with three positions in words.
pub(super) fn choice(value: Option<bool>, off: &'static str, on: &'static str, unset: &'static str) -> &'static str {
    match value {
        None => unset,
        Some(true) => on,
        Some(false) => off,
    }
}
