//! When a kill comes, and how a transfer is kept at that moment.

use super::gates::Held;

/// When the kill comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A copy is asked for.
    CopyNew,
    /// A node has taken it.
    CopyAccepted,
    /// Its pod runs and waits for its turn.
    CopyPrepared,
    /// The copy has begun; the repository is being opened.
    CopyEarly,
    /// Data is under way.
    CopyMiddle,
    /// All data is there, what names it is under way.
    CopyLate,
    /// The copy is there.
    CopyEnded,
    /// A snapshot is to be moved.
    MoveNew,
    /// Data of a snapshot is under way.
    MoveMiddle,
    /// A copy is under way back into a pod.
    CopyBackMiddle,
    /// Data of a snapshot is under way back into a volume.
    MoveBackMiddle,
}

impl Moment {
    /// Those that can stand at their moment all at the same time, so that one kill meets them all. The others pass by in no
    /// time.
    pub const TOGETHER: [Self; 8] = [
        Self::CopyEarly,
        Self::CopyMiddle,
        Self::CopyLate,
        Self::MoveMiddle,
        Self::CopyBackMiddle,
        Self::MoveBackMiddle,
        Self::CopyPrepared,
        Self::CopyAccepted,
    ];

    /// The namespace whose pod has the data.
    pub(super) fn namespace(self) -> &'static str {
        match self {
            Self::CopyNew | Self::CopyAccepted => "copied-1",
            Self::CopyEnded | Self::CopyPrepared => "copied-2",
            Self::CopyEarly => "copied-3",
            Self::CopyMiddle => "copied-4",
            Self::CopyLate => "copied-5",
            Self::CopyBackMiddle => "copied-6",
            Self::MoveNew | Self::MoveMiddle => "moved-1",
            Self::MoveBackMiddle => "moved-2",
        }
    }

    /// The plural of the objects that move the data, and the label that names their owner.
    pub(super) fn objects(self) -> (&'static str, &'static str) {
        match self {
            Self::MoveNew | Self::MoveMiddle => ("datauploads", "velero.io/backup-name"),
            Self::CopyBackMiddle => ("podvolumerestores", "velero.io/restore-name"),
            Self::MoveBackMiddle => ("datadownloads", "velero.io/restore-name"),
            _ => ("podvolumebackups", "velero.io/backup-name"),
        }
    }

    pub(super) fn is_restore(self) -> bool {
        matches!(self, Self::CopyBackMiddle | Self::MoveBackMiddle)
    }

    /// Whether the data is that of a snapshot.
    pub(super) fn is_move(self) -> bool {
        matches!(self, Self::MoveNew | Self::MoveMiddle | Self::MoveBackMiddle)
    }

    /// What keeps it at its moment in front of the store.
    pub(super) fn held(self) -> Option<Held> {
        match self {
            Self::CopyEarly => Some(Held::Opening),
            Self::CopyMiddle | Self::MoveMiddle => Some(Held::Packs),
            Self::CopyLate => Some(Held::Indexes),
            Self::CopyBackMiddle | Self::MoveBackMiddle => Some(Held::Reading),
            Self::CopyNew | Self::CopyAccepted | Self::CopyPrepared | Self::CopyEnded | Self::MoveNew => None,
        }
    }

    /// Those that are held by the store have all slots of the node; then one can wait for its turn; what passes by comes last.
    pub(super) fn order(self) -> u8 {
        match self {
            _ if self.held().is_some() => 0,
            Self::CopyPrepared => 1,
            _ => 2,
        }
    }

    /// The phase of the object in which the moment comes.
    pub(super) fn phase(self) -> &'static str {
        match self {
            Self::CopyNew | Self::MoveNew => "",
            Self::CopyAccepted => "Accepted",
            Self::CopyPrepared => "Prepared",
            Self::CopyEnded => "Completed",
            _ => "InProgress",
        }
    }

    /// How much new data the volume gets before, in MiB: more than one pack where more is to follow.
    pub(super) fn fresh(self) -> u32 {
        if matches!(self, Self::CopyMiddle | Self::MoveMiddle) { 30 } else { 1 }
    }
}

/// Whether a phase is that one, or one that comes later.
pub(super) fn is_at_least(phase: &str, wanted: &str) -> bool {
    let order = ["", "New", "Accepted", "Prepared", "InProgress"];
    let place = |phase: &str| order.iter().position(|known| *known == phase).unwrap_or(order.len());
    place(phase) >= place(wanted)
}
