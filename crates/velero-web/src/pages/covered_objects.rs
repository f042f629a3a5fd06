//! The objects of the coverage: which are not safe. Of those that are nothing but their number stays, and of the others
//! the part that is shown: a cluster may have very many.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use kube::Resource;
use maud::{Markup, html};
use velero_cluster::{ListedMetadata, MetadataPages};
use velero_report::{Covers, ObjectGap, Protection, object_gap};

use super::coverage::PAGE;
use super::paged::Paged;
use crate::problem::Problem;
use crate::text::moment;
use crate::user::{Right, User};

/// The rights without which no workloads of a kind can be looked at.
pub(super) const WORKLOADS: [Right; 3] = [
    Right::in_group("list", "apps", "deployments"),
    Right::in_group("list", "apps", "statefulsets"),
    Right::in_group("list", "apps", "daemonsets"),
];

/// How many objects that are not safe are kept at most, whatever page of them is asked for.
const MOST_KEPT: usize = 20_000;

/// How safe namespaces are.
pub(super) struct Covered<'a> {
    pub(super) covers: &'a Covers<'a>,
    /// One for each namespace, in their order.
    pub(super) found: &'a [Protection<'a>],
    pub(super) now: Timestamp,
    pub(super) longest: SignedDuration,
}

impl<'a> Covered<'a> {
    /// How safe a namespace is; nothing where nobody asked for it, or it is not there.
    pub(super) fn of(&self, namespace: &str) -> Option<&'a Protection<'a>> {
        self.found.get(self.covers.place(namespace)?)
    }

    /// Why an object of a namespace is not safe, as far as its metadata tell; nothing where it is.
    pub(super) fn why(&self, metadata: &ListedMetadata, namespace: &Protection<'_>) -> Option<&'static str> {
        let (none, made) = (BTreeMap::new(), moment(metadata.creation_timestamp.as_ref()));
        let labels = metadata.labels.as_ref().unwrap_or(&none);
        Some(match object_gap(labels, made, Some(namespace), self.now, self.longest)? {
            ObjectGap::LeftOut => "its label leaves it out of backups",
            ObjectGap::TooYoung => "it was made after the last good backup of its namespace had begun",
            ObjectGap::OfNamespace => "its namespace has no recent good backup",
        })
    }
}

/// What an object is, in the order in which those of one name are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Deployment,
    StatefulSet,
    DaemonSet,
    PersistentVolumeClaim,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
        }
    }
}

/// What is known of objects.
pub(super) struct Looked {
    /// How many there are.
    pub(super) all: usize,
    /// How many of them are not safe.
    not_safe: usize,
    /// The first of those by namespace, name and kind, and why: as many as are wanted.
    first: BTreeMap<(String, String, Kind), Cow<'static, str>>,
    wanted: usize,
}

impl Looked {
    /// Keeps what the shown part of a list needs.
    pub(super) fn new(paged: &Paged) -> Self {
        Self { all: 0, not_safe: 0, first: BTreeMap::new(), wanted: paged.end(PAGE).min(MOST_KEPT) }
    }

    /// Takes in an object that is not safe.
    pub(super) fn add(&mut self, kind: Kind, metadata: ListedMetadata, why: Cow<'static, str>) {
        self.not_safe += 1;
        self.first.insert((metadata.namespace, metadata.name, kind), why);
        self.forget();
    }

    fn join(&mut self, other: Self) {
        self.all += other.all;
        self.not_safe += other.not_safe;
        self.first.extend(other.first);
        self.forget();
    }

    /// Forgets those that are not shown.
    fn forget(&mut self) {
        while self.first.len() > self.wanted {
            self.first.pop_last();
        }
    }
}

/// Deployments, StatefulSets and DaemonSets without a recent good backup, as far as they may be listed.
pub(super) async fn workloads(user: &User, may: [bool; 3], covered: &Covered<'_>, paged: &Paged) -> Markup {
    let [deployments, stateful_sets, daemon_sets] = may;
    let (deployments, stateful_sets, daemon_sets) = tokio::join!(
        of_kind::<Deployment>(user, (deployments, WORKLOADS[0]), Kind::Deployment, (covered, paged)),
        of_kind::<StatefulSet>(user, (stateful_sets, WORKLOADS[1]), Kind::StatefulSet, (covered, paged)),
        of_kind::<DaemonSet>(user, (daemon_sets, WORKLOADS[2]), Kind::DaemonSet, (covered, paged)),
    );
    let (mut looked, mut problems) = (Looked::new(paged), Vec::new());
    for of_kind in [deployments, stateful_sets, daemon_sets] {
        match of_kind {
            Ok(of_kind) => looked.join(of_kind),
            Err(problem) => problems.push(problem),
        }
    }
    html! {
        @for problem in &problems { (problem.note()) }
        @if problems.len() < 3 { (table("workloads have no recent good backup", &looked, paged)) }
    }
}

async fn of_kind<K: Resource<DynamicType = ()>>(
    user: &User,
    (may, right): (bool, Right),
    kind: Kind,
    (covered, paged): (&Covered<'_>, &Paged),
) -> Result<Looked, Problem> {
    if !may {
        return Err(user.missing(right));
    }
    let (action, mut looked) = (format!("list {}.{}", right.resource, right.group), Looked::new(paged));
    let mut pages = MetadataPages::of::<K>(user.cluster().client());
    while let Some(page) = user.checked(&action, pages.next_page().await)? {
        if page.restarted {
            looked = Looked::new(paged);
        }
        for object in page.items {
            let Some(namespace) = covered.of(&object.namespace) else { continue };
            looked.all += 1;
            if let Some(why) = covered.why(&object, namespace) {
                looked.add(kind, object, why.into());
            }
        }
    }
    Ok(looked)
}

/// A part of the objects that are not safe, and how many there are.
pub(super) fn table(words: &str, looked: &Looked, paged: &Paged) -> Markup {
    let (count, begin) = (looked.not_safe, paged.begin(PAGE));
    let mut shown = looked.first.iter().skip(begin).peekable();
    html! {
        p { (count) " of " (looked.all) " " (words) "." }
        @if shown.peek().is_some() {
            div.scroll tabindex="0" { table {
                thead { tr { th { "Kind" } th { "Object" } th { "Why" } } }
                tbody {
                    @for ((namespace, name, kind), why) in shown {
                        tr { td { (kind.as_str()) } td { (namespace) "/" (name) } td { (why) } }
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

    fn object(name: String) -> ListedMetadata {
        ListedMetadata { namespace: "shop".to_owned(), name, ..ListedMetadata::default() }
    }

    fn paged(page: usize) -> Paged {
        Paged::among("workloads", &[("workloads", page)], "")
    }

    #[test]
    fn many_objects_that_are_not_safe_are_counted_and_shown_a_page_at_a_time() {
        let page = |number: usize| {
            let paged = paged(number);
            let mut looked = Looked { all: 20_000, ..Looked::new(&paged) };
            for number in 0..10_000 {
                let why = "its namespace has no recent good backup".into();
                looked.add(Kind::Deployment, object(format!("<b>web-{number}")), why);
            }
            assert!(looked.first.len() <= paged.end(PAGE), "no more is kept than what is shown");
            table("workloads", &looked, &paged).into_string()
        };
        let first = page(0);
        assert!(first.contains("10000 of 20000 workloads") && first.contains("?workloads=1"), "{first}");
        assert!(!first.contains("<b>") && first.len() < 25 << 10, "{} bytes", first.len());
        let last = page(199);
        assert!(last.contains("web-9999") && !last.contains("rel=\"next\""), "{last}");
        let far = page(200);
        assert!(far.contains("10000 of 20000 workloads"), "the count is that of all");
        assert!(far.contains("There are not so many"), "{far}");
    }

    #[test]
    fn objects_of_all_kinds_are_shown_by_their_names_whatever_order_they_come_in() {
        let paged = paged(0);
        let looked = |kind: Kind, names: &[&str]| {
            let mut looked = Looked { all: names.len(), ..Looked::new(&paged) };
            names.iter().for_each(|name| looked.add(kind, object((*name).to_owned()), "no backup".into()));
            looked
        };
        let mut all = looked(Kind::DaemonSet, &["d", "b"]);
        all.join(looked(Kind::Deployment, &["c", "b", "a"]));
        let shown: Vec<(&str, Kind)> = all.first.keys().map(|(_, name, kind)| (name.as_str(), *kind)).collect();
        let (deployment, daemon_set) = (Kind::Deployment, Kind::DaemonSet);
        assert_eq!(
            shown,
            [("a", deployment), ("b", deployment), ("b", daemon_set), ("c", deployment), ("d", daemon_set)]
        );
        assert_eq!((all.all, all.not_safe), (5, 5));
        let many: Vec<String> = (0..PAGE + 20).map(|number| format!("web-{number:03}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        all.join(looked(Kind::StatefulSet, &many));
        assert_eq!((all.not_safe, all.first.len()), (PAGE + 25, PAGE));
    }
}
