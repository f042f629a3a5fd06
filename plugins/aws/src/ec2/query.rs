//! The body of a request: an action and its parameters as a form.

use std::fmt::Write;

use super::Tag;

/// The version of the API that the parameters are of.
const VERSION: &str = "2016-11-15";

/// A request, and what it is about.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    /// The action, such as `CreateSnapshot`.
    pub(crate) action: &'static str,
    /// The volume or snapshot, in words, for errors.
    pub(crate) object: String,
    parameters: Vec<(String, String)>,
}

impl Query {
    /// A request without parameters.
    pub(crate) fn new(action: &'static str, object: impl Into<String>) -> Self {
        Self { action, object: object.into(), parameters: Vec::new() }
    }

    /// Adds a parameter.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.parameters.push((name.to_owned(), value.into()));
        self
    }

    /// Adds a condition; several must all hold.
    pub(crate) fn filter(self, name: &str, value: &str) -> Self {
        let number = 1 + self.parameters.iter().filter(|(name, _)| name.ends_with(".Name")).count();
        self.with(&format!("Filter.{number}.Name"), name).with(&format!("Filter.{number}.Value.1"), value)
    }

    /// Adds the tags of what is made.
    pub(crate) fn tags(mut self, resource_type: &str, tags: &[Tag]) -> Self {
        if tags.is_empty() {
            return self;
        }
        self = self.with("TagSpecification.1.ResourceType", resource_type);
        for (number, tag) in (1..).zip(tags) {
            let place = format!("TagSpecification.1.Tag.{number}");
            self = self.with(&format!("{place}.Key"), &tag.key).with(&format!("{place}.Value"), &tag.value);
        }
        self
    }

    /// The body.
    pub(crate) fn form(&self) -> String {
        let mut form = format!("Action={}&Version={VERSION}", self.action);
        for (name, value) in &self.parameters {
            form.push('&');
            encode(&mut form, name);
            form.push('=');
            encode(&mut form, value);
        }
        form
    }
}

fn encode(form: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            form.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(form, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_a_form() {
        let query = Query::new("CreateSnapshot", "volume vol-1")
            .with("VolumeId", "vol-1")
            .tags("snapshot", &[Tag::new("velero.io/backup", "b & c=ü"), Tag::new("team", "")]);
        let expected = "Action=CreateSnapshot&Version=2016-11-15&VolumeId=vol-1\
            &TagSpecification.1.ResourceType=snapshot\
            &TagSpecification.1.Tag.1.Key=velero.io%2Fbackup&TagSpecification.1.Tag.1.Value=b%20%26%20c%3D%C3%BC\
            &TagSpecification.1.Tag.2.Key=team&TagSpecification.1.Tag.2.Value=";
        assert_eq!(query.form(), expected);
    }

    #[test]
    fn conditions_are_numbered_and_no_tags_leave_nothing() {
        let query = Query::new("DescribeSnapshots", "").filter("volume-id", "vol-1").filter("tag:a", "b");
        assert!(
            query
                .form()
                .ends_with("&Filter.1.Name=volume-id&Filter.1.Value.1=vol-1&Filter.2.Name=tag%3Aa&Filter.2.Value.1=b")
        );
        assert_eq!(Query::new("A", "").tags("volume", &[]).form(), "Action=A&Version=2016-11-15");
    }
}
