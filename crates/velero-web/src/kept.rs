//! Rows of one kind by name, and what is known of all of them together, kept current as they come and go: a change costs the
//! same however many rows there are.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use jiff::Timestamp;
use velero_api::resource::VeleroResource;

/// Something that lists are made of.
pub(crate) trait Row: Clone + Debug + Send + Sync + 'static {
    /// The kind of object it is made from.
    type Kind: VeleroResource;
    /// What is known of all rows together.
    type Digest: RowDigest<Self>;
    /// The row of an object; none where lists do not show it.
    fn of(object: &Self::Kind) -> Option<Self>;
}

/// What is known of all rows of a kind without looking at them.
pub(crate) trait RowDigest<R>: Default + Send + Sync + 'static {
    /// Takes a row in.
    fn add(&mut self, row: &Arc<R>);
    /// Takes out a row that was taken in.
    fn remove(&mut self, row: &Arc<R>);
}

/// Of rows that are few nothing is known but themselves.
impl<R> RowDigest<R> for () {
    fn add(&mut self, _: &Arc<R>) {}

    fn remove(&mut self, _: &Arc<R>) {}
}

/// The rows of one kind.
pub(crate) struct Kept<R: Row> {
    rows: BTreeMap<String, Arc<R>>,
    digest: R::Digest,
    /// Objects of which no row can be made, since they cannot be read.
    unreadable: BTreeSet<String>,
}

impl<R: Row> Default for Kept<R> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), digest: R::Digest::default(), unreadable: BTreeSet::new() }
    }
}

impl<R: Row> Kept<R> {
    /// Takes a row in, in the place of the one that had this name; without one there is none of this name any more.
    pub(crate) fn put(&mut self, name: String, row: Option<R>) {
        self.unreadable.remove(&name);
        if let Some(old) = self.rows.remove(&name) {
            self.digest.remove(&old);
        }
        if let Some(row) = row.map(Arc::new) {
            self.digest.add(&row);
            self.rows.insert(name, row);
        }
    }

    /// Takes note of an object that cannot be read.
    pub(crate) fn put_unreadable(&mut self, name: String) {
        self.put(name.clone(), None);
        self.unreadable.insert(name);
    }

    /// The names of objects that cannot be read.
    pub(crate) fn unreadable(&self) -> &BTreeSet<String> {
        &self.unreadable
    }

    /// All rows, by name.
    pub(crate) fn rows(&self) -> &BTreeMap<String, Arc<R>> {
        &self.rows
    }

    /// What is known of all of them.
    pub(crate) fn digest(&self) -> &R::Digest {
        &self.digest
    }
}

/// A row that was made at some moment.
pub(crate) trait Dated {
    /// What the object is called.
    fn name(&self) -> &str;
    /// When it was made.
    fn created(&self) -> Option<Timestamp>;
}

/// A row where it stands in a list: the newest first, those of one moment by name, those without a moment last. The place is
/// that of the row itself, so that a row that stands in several lists is not noted in each.
struct Placed<R>(Arc<R>);

impl<R: Dated> Placed<R> {
    fn place(&self) -> (Reverse<Option<Timestamp>>, &str) {
        (Reverse(self.0.created()), self.0.name())
    }
}

impl<R: Dated> Ord for Placed<R> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

impl<R: Dated> PartialOrd for Placed<R> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<R: Dated> PartialEq for Placed<R> {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl<R: Dated> Eq for Placed<R> {}

/// Rows in the order of lists.
pub(crate) struct Newest<R>(BTreeSet<Placed<R>>);

impl<R> Default for Newest<R> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<R: Dated> Newest<R> {
    /// Takes a row in.
    pub(crate) fn add(&mut self, row: &Arc<R>) {
        self.0.replace(Placed(Arc::clone(row)));
    }

    /// Takes a row out, if it is there.
    pub(crate) fn remove(&mut self, row: &Arc<R>) {
        self.0.remove(&Placed(Arc::clone(row)));
    }

    /// The rows, newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<R>> {
        self.0.iter().map(|placed| &placed.0)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
