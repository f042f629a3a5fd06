//! Images in the internal registry do not come with the objects that name them: they are copied, when an image stream is
//! backed up, to the migration registry, and from there when it is restored.
//!
//! | module | for |
//! |---|---|
//! | [`plan`] | which images of a stream are copied, and where to |
//! | [`registries`] | how the registries are reached |
//! | [`run`] | copies the images of a plan, one after the other |
//! | [`operations`] | the same beside the backup or restore, asked about and cancelled by its ID |
//! | [`record`] | what of an operation outlives the process |
//! | [`arrivals`] | the tags that the copies of a restore make, and waiting for them |

pub(crate) mod arrivals;
pub(crate) mod operations;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod registries;
pub(crate) mod run;
