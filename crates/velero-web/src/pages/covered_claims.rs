//! The claims of the coverage, with what the last good backups saved of their data.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use maud::Markup;
use tokio::time::{Instant, timeout_at};
use velero_cluster::{ListedMetadata, MetadataPages};
use velero_report::Protection;

use super::covered_objects::{Covered, Kind, Looked, table};
use super::paged::Paged;
use crate::files::{self, SavedVolume};
use crate::problem::Problem;
use crate::server::Shared;
use crate::user::{Right, User};

/// Of how many backups is asked what they saved of volumes.
const MOST_LOOKS: usize = 8;
/// The rights without which claims cannot be looked at.
pub(super) const CLAIMS: [Right; 2] = [Right::in_cluster("list", "persistentvolumeclaims"), Right::FILES];

/// What a backup saved, by namespace and name of the claim: nothing where all is well, else what is not.
type SavedClaims = BTreeMap<Box<str>, BTreeMap<Box<str>, Option<Box<str>>>>;
/// The same; or why it is not known.
type Saved = Result<SavedClaims, String>;

/// Claims whose data is not in the last good backup of their namespace.
pub(super) async fn claims(
    shared: &Shared,
    user: &User,
    may: [bool; 2],
    covered: &Covered<'_>,
    paged: &Paged,
) -> Markup {
    if let Some((right, _)) = CLAIMS.into_iter().zip(may).find(|(_, may)| !may) {
        return user.missing(right).note();
    }
    match look(shared, user, covered, paged).await {
        Ok(looked) => table("claims have no data in a recent good backup of their namespace", &looked, paged),
        Err(problem) => problem.note(),
    }
}

async fn look(shared: &Shared, user: &User, covered: &Covered<'_>, paged: &Paged) -> Result<Looked, Problem> {
    // All files together: a store that hangs costs the page what it knows of claims, and no more.
    let end = Instant::now() + files::BESIDE;
    let mut saved: BTreeMap<&str, Saved> = BTreeMap::new();
    let mut looked = Looked::new(paged);
    let mut pages = MetadataPages::of::<PersistentVolumeClaim>(user.cluster().client());
    while let Some(page) = user.checked("list persistentvolumeclaims", pages.next_page().await)? {
        if page.restarted {
            looked = Looked::new(paged);
        }
        for claim in page.items {
            let Some(namespace) = covered.of(&claim.namespace) else { continue };
            looked.all += 1;
            let why = match covered.why(&claim, namespace) {
                Some(why) => Some(why.into()),
                None => why_not_in_backup(shared, covered, (&claim, namespace), &mut saved, end).await,
            };
            if let Some(why) = why {
                looked.add(Kind::PersistentVolumeClaim, claim, why);
            }
        }
    }
    Ok(looked)
}

/// Why the data of a claim is not known to be in the last good backup of its namespace; nothing when it is.
async fn why_not_in_backup<'a>(
    shared: &Shared,
    covered: &Covered<'a>,
    (claim, namespace): (&ListedMetadata, &'a Protection<'a>),
    saved: &mut BTreeMap<&'a str, Saved>,
    end: Instant,
) -> Option<Cow<'static, str>> {
    let Some(good) = namespace.last_good else { return Some("its namespace has no recent good backup".into()) };
    let is_known = saved.contains_key(good.backup);
    if !is_known && saved.len() >= MOST_LOOKS {
        return Some(format!("not looked at: the volumes of {MOST_LOOKS} backups were").into());
    }
    if !is_known {
        saved.insert(good.backup, saved_by(shared, covered, good.backup, end).await);
    }
    why_not_saved(saved.get(good.backup), (&claim.namespace, &claim.name), good.backup).map(Cow::Owned)
}

/// What a backup saved of the claims of namespaces whose last good backup it is.
async fn saved_by(shared: &Shared, covered: &Covered<'_>, backup: &str, end: Instant) -> Saved {
    let Ok(_place) = shared.file_places.acquire().await else { return Err("the server ends".to_owned()) };
    let read = timeout_at(end, files::saved_volumes(&*shared.means.files, backup)).await;
    let volumes = read.map_err(|_| "its store is slow or does not answer".to_owned())?;
    let volumes = volumes.map_err(|problem| problem.to_string())?;
    let is_last = |namespace: &str| {
        let last = covered.of(namespace).and_then(|namespace| namespace.last_good);
        last.is_some_and(|good| good.backup == backup)
    };
    Ok(of_claims(volumes, is_last))
}

/// What became of the volumes of claims, in the namespaces that are wanted.
fn of_claims(volumes: Vec<SavedVolume>, is_wanted: impl Fn(&str) -> bool) -> SavedClaims {
    let mut saved = SavedClaims::new();
    for volume in volumes.into_iter().filter(|volume| is_wanted(&volume.pvc_namespace)) {
        let method = volume.backup_method.as_ref().map_or("saved", |method| method.as_str());
        let problem = match volume.result.as_ref().map(|result| result.as_str()) {
            _ if volume.skipped => Some(format!("left out: {}", volume.skipped_reason)),
            Some("succeeded") => None,
            Some(other) => Some(format!("{method} {other}")),
            None => Some("what became of it is not told".to_owned()),
        };
        saved.entry(volume.pvc_namespace).or_default().insert(volume.pvc_name, problem.map(String::into_boxed_str));
    }
    saved
}

/// Why the data of a claim is not known to be saved; nothing when it is.
fn why_not_saved(saved: Option<&Saved>, (namespace, name): (&str, &str), backup: &str) -> Option<String> {
    match saved {
        Some(Ok(volumes)) => match volumes.get(namespace).and_then(|claims| claims.get(name)) {
            Some(None) => None,
            Some(Some(problem)) => Some(format!("{backup}: {problem}")),
            None => Some(format!("{backup} saved nothing of it")),
        },
        Some(Err(problem)) => Some(format!("it is not known what {backup} saved: {problem}")),
        None => Some("not looked at".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volumes() -> Vec<SavedVolume> {
        let told = json!([
            {"pvcNamespace": "shop", "pvcName": "data", "backupMethod": "CSISnapshot", "result": "succeeded", "pvInfo": {"pvcName": "x"}},
            {"pvcNamespace": "shop", "pvcName": "logs", "skipped": true, "skippedReason": "by policy", "result": "succeeded"},
            {"pvcNamespace": "shop", "pvcName": "cache", "backupMethod": "PodVolumeBackup", "result": "failed"},
            {"pvcNamespace": "shop", "pvcName": "odd", "startTimestamp": "2026-11-01T03:00:00Z"},
            {"pvcNamespace": "yard", "pvcName": "data", "result": "succeeded"},
        ]);
        serde_json::from_value(told).unwrap()
    }

    #[test]
    fn a_claim_is_safe_only_when_its_data_is_known_to_be_saved() {
        let saved = Ok(of_claims(volumes(), |_| true));
        let why = |claim| why_not_saved(Some(&saved), claim, "b");
        assert_eq!(why(("shop", "data")), None);
        assert_eq!(why(("yard", "data")), None);
        assert!(why(("shop", "logs")).unwrap().contains("left out: by policy"));
        assert!(why(("shop", "cache")).unwrap().contains("PodVolumeBackup failed"));
        assert!(why(("shop", "odd")).unwrap().contains("not told"));
        assert!(why(("yard", "logs")).unwrap().contains("saved nothing"));
        assert!(why_not_saved(Some(&Err("away".to_owned())), ("shop", "data"), "b").unwrap().contains("not known"));
        assert!(why_not_saved(None, ("shop", "data"), "b").is_some());
    }

    #[test]
    fn of_a_backup_stays_what_it_saved_of_the_namespaces_that_count_on_it() {
        let saved = of_claims(volumes(), |namespace| namespace == "yard");
        assert_eq!(saved.len(), 1);
        assert_eq!(saved["yard"].len(), 1);
    }
}
