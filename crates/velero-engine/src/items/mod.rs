//! Items by namespace and name, in as little memory as there can be: a backup or a restore may know a million.

mod list;
mod table;
mod texts;

pub use list::ItemList;
pub(crate) use list::{Done, Told};
pub(crate) use table::ItemTable;
