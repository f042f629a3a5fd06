//! What becomes of an object that cannot be read.

use kube::api::{Patch, PatchParams};
use velero_api::resource::VeleroResource;

use crate::runtime::context::Context;
use crate::runtime::error::describe;

/// Marks an object that cannot be read as refused, once.
pub(crate) async fn write_refusal<K: VeleroResource>(context: &Context, object: &str, patch: &serde_json::Value) {
    let written =
        context.objects.api::<K>().patch_metadata(object, &PatchParams::default(), &Patch::Merge(patch)).await;
    if let Err(error) = written {
        tracing::warn!(
            kind = K::KIND,
            name = object,
            error = describe(&error),
            "A malformed object could not be marked"
        );
    }
}
