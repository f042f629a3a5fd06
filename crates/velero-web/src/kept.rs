//! Rows of one kind by name, and what is known of all of them together, kept current as they come and go: a change costs the
//! same however many rows there are.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

/// Something that lists are made of.
pub(crate) trait Row: Sized + Send + Sync + 'static {
    /// The kind of object it is made from.
    type Kind;
    /// What is known of all rows together.
    type Digest: Digest<Self>;
    /// The row of an object; none where lists do not show it.
    fn of(object: &Self::Kind) -> Option<Self>;
}

/// What is known of all rows of a kind without looking at them.
pub(crate) trait Digest<R>: Default + Send + Sync + 'static {
    /// Takes a row in.
    fn add(&mut self, row: &Arc<R>);
    /// Takes out a row that was taken in.
    fn remove(&mut self, row: &R);
}

/// Of rows that are few nothing is known but themselves.
impl<R> Digest<R> for () {
    fn add(&mut self, _: &Arc<R>) {}

    fn remove(&mut self, _: &R) {}
}

/// The rows of one kind.
pub(crate) struct Kept<R: Row> {
    rows: BTreeMap<String, Arc<R>>,
    digest: R::Digest,
}

impl<R: Row> Default for Kept<R> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), digest: R::Digest::default() }
    }
}

impl<R: Row> Kept<R> {
    /// Takes a row in, in the place of the one that had this name; without one there is none of this name any more.
    pub(crate) fn put(&mut self, name: String, row: Option<R>) {
        if let Some(old) = self.rows.remove(&name) {
            self.digest.remove(&old);
        }
        if let Some(row) = row.map(Arc::new) {
            self.digest.add(&row);
            self.rows.insert(name, row);
        }
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

/// Where a row stands in a list: the newest first, those of one moment by name, those without a moment last.
type Place = (Reverse<Option<Timestamp>>, Box<str>);

/// Rows in the order of lists.
pub(crate) struct Newest<R>(BTreeMap<Place, Arc<R>>);

impl<R> Default for Newest<R> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<R: Dated> Newest<R> {
    fn place(row: &R) -> Place {
        (Reverse(row.created()), row.name().into())
    }

    /// Takes a row in.
    pub(crate) fn add(&mut self, row: &Arc<R>) {
        self.0.insert(Self::place(row), Arc::clone(row));
    }

    /// Takes a row out, if it is there.
    pub(crate) fn remove(&mut self, row: &R) {
        self.0.remove(&Self::place(row));
    }

    /// The rows, newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<R>> {
        self.0.values()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
