//! How our programs are built for a measurement.

use clap::ValueEnum;
use velero_testkit::Edition;

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Profile {
    /// As they are shipped: what figures are published of
    Release,
    /// For speed, but not as a whole: built in a fraction of the time, a little slower and larger
    Quick,
    /// As tests have them: slow
    Dev,
}

impl Profile {
    /// Our server.
    pub(super) fn edition(self) -> Edition {
        match self {
            Self::Release => Edition::OursReleased,
            Self::Quick => Edition::OursQuick,
            Self::Dev => Edition::Ours,
        }
    }

    /// As cargo calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Quick => "quick",
            Self::Dev => "dev",
        }
    }
}
