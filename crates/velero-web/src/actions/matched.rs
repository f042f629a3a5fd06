//! What a backup would take now: the namespaces and types that its filters match, as far as a person may see them.

use k8s_openapi::api::core::v1::Namespace;
use maud::{Markup, html};
use velero_api::labels::EXCLUDE_FROM_BACKUP;
use velero_api::type_names::NAMESPACES;
use velero_api::v1::BackupSpec;
use velero_cluster::{Discovery, ListedMetadata, ResourceType, list_metadata_kept};
use velero_rules::includes_excludes::IncludesExcludes;
use velero_rules::resource_filter::is_never_listed;

use crate::pages::parts;
use crate::problem::{Problem, from_cluster};
use crate::user::{Right, User};

/// What the filters of a backup match now.
pub(crate) async fn show(user: &User, spec: &BackupSpec) -> Markup {
    let (namespaces, discovery) = tokio::join!(list_namespaces(user), user.cluster().discover());
    html! {
        @match namespaces {
            Err(problem) => (problem.note()),
            Ok(found) => (of_namespaces(&Namespaces::of(&found, spec))),
        }
        @match discovery {
            Err(error) => (from_cluster(&user.name, &error).note()),
            Ok(discovery) => (of_types(&Types::of(&discovery, spec))),
        }
    }
}

async fn list_namespaces(user: &User) -> Result<Vec<ListedMetadata>, Problem> {
    user.must(Right::in_cluster("list", NAMESPACES)).await?;
    user.checked("list namespaces", list_metadata_kept::<Namespace, _>(user.cluster().client(), Some).await)
}

/// The namespaces that match.
#[derive(Debug, PartialEq)]
struct Namespaces {
    taken: Vec<String>,
    /// Those that would be taken, were it not for a label.
    labelled: Vec<String>,
    all: usize,
}

impl Namespaces {
    fn of(found: &[ListedMetadata], spec: &BackupSpec) -> Self {
        let filter = IncludesExcludes::new(&spec.included_namespaces, &spec.excluded_namespaces);
        let (mut taken, mut labelled) = (Vec::new(), Vec::new());
        for metadata in found {
            let name = metadata.name.clone();
            match metadata.label(EXCLUDE_FROM_BACKUP) {
                _ if !filter.should_include(&name) => {}
                Some("true") => labelled.push(name),
                _ => taken.push(name),
            }
        }
        Self { taken, labelled, all: found.len() }
    }
}

fn of_namespaces(Namespaces { taken, labelled, all }: &Namespaces) -> Markup {
    html! {
        p { (taken.len()) " of " (all) " namespaces: " (parts::names(taken, "none")) }
        @if !labelled.is_empty() {
            p { "Left out by the label " code { (EXCLUDE_FROM_BACKUP) "=true" } ": " (parts::names(labelled, "")) }
        }
        @if taken.is_empty() { div.note { p { "No namespace is like that: the backup would be empty." } } }
    }
}

/// The types that match.
#[derive(Debug, PartialEq)]
struct Types {
    taken: Vec<String>,
    all: usize,
    /// Names in the filters that no type of the cluster has.
    unknown: Vec<String>,
    /// How many groups do not say which types they have.
    unanswered: usize,
}

impl Types {
    fn of(discovery: &Discovery, spec: &BackupSpec) -> Self {
        let (included, excluded) = (&spec.included_resources, &spec.excluded_resources);
        let resolve = |name: &str| discovery.resolve(name).map(ResourceType::group_resource);
        let filter = IncludesExcludes::of_resources(included, excluded, resolve);
        let namespaces = IncludesExcludes::new(&spec.included_namespaces, &spec.excluded_namespaces);
        // Of what belongs to no namespace, a backup of some namespaces takes what belongs to their objects.
        let takes_cluster = namespaces.include_everything();
        let stored = |found: &&ResourceType| found.can_be_backed_up() && !is_never_listed(&found.group_resource());
        let all: Vec<&ResourceType> = discovery.preferred().filter(stored).collect();
        let is_in_place = |found: &ResourceType| found.namespaced || takes_cluster || found.plural == NAMESPACES;
        let taken = all.iter().filter(|found| is_in_place(found)).map(|found| found.group_resource());
        let is_unknown = |name: &&String| !name.contains('*') && resolve(name).is_none();
        Self {
            taken: taken.filter(|name| filter.should_include(name)).collect(),
            all: all.len(),
            unknown: included.iter().chain(excluded).filter(is_unknown).cloned().collect(),
            unanswered: discovery.unanswered().len(),
        }
    }
}

fn of_types(Types { taken, all, unknown, unanswered }: &Types) -> Markup {
    html! {
        p { (taken.len()) " of " (all) " types: " (parts::names(taken, "none")) }
        @if !unknown.is_empty() { div.note { p { "The cluster has no type of this name: " (parts::names(unknown, "")) } } }
        @if *unanswered > 0 { div.note { p { (unanswered) " API groups do not answer: their types are not counted." } } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn namespaces_match_by_name_unless_a_label_leaves_them_out() {
        let metadata = |name: &str, label: Option<&str>| ListedMetadata {
            name: name.to_owned(),
            labels: label.map(|value| [(EXCLUDE_FROM_BACKUP.to_owned(), value.to_owned())].into()),
            ..ListedMetadata::default()
        };
        let found = [metadata("shop", None), metadata("yard", Some("false")), metadata("bin", Some("true"))];
        let all = Namespaces::of(&found, &BackupSpec::default());
        assert_eq!(all, Namespaces { taken: texts(&["shop", "yard"]), labelled: texts(&["bin"]), all: 3 });
        let spec = BackupSpec { included_namespaces: texts(&["s*"]), ..BackupSpec::default() };
        let some = Namespaces::of(&found, &spec);
        assert_eq!(some, Namespaces { taken: texts(&["shop"]), labelled: Vec::new(), all: 3 });
        assert!(of_namespaces(&all).into_string().contains("Left out by the label"));
    }

    #[test]
    fn types_match_by_the_names_that_people_use_and_unknown_ones_are_named() {
        let served = |api_version: &str, kind: &str, plural: &str, namespaced: bool| ResourceType {
            verbs: texts(&["get", "list", "create", "delete"]),
            preferred: true,
            ..ResourceType::new(api_version, kind, plural, namespaced)
        };
        let discovery = Discovery::new(
            vec![
                served("v1", "Pod", "pods", true),
                served("apps/v1", "Deployment", "deployments", true),
                served("v1", "Node", "nodes", false),
                served("v1", "Namespace", "namespaces", false),
            ],
            Vec::new(),
        );
        let taken = |spec: &BackupSpec| Types::of(&discovery, spec).taken.len();
        assert_eq!(taken(&BackupSpec::default()), 4);
        let some = BackupSpec { included_namespaces: texts(&["shop"]), ..BackupSpec::default() };
        assert_eq!(taken(&some), 3, "nodes belong to no namespace");
        let named = BackupSpec { included_resources: texts(&["deployments", "deploymets", "*.example"]), ..some };
        let types = Types::of(&discovery, &named);
        assert_eq!((types.taken, types.unknown), (texts(&["deployments.apps"]), texts(&["deploymets"])));
    }
}
