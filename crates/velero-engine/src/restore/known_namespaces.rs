//! What is known so far of the namespaces that items go to.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::sync::OnceCell;

use super::trouble::Trouble;

/// Whether a namespace can be used. What may pass is not kept: the next item asks again.
type Readiness = Arc<OnceCell<Usable>>;

/// Whether a namespace can be used, once that is settled.
pub(super) enum Usable {
    Yes,
    Never(Trouble),
}

/// The namespaces that were asked for so far.
#[derive(Default)]
pub(super) struct Namespaces {
    /// Those that are made sure of, or being made sure of.
    pub ready: Mutex<HashMap<String, Readiness>>,
    /// Why those that could not be made are not there yet.
    pub missing: Mutex<BTreeMap<String, String>>,
    /// Those a preview found to be there.
    pub there: Mutex<HashSet<String>>,
}
