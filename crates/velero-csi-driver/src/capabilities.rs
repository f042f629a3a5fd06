//! What is asked of a volume: a folder to mount, or a device.

use tonic::Status;

use crate::storage::{Volume, VolumeMode};
use crate::wire::csi::VolumeCapability;
use crate::wire::csi::volume_capability::AccessType;

/// The mode a capability asks for.
pub(crate) fn mode_of(capability: Option<&VolumeCapability>) -> Result<VolumeMode, Status> {
    match capability.and_then(|capability| capability.access_type.as_ref()) {
        Some(AccessType::Mount(_)) => Ok(VolumeMode::Filesystem),
        Some(AccessType::Block(_)) => Ok(VolumeMode::Block),
        None => Err(Status::invalid_argument("volume_capability is empty: set it")),
    }
}

/// The mode that all capabilities ask for.
pub(crate) fn common_mode(capabilities: &[VolumeCapability]) -> Result<VolumeMode, Status> {
    let (first, others) =
        capabilities.split_first().ok_or_else(|| Status::invalid_argument("volume_capabilities is empty: set it"))?;
    let mode = mode_of(Some(first))?;
    for other in others {
        if mode_of(Some(other))? != mode {
            return Err(Status::invalid_argument("volume_capabilities asks for block and mount: ask for one of them"));
        }
    }
    Ok(mode)
}

/// Refuses to use a volume in another mode than its own.
pub(crate) fn check_mode(volume: &Volume, wanted: VolumeMode) -> Result<(), Status> {
    if volume.mode == wanted {
        return Ok(());
    }
    let (id, own) = (&volume.id, volume.mode);
    Err(Status::invalid_argument(format!("the volume {id} is for volumeMode {own}, not {wanted}: ask for {own}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::csi::volume_capability::{BlockVolume, MountVolume};

    #[test]
    fn all_capabilities_ask_for_one_mode() {
        let capability = |access_type| VolumeCapability { access_type, access_mode: None };
        let mount = capability(Some(AccessType::Mount(MountVolume::default())));
        let block = capability(Some(AccessType::Block(BlockVolume {})));
        let none = capability(None);
        for (capabilities, wanted) in [
            (vec![&mount], Some(VolumeMode::Filesystem)),
            (vec![&block, &block], Some(VolumeMode::Block)),
            (vec![&block, &mount], None),
            (vec![&mount, &none], None),
            (vec![&none], None),
            (vec![], None),
        ] {
            let capabilities: Vec<_> = capabilities.into_iter().cloned().collect();
            assert_eq!(common_mode(&capabilities).ok(), wanted, "{capabilities:?}");
        }
    }
}
