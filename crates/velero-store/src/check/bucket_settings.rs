//! How a bucket is set up, and what of that takes away or keeps what it must not.

use serde::Deserialize;

use super::observation::Place;

/// What a bucket does by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketSettings {
    /// The rules that remove or move objects after a time.
    pub lifecycle: Look<Vec<Rule>>,
    /// For how long objects cannot be removed.
    pub lock: Look<Option<Retention>>,
}

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look<T> {
    /// It could be seen.
    Seen(T),
    /// It could not, and why.
    Unseen(String),
}

impl<T: Default> Default for Look<T> {
    fn default() -> Self {
        Self::Seen(T::default())
    }
}

/// A rule of a bucket's lifecycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Rule {
    /// Its name.
    #[serde(rename = "ID")]
    pub id: String,
    /// `Enabled`, or it does nothing.
    pub status: String,
    /// The objects it is for, as older rules write it.
    pub prefix: Option<String>,
    /// The objects it is for.
    pub filter: Filter,
    /// When objects are removed.
    pub expiration: Option<Expiration>,
    /// When objects are moved to other storage.
    #[serde(rename = "Transition")]
    pub transitions: Vec<Transition>,
}

/// The objects that a rule is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Filter {
    /// Those below it.
    pub prefix: Option<String>,
    /// Those that have it.
    pub tag: Option<Tag>,
    /// Those for which all of it is true.
    pub and: Option<Box<Both>>,
}

/// Conditions that must all be met.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Both {
    /// Those below it.
    pub prefix: Option<String>,
    /// Those that have all of them.
    #[serde(rename = "Tag")]
    pub tags: Vec<Tag>,
}

/// A tag of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Tag {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// When objects are removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Expiration {
    /// So many days after they were written.
    pub days: Option<u32>,
    /// From that day on.
    pub date: Option<String>,
}

/// When objects are moved, and where to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Transition {
    /// So many days after they were written.
    pub days: Option<u32>,
    /// The kind of storage.
    pub storage_class: String,
}

/// For how long every new object cannot be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Retention {
    /// `COMPLIANCE` or `GOVERNANCE`.
    pub mode: String,
    /// So many days.
    pub days: Option<u32>,
    /// So many years.
    pub years: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LifecycleConfiguration {
    #[serde(rename = "Rule")]
    rules: Vec<Rule>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct ObjectLockConfiguration {
    object_lock_enabled: String,
    rule: LockRule,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct LockRule {
    default_retention: Option<Retention>,
}

/// Storage from which objects come back only after hours, when somebody asked for that.
const ARCHIVES: [&str; 2] = ["GLACIER", "DEEP_ARCHIVE"];

impl BucketSettings {
    /// The rules in the answer of a store.
    pub(crate) fn rules(xml: &str) -> Look<Vec<Rule>> {
        match quick_xml::de::from_str::<LifecycleConfiguration>(xml) {
            Ok(found) => Look::Seen(found.rules),
            Err(error) => Look::Unseen(format!("its lifecycle rules cannot be read: {error}")),
        }
    }

    /// The lock in the answer of a store.
    pub(crate) fn retention(xml: &str) -> Look<Option<Retention>> {
        match quick_xml::de::from_str::<ObjectLockConfiguration>(xml) {
            Ok(found) => {
                let retention = found.rule.default_retention.filter(|_| found.object_lock_enabled == "Enabled");
                Look::Seen(retention)
            }
            Err(error) => Look::Unseen(format!("its object lock cannot be read: {error}")),
        }
    }
}

impl Rule {
    /// What it does to the objects of a location, in words: nothing, or what must not be.
    pub(crate) fn harm(&self, place: &Place) -> Option<String> {
        if self.status != "Enabled" || !self.reaches(place) {
            return None;
        }
        let expires = self.expiration.as_ref().and_then(|expiration| match (expiration.days, &expiration.date) {
            (Some(days), _) => Some(format!("removes objects {days} days after they were written")),
            (None, Some(date)) => Some(format!("removes all objects from {date} on")),
            (None, None) => None,
        });
        let archives = || {
            let archive = self.transitions.iter().find(|to| ARCHIVES.contains(&to.storage_class.as_str()))?;
            let days = archive.days.map(|days| format!(" after {days} days")).unwrap_or_default();
            Some(format!("moves objects to {}{days}, from where they cannot be read at once", archive.storage_class))
        };
        expires.or_else(archives)
    }

    /// Whether objects of the location may be among those it is for.
    fn reaches(&self, place: &Place) -> bool {
        let and = self.filter.and.as_deref();
        let prefix = self.prefix.as_deref().or(self.filter.prefix.as_deref());
        let prefix = prefix.or_else(|| and?.prefix.as_deref()).unwrap_or_default();
        let ours = place.prefix.as_str();
        let mut tags = self.filter.tag.iter().chain(and.into_iter().flat_map(|and| &and.tags));
        let has_tag = |tag: &Tag| place.tagging.split('&').any(|pair| pair == format!("{}={}", tag.key, tag.value));
        (prefix.starts_with(ours) || ours.starts_with(prefix)) && tags.all(has_tag)
    }
}

impl Retention {
    /// How long it lasts, in words.
    pub(crate) fn length(&self) -> String {
        match (self.days, self.years) {
            (Some(days), _) => format!("{days} days"),
            (None, Some(years)) => format!("{years} years"),
            (None, None) => "a time that is not said".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn harm_of(rule: &str, prefix: &str, tagging: &str) -> Option<String> {
        let xml = format!(
            "<LifecycleConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{rule}</LifecycleConfiguration>"
        );
        let Look::Seen(rules) = BucketSettings::rules(&xml) else { panic!("{rule}") };
        let place = Place { prefix: prefix.to_owned(), tagging: tagging.to_owned(), ..Place::default() };
        rules.iter().find_map(|rule| rule.harm(&place))
    }

    fn rule(filter: &str, does: &str) -> String {
        format!("<Rule><ID>r</ID><Status>Enabled</Status>{filter}{does}</Rule>")
    }

    #[test]
    fn a_rule_does_harm_where_it_takes_objects_of_the_location() {
        let days = Some("removes objects 30 days after they were written".to_owned());
        let tag = "<Tag><Key>a</Key><Value>1</Value></Tag>";
        for (filter, prefix, tagging, expected) in [
            ("<Filter><Prefix></Prefix></Filter>", "", "", days.clone()),
            ("<Prefix/>", "cluster/", "", days.clone()),
            ("<Prefix>logs/</Prefix>", "cluster/", "", None),
            ("<Filter><Prefix>logs/</Prefix></Filter>", "", "", days.clone()),
            ("<Filter><Prefix>cluster/backups</Prefix></Filter>", "cluster/", "", days.clone()),
            (&format!("<Filter>{tag}</Filter>"), "", "", None),
            (&format!("<Filter>{tag}</Filter>"), "", "b=2&a=1", days),
            (&format!("<Filter><And><Prefix>x</Prefix>{tag}</And></Filter>"), "y/", "a=1", None),
        ] {
            let xml = rule(filter, "<Expiration><Days>30</Days></Expiration>");
            assert_eq!(harm_of(&xml, prefix, tagging), expected, "{xml} {prefix:?}");
            assert_eq!(harm_of(&xml.replace("Enabled", "Disabled"), prefix, tagging), None, "{xml}");
        }
    }

    #[test]
    fn only_what_removes_or_archives_objects_does_harm() {
        let moves = "moves objects to GLACIER after 5 days, from where they cannot be read at once";
        for (does, expected) in [
            ("<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>", None),
            (
                "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>",
                None,
            ),
            ("<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>", None),
            ("<Transition><Days>5</Days><StorageClass>STANDARD_IA</StorageClass></Transition>", None),
            ("<Transition><Days>5</Days><StorageClass>GLACIER</StorageClass></Transition>", Some(moves)),
            (
                "<Expiration><Date>2027-01-01T00:00:00Z</Date></Expiration>",
                Some("removes all objects from 2027-01-01T00:00:00Z on"),
            ),
        ] {
            assert_eq!(harm_of(&rule("<Filter/>", does), "", "").as_deref(), expected, "{does}");
        }
    }

    #[test]
    fn only_a_lock_with_a_retention_of_its_own_matters() {
        let lock = |rule: &str| {
            format!(
                "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>{rule}</ObjectLockConfiguration>"
            )
        };
        assert_eq!(BucketSettings::retention(&lock("")), Look::Seen(None));
        let rule = "<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Years>1</Years></DefaultRetention></Rule>";
        let Look::Seen(Some(retention)) = BucketSettings::retention(&lock(rule)) else {
            panic!("a retention is missed")
        };
        assert_eq!((retention.mode.as_str(), retention.length().as_str()), ("COMPLIANCE", "1 years"));
        assert!(matches!(BucketSettings::rules("no xml <"), Look::Unseen(_)));
    }
}
