//! What several steps do in the same way.

pub(crate) mod account_names;
pub(crate) mod image_reference;
pub(crate) mod pods;
pub(crate) mod storage_class;
