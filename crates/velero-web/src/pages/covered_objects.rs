//! The objects of the coverage: workloads, and claims with what the last good backups saved of their data.

use std::collections::BTreeMap;
use std::fmt::Debug;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Resource;
use kube::api::{Api, ListParams, ObjectMeta};
use maud::{Markup, html};
use serde::de::DeserializeOwned;
use velero_cluster::list_metadata_kept;
use velero_report::{ObjectGap, Protection, object_gap};

use super::coverage::PAGE;
use super::paged::Paged;
use crate::files;
use crate::problem::Problem;
use crate::server::Shared;
use crate::text::moment;
use crate::user::{Right, User};

/// Of how many backups is asked what they saved of volumes.
const MOST_LOOKS: usize = 8;
/// How safe namespaces are.
pub(crate) struct Covered<'a> {
    pub(crate) by_name: BTreeMap<&'a str, &'a Protection<'a>>,
    pub(crate) now: Timestamp,
    pub(crate) longest: SignedDuration,
}

/// An object that is not safe.
#[derive(Clone, Debug, PartialEq)]
struct Unsafe {
    kind: &'static str,
    namespace: String,
    name: String,
    why: String,
}

/// What is known of the objects of a kind.
struct Looked {
    all: usize,
    not_safe: Vec<Unsafe>,
}

/// What a backup saved, by namespace and name of the claim: how, or why not.
type Saved = Result<BTreeMap<(String, String), Result<String, String>>, String>;

impl Covered<'_> {
    /// Why an object is not safe, as far as its metadata tell; nothing where it is. Namespaces that nobody asked for count not.
    fn why(&self, metadata: &ObjectMeta) -> Option<String> {
        let namespace = self.by_name.get(metadata.namespace.as_deref().unwrap_or_default()).copied();
        let (labels, made) =
            (metadata.labels.clone().unwrap_or_default(), moment(metadata.creation_timestamp.as_ref()));
        let gap = object_gap(&labels, made, namespace, (self.now, self.longest))?;
        Some(match gap {
            ObjectGap::LeftOut => "its label leaves it out of backups".to_owned(),
            ObjectGap::TooYoung => "it was made after the last good backup of its namespace".to_owned(),
            ObjectGap::OfNamespace => "its namespace has no recent good backup".to_owned(),
        })
    }

    fn is_wanted(&self, metadata: &ObjectMeta) -> bool {
        self.by_name.contains_key(metadata.namespace.as_deref().unwrap_or_default())
    }
}

/// Deployments, StatefulSets and DaemonSets without a recent good backup.
pub(crate) async fn workloads(user: &User, covered: &Covered<'_>, paged: &Paged) -> Markup {
    let (deployments, stateful_sets, daemon_sets) = tokio::join!(
        of_kind::<Deployment>(user, covered, ("Deployment", "deployments")),
        of_kind::<StatefulSet>(user, covered, ("StatefulSet", "statefulsets")),
        of_kind::<DaemonSet>(user, covered, ("DaemonSet", "daemonsets")),
    );
    let mut looked = Looked { all: 0, not_safe: Vec::new() };
    let mut problems = Vec::new();
    for listed in [deployments, stateful_sets, daemon_sets] {
        match listed {
            Ok(of_kind) => {
                looked.all += of_kind.all;
                looked.not_safe.extend(of_kind.not_safe);
            }
            Err(problem) => problems.push(problem),
        }
    }
    looked.not_safe.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    html! {
        @for problem in &problems { (problem.note()) }
        @if problems.len() < 3 { (table("workloads have no recent good backup", &looked, paged)) }
    }
}

async fn of_kind<K>(
    user: &User,
    covered: &Covered<'_>,
    (kind, resource): (&'static str, &'static str),
) -> Result<Looked, Problem>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    user.must(Right::in_group("list", "apps", resource)).await?;
    let api: Api<K> = Api::all(user.cluster().client().clone());
    // Of those that are safe nothing but their number stays.
    let keep = |metadata: ObjectMeta| {
        covered.is_wanted(&metadata).then(|| covered.why(&metadata).map(|why| (metadata.namespace, metadata.name, why)))
    };
    let listed = list_metadata_kept(&api, &ListParams::default(), keep).await;
    let listed: Vec<_> = user.checked(&format!("list {resource}.apps"), listed)?.into_iter().flatten().collect();
    let all = listed.len();
    let not_safe = listed.into_iter().flatten().map(|(namespace, name, why)| Unsafe {
        kind,
        namespace: namespace.unwrap_or_default(),
        name: name.unwrap_or_default(),
        why,
    });
    Ok(Looked { all, not_safe: not_safe.collect() })
}

/// Claims whose data is not in the last good backup of their namespace.
pub(crate) async fn claims(shared: &Shared, user: &User, covered: &Covered<'_>, paged: &Paged) -> Markup {
    match look_at_claims(shared, user, covered).await {
        Ok(looked) => table("claims have no data in a recent good backup of their namespace", &looked, paged),
        Err(problem) => problem.note(),
    }
}

async fn look_at_claims(shared: &Shared, user: &User, covered: &Covered<'_>) -> Result<Looked, Problem> {
    user.must(Right::in_cluster("list", "persistentvolumeclaims")).await?;
    user.must(Right::FILES).await?;
    let api: Api<PersistentVolumeClaim> = Api::all(user.cluster().client().clone());
    let keep = |metadata: ObjectMeta| {
        let why = covered.why(&metadata);
        covered
            .is_wanted(&metadata)
            .then(|| (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default(), why))
    };
    let listed = list_metadata_kept(&api, &ListParams::default(), keep).await;
    let listed = user.checked("list persistentvolumeclaims", listed)?;
    let mut saved: BTreeMap<&str, Saved> = BTreeMap::new();
    let mut looked = Looked { all: 0, not_safe: Vec::new() };
    for (namespace, name, why) in listed.into_iter().flatten() {
        looked.all += 1;
        let good = covered.by_name.get(namespace.as_str()).and_then(|protection| protection.last_good);
        let why = match (why, good) {
            (Some(why), _) => Some(why),
            (None, None) => Some("its namespace has no recent good backup".to_owned()),
            (None, Some(good)) if !saved.contains_key(good.backup) && saved.len() >= MOST_LOOKS => {
                Some(format!("not looked at: the volumes of {MOST_LOOKS} backups were"))
            }
            (None, Some(good)) => {
                if !saved.contains_key(good.backup) {
                    saved.insert(good.backup, volumes_of(shared, good.backup).await);
                }
                why_not_saved(saved.get(good.backup), (&namespace, &name), good.backup)
            }
        };
        looked.not_safe.extend(why.map(|why| Unsafe { kind: "PersistentVolumeClaim", namespace, name, why }));
    }
    Ok(looked)
}

/// What a backup saved, by claim.
async fn volumes_of(shared: &Shared, backup: &str) -> Saved {
    let Ok(_place) = shared.file_places.acquire().await else { return Err("the server ends".to_owned()) };
    let volumes = files::volumes(&*shared.means.files, backup).await.map_err(|problem| problem.to_string())?;
    let told = volumes.into_iter().map(|volume| {
        let method = volume.backup_method.as_ref().map_or("saved", |method| method.as_str()).to_owned();
        let state = match volume.result.as_ref().map(|result| result.as_str()) {
            _ if volume.skipped => Err(format!("left out: {}", volume.skipped_reason)),
            Some("succeeded") => Ok(method),
            Some(other) => Err(format!("{method} {other}")),
            None => Err("what became of it is not told".to_owned()),
        };
        ((volume.pvc_namespace, volume.pvc_name), state)
    });
    Ok(told.collect())
}

/// Why the data of a claim is not known to be saved; nothing when it is.
fn why_not_saved(saved: Option<&Saved>, (namespace, name): (&str, &str), backup: &str) -> Option<String> {
    match saved {
        Some(Ok(volumes)) => match volumes.get(&(namespace.to_owned(), name.to_owned())) {
            Some(Ok(_)) => None,
            Some(Err(problem)) => Some(format!("{backup}: {problem}")),
            None => Some(format!("{backup} saved nothing of it")),
        },
        Some(Err(problem)) => Some(format!("it is not known what {backup} saved: {problem}")),
        None => Some("not looked at".to_owned()),
    }
}

fn table(words: &str, looked: &Looked, paged: &Paged) -> Markup {
    let (count, shown) = (looked.not_safe.len(), paged.part(&looked.not_safe, PAGE));
    html! {
        p { (count) " of " (looked.all) " " (words) "." }
        @if !shown.is_empty() {
            div.scroll tabindex="0" { table {
                thead { tr { th { "Kind" } th { "Object" } th { "Why" } } }
                tbody {
                    @for object in shown {
                        tr { td { (object.kind) } td { (object.namespace) "/" (object.name) } td { (object.why) } }
                    }
                }
            } }
        }
        @else if count > 0 { p.none { "There are not so many." } }
        (paged.pager(count, PAGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_safe_only_when_its_data_is_known_to_be_saved() {
        let key = ("shop".to_owned(), "data".to_owned());
        let told = |state| Ok([(key.clone(), state)].into());
        let why = |saved: &Saved| why_not_saved(Some(saved), ("shop", "data"), "b");
        assert_eq!(why(&told(Ok("CSISnapshot".to_owned()))), None);
        assert!(why(&told(Err("left out: by policy".to_owned()))).unwrap().contains("by policy"));
        assert!(why(&Ok(BTreeMap::new())).unwrap().contains("saved nothing"));
        assert!(why(&Err("away".to_owned())).unwrap().contains("not known"));
        assert!(why_not_saved(None, ("shop", "data"), "b").is_some());
    }

    #[test]
    fn many_objects_that_are_not_safe_are_counted_and_shown_a_page_at_a_time() {
        let object = |number: usize| Unsafe {
            kind: "Deployment",
            namespace: "shop".to_owned(),
            name: format!("<b>web-{number}"),
            why: "its namespace has no recent good backup".to_owned(),
        };
        let looked = Looked { all: 20_000, not_safe: (0..10_000).map(object).collect() };
        let page = |number: usize| {
            let paged = Paged::among("workloads", &[("workloads", number)], "");
            table("workloads", &looked, &paged).into_string()
        };
        let first = page(0);
        assert!(first.contains("10000 of 20000 workloads") && first.contains("?workloads=1"), "{first}");
        assert!(!first.contains("<b>") && first.len() < 25 << 10, "{} bytes", first.len());
        let last = page(199);
        assert!(last.contains("web-9999") && !last.contains("rel=\"next\""), "{last}");
        assert!(page(200).contains("10000 of 20000 workloads"), "the count is that of all");
    }
}
