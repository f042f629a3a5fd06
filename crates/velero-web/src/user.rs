//! The person who asks. Everything is asked of the API server with the token of that person, or in the name of the person that
//! a trusted proxy names.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::FromRequestParts;
use futures::future::join_all;
use http::request::Parts;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use velero_api::GROUP;
use velero_api::metadata;
use velero_api::resource::VeleroResource;
use velero_cluster::{Cluster, Error as ClusterError};

use crate::identity::{Identity, Person};
use crate::problem::{IN_CLUSTER, Problem, from_cluster};
use crate::rights::Rights;
use crate::server::Shared;
use crate::text;

/// The namespaces that a right counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// That of the server.
    Server,
    /// All, and what belongs to none.
    Cluster,
}

/// A right: to do something with a kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Right {
    pub(crate) verb: &'static str,
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) place: Place,
}

impl Right {
    /// A right to objects of Velero, in the namespace of the server.
    pub(crate) const fn to(verb: &'static str, resource: &'static str) -> Self {
        Self { verb, group: GROUP, resource, place: Place::Server }
    }

    /// A right to objects of Kubernetes, in all namespaces.
    pub(crate) const fn in_cluster(verb: &'static str, resource: &'static str) -> Self {
        Self { verb, group: "", resource, place: Place::Cluster }
    }

    /// A right to objects of a group, in all namespaces.
    pub(crate) const fn in_group(verb: &'static str, group: &'static str, resource: &'static str) -> Self {
        Self { verb, group, resource, place: Place::Cluster }
    }

    /// Reading files of backups and restores: whoever may ask for their download.
    pub(crate) const FILES: Self = Self::to("create", "downloadrequests");
}

/// Who asks, and the means to ask as that person.
pub(crate) struct User {
    /// The name the API server knows.
    pub(crate) name: String,
    /// What forms carry.
    pub(crate) form_token: String,
    /// Whether it is the proxy that says who it is: then there is nothing to sign out of.
    pub(crate) is_proxied: bool,
    cluster: Cluster,
    namespace: String,
    /// Whose rights are asked for, and what was said of them a moment ago.
    who: Arc<str>,
    rights: Arc<Rights>,
}

impl User {
    /// Finds out whose token this is; a problem when the API server does not take it.
    pub(crate) async fn name_of(shared: &Shared, token: &str) -> Result<String, Problem> {
        let cluster = as_owner(shared, token)?;
        let api: Api<SelfSubjectReview> = Api::all(cluster.client().clone());
        let answer = api.create(&PostParams::default(), &SelfSubjectReview::default()).await;
        match answer.map_err(|error| ClusterError::from_kube("ask who has signed in", error)) {
            Ok(review) => Ok(review.status.and_then(|status| status.user_info?.username).unwrap_or_default()),
            // An API server before 1.28 takes the token and cannot say whose it is.
            Err(error) if error.is_not_found() => Ok("a person whose name the API server does not tell".to_owned()),
            Err(error) => Err(from_cluster("who signs in", &error)),
        }
    }

    fn new(shared: &Shared, identity: &Identity) -> Result<Self, Problem> {
        let (name, cluster) = match identity {
            Identity::Token(session) => (session.name.clone(), as_owner(shared, &session.token)?),
            Identity::Proxied(person) => (person.name.clone(), as_person(shared, person)?),
        };
        Ok(Self {
            name,
            form_token: shared.keys.form_token(&identity.form_id()),
            is_proxied: matches!(identity, Identity::Proxied(_)),
            cluster,
            namespace: shared.means.namespace.clone(),
            who: identity.who().into(),
            rights: Arc::clone(&shared.rights),
        })
    }

    /// Whose rights count, as [`Identity::who`] says it.
    pub(crate) fn who(&self) -> Arc<str> {
        Arc::clone(&self.who)
    }

    /// The namespace of the server.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The cluster, as this person sees it.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Objects of Velero, as this person sees them.
    pub(crate) fn api<K: VeleroResource>(&self) -> Api<K> {
        Api::namespaced(self.cluster.client().clone(), &self.namespace)
    }

    /// Whether this person has a right.
    pub(crate) async fn may(&self, right: Right) -> Result<bool, Problem> {
        self.rights.answer((Arc::clone(&self.who), right), Instant::now(), self.ask(right)).await
    }

    /// Asks the API server whether this person has a right.
    async fn ask(&self, right: Right) -> Result<bool, Problem> {
        let attributes = ResourceAttributes {
            group: Some(right.group.to_owned()),
            resource: Some(right.resource.to_owned()),
            verb: Some(right.verb.to_owned()),
            namespace: (right.place == Place::Server).then(|| self.namespace.clone()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), non_resource_attributes: None };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let api: Api<SelfSubjectAccessReview> = Api::all(self.cluster.client().clone());
        let answer = self.checked("ask for rights", api.create(&PostParams::default(), &review).await)?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    /// Whether this person has each of these rights.
    pub(crate) async fn may_each<const N: usize>(&self, rights: [Right; N]) -> Result<[bool; N], Problem> {
        let answers = join_all(rights.map(|right| self.may(right))).await;
        let answers: Vec<bool> = answers.into_iter().collect::<Result<_, _>>()?;
        Ok(std::array::from_fn(|number| answers.get(number).copied().unwrap_or_default()))
    }

    /// A problem that names the right, where it is missing.
    pub(crate) async fn must(&self, right: Right) -> Result<(), Problem> {
        if self.may(right).await? { Ok(()) } else { Err(self.missing(right)) }
    }

    /// A problem that names the first of these rights that is missing.
    pub(crate) async fn must_all<const N: usize>(&self, rights: [Right; N]) -> Result<(), Problem> {
        let may = self.may_each(rights).await?;
        match rights.into_iter().zip(may).find(|(_, may)| !may) {
            Some((right, _)) => Err(self.missing(right)),
            None => Ok(()),
        }
    }

    /// What is said where a right is missing.
    pub(crate) fn missing(&self, right: Right) -> Problem {
        let group = if right.group.is_empty() { String::new() } else { format!(".{}", right.group) };
        let place = match right.place {
            Place::Server => format!("in namespace {}", self.namespace),
            Place::Cluster => IN_CLUSTER.to_owned(),
        };
        let resource = format!("{}{group}", right.resource);
        Problem::Missing { user: self.name.clone(), verb: right.verb.to_owned(), resource, place }
    }

    /// Reads one object of Velero.
    pub(crate) async fn get<K: VeleroResource>(&self, name: &str) -> Result<K, Problem> {
        let word = K::KIND.to_lowercase();
        if !text::is_object_name(name) {
            return Err(Problem::NotFound(format!("no {word} can be called {name:?}")));
        }
        let found = self.checked(&format!("get {} {name}", K::PLURAL), self.api::<K>().get_opt(name).await);
        let found = found.map_err(|problem| self.or_missing(problem, "get", K::PLURAL))?;
        found.ok_or_else(|| Problem::NotFound(format!("{word} {name:?} does not exist, or not any more")))
    }

    /// Creates one object of Velero.
    pub(crate) async fn create<K>(&self, object: &K) -> Result<K, Problem>
    where
        K: VeleroResource + Serialize + DeserializeOwned + Debug,
    {
        let action = format!("create {} {}", K::PLURAL, metadata::name(object));
        let made = self.checked(action.trim_end(), self.api::<K>().create(&PostParams::default(), object).await);
        made.map_err(|problem| self.or_missing(problem, "create", K::PLURAL))
    }

    /// Sends what differs between two states of an object.
    pub(crate) async fn change<K: VeleroResource>(&self, before: &K, after: &K) -> Result<K, Problem> {
        let changed = self.cluster.patch_changes_if_unchanged(before, after).await;
        let changed = changed.map_err(|error| from_cluster(&self.name, &error));
        changed.map_err(|problem| self.or_missing(problem, "patch", K::PLURAL))
    }

    /// What the API server said, in the words of the page.
    pub(crate) fn checked<T>(&self, action: &str, answer: Result<T, kube::Error>) -> Result<T, Problem> {
        answer.map_err(|error| from_cluster(&self.name, &ClusterError::from_kube(action, error)))
    }

    /// A refusal for want of a right names the right.
    fn or_missing(&self, problem: Problem, verb: &'static str, resource: &'static str) -> Problem {
        match problem {
            Problem::Refused(words) if is_for_want_of_right(&words, verb, resource) => {
                self.missing(Right::to(verb, resource))
            }
            problem => problem,
        }
    }
}

/// Whether the API server refuses something since a right is missing. Quotas and webhooks refuse with the same code, and no role
/// would help against them: what they say is shown as it is.
fn is_for_want_of_right(words: &str, verb: &str, resource: &str) -> bool {
    words.contains(&format!("cannot {verb} resource {resource:?}"))
}

/// The cluster as the owner of a token sees it.
fn as_owner(shared: &Shared, token: &str) -> Result<Cluster, Problem> {
    shared.means.anonymous.with_token(token).map_err(|_| Problem::BadToken)
}

/// The cluster as a person sees it whom the proxy names.
fn as_person(shared: &Shared, person: &Person) -> Result<Cluster, Problem> {
    let proxy = shared.means.proxy.as_ref().ok_or(Problem::SignedOut)?;
    let cluster = proxy.cluster.with_impersonation(&person.name, &person.groups);
    cluster.map_err(|error| Problem::Refused(error.to_string()))
}

impl FromRequestParts<Shared> for User {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        Self::new(shared, &shared.identity(&parts.extensions, &parts.headers)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_right_is_said_to_be_one() {
        let missing = "anna: backups.velero.io is forbidden: User \"anna\" cannot create resource \"backups\" in API group \
                       \"velero.io\" in the namespace \"velero\"";
        assert!(is_for_want_of_right(missing, "create", "backups"));
        for other in [
            "anna: admission webhook \"policies.example\" denied the request: backups are kept for 30 days at most",
            "anna: backups.velero.io \"b\" is forbidden: exceeded quota: objects, requested: count/backups.velero.io=1",
            "anna: backups.velero.io \"b\" is forbidden: unable to create new content in namespace velero because it is \
             being terminated",
        ] {
            assert!(!is_for_want_of_right(other, "create", "backups"), "{other}");
        }
    }
}
