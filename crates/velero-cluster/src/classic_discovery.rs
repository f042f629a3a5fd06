//! Discovery group by group, for servers without the aggregated document.

use futures::{StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResource};

use crate::connect::Cluster;
use crate::discovery::Found;
use crate::error::{Error, Result};
use crate::resource_type::ResourceType;
use crate::unanswered::UnansweredGroup;

/// How many group versions are asked for at once.
const CONCURRENCY: usize = 8;

/// One group version to ask for; `preferred` in its group.
struct GroupVersion {
    group: String,
    version: String,
    preferred: bool,
}

impl Cluster {
    /// Asks for each group version on its own.
    pub(crate) async fn discover_classic(&self) -> Result<Found> {
        let answers: Vec<_> = stream::iter(self.group_versions().await?)
            .map(|group_version| async move {
                let resources = self.resources_of(&group_version).await;
                (group_version, resources)
            })
            .buffered(CONCURRENCY)
            .collect()
            .await;
        let (mut types, mut unanswered) = Found::default();
        for (group_version, answer) in answers {
            match answer {
                Ok(resources) => types.extend(resources.into_iter().map(|found| resource_type(&group_version, found))),
                Err(error) => {
                    let silent = UnansweredGroup::new(&group_version.group, &group_version.version, None);
                    unanswered.push(silent.because(error.to_string()));
                }
            }
        }
        Ok((types, unanswered))
    }

    async fn group_versions(&self) -> Result<Vec<GroupVersion>> {
        let core =
            self.client().list_core_api_versions().await.map_err(|error| Error::from_kube("discover /api", error))?;
        let groups =
            self.client().list_api_groups().await.map_err(|error| Error::from_kube("discover /apis", error))?;
        let core = core.versions.into_iter().enumerate().map(|(index, version)| GroupVersion {
            group: String::new(),
            version,
            preferred: index == 0,
        });
        Ok(core.chain(groups.groups.into_iter().flat_map(versions_of)).collect())
    }

    async fn resources_of(&self, group_version: &GroupVersion) -> Result<Vec<APIResource>> {
        let GroupVersion { group, version, .. } = group_version;
        let answer = match group.as_str() {
            "" => self.client().list_core_api_resources(version).await,
            _ => self.client().list_api_group_resources(&format!("{group}/{version}")).await,
        };
        let list = answer.map_err(|error| Error::from_kube(format!("discover {group}/{version}"), error))?;
        Ok(list.resources.into_iter().filter(|found| !found.name.contains('/')).collect())
    }
}

/// The versions of a group, the preferred one first.
fn versions_of(group: APIGroup) -> Vec<GroupVersion> {
    let preferred = group.preferred_version.map(|preferred| preferred.version);
    let mut versions: Vec<_> = group
        .versions
        .into_iter()
        .map(|served| GroupVersion {
            group: group.name.clone(),
            preferred: preferred.as_deref() == Some(&served.version),
            version: served.version,
        })
        .collect();
    versions.sort_by_key(|version| !version.preferred);
    versions
}

fn resource_type(group_version: &GroupVersion, found: APIResource) -> ResourceType {
    let singular = match found.singular_name.as_str() {
        "" => found.kind.to_lowercase(),
        name => name.to_owned(),
    };
    ResourceType {
        group: group_version.group.clone(),
        version: group_version.version.clone(),
        kind: found.kind,
        plural: found.name,
        singular,
        short_names: found.short_names.unwrap_or_default(),
        namespaced: found.namespaced,
        verbs: found.verbs,
        preferred: group_version.preferred,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_version_of_a_group_comes_first() {
        let group: APIGroup = serde_json::from_value(serde_json::json!({
            "name": "example.com",
            "versions": [
                {"groupVersion": "example.com/v1", "version": "v1"},
                {"groupVersion": "example.com/v2", "version": "v2"},
                {"groupVersion": "example.com/v1beta1", "version": "v1beta1"}
            ],
            "preferredVersion": {"groupVersion": "example.com/v2", "version": "v2"}
        }))
        .unwrap();
        let versions: Vec<_> = versions_of(group).into_iter().map(|item| (item.version, item.preferred)).collect();
        let expected = [("v2", true), ("v1", false), ("v1beta1", false)];
        assert_eq!(versions, expected.map(|(version, preferred)| (version.to_owned(), preferred)));
    }
}
