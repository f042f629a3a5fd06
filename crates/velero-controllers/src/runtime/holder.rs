//! The identity of this process, with which it signs what it takes into work.

use kube::Resource;
use velero_api::annotations::HOLDER_IDENTITY;
use velero_api::metadata::annotation;

/// The identity of this process.
pub(crate) struct Holder(String);

impl Default for Holder {
    fn default() -> Self {
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "velero".to_owned());
        Self(format!("{host}_{}", uuid::Uuid::new_v4()))
    }
}

impl Holder {
    /// A holder of a name, for tests.
    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub(crate) fn identity(&self) -> &str {
        &self.0
    }

    /// Signs an object that this process takes into work.
    pub(crate) fn sign<K: Resource>(&self, object: &mut K) {
        let annotations = object.meta_mut().annotations.get_or_insert_default();
        annotations.insert(HOLDER_IDENTITY.to_owned(), self.0.clone());
    }

    /// Whether an object was taken into work by this process.
    pub(crate) fn has<K: Resource>(&self, object: &K) -> bool {
        annotation(object, HOLDER_IDENTITY) == self.0
    }
}

/// Whether somebody has taken an object into work.
pub(crate) fn is_signed<K: Resource>(object: &K) -> bool {
    !annotation(object, HOLDER_IDENTITY).is_empty()
}

/// Takes the signature off an object.
pub(crate) fn unsign<K: Resource>(object: &mut K) {
    if let Some(annotations) = &mut object.meta_mut().annotations {
        annotations.remove(HOLDER_IDENTITY);
    }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::Backup;

    use super::*;

    #[test]
    fn every_process_is_another_holder() {
        let (one, other) = (Holder::default(), Holder::default());
        let mut backup = Backup::new("velero", "b", Default::default());
        assert!(!one.has(&backup) && !is_signed(&backup));
        one.sign(&mut backup);
        assert!(one.has(&backup) && !other.has(&backup) && is_signed(&backup));
        unsign(&mut backup);
        assert!(!one.has(&backup) && !is_signed(&backup));
    }
}
