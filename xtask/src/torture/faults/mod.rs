//! What goes wrong.
//!
//! ```text
//! network ── what becomes of requests to the API server and to the store, on their way through proxies
//! processes ── who is killed or stopped, and how they come back
//! ```

mod network;
mod processes;

use anyhow::Result;

pub(super) use network::{ApiWeather, StoreWeather, Weather};
pub(super) use processes::{of_plugin, of_pods};

use super::stage::Stage;

/// A way to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Fault {
    KillServer,
    StopServer,
    KillPlugin,
    KillAgent,
    KillMover,
    KillApiServer,
    KillEtcd,
    KillStore,
    LostAnswers,
    TooManyRequests,
    ApiErrors,
    Expired,
    SlowApi,
    CutConnections,
    StoreErrors,
    StoreLostAnswers,
    SlowStore,
    TruncatedStore,
    DamagedStore,
    StaleListings,
    FullStore,
    StoreClock,
    FullDisk,
}

impl Fault {
    pub(super) const ALL: [Self; 23] = [
        Self::KillServer,
        Self::StopServer,
        Self::KillPlugin,
        Self::KillAgent,
        Self::KillMover,
        Self::KillApiServer,
        Self::KillEtcd,
        Self::KillStore,
        Self::LostAnswers,
        Self::TooManyRequests,
        Self::ApiErrors,
        Self::Expired,
        Self::SlowApi,
        Self::CutConnections,
        Self::StoreErrors,
        Self::StoreLostAnswers,
        Self::SlowStore,
        Self::TruncatedStore,
        Self::DamagedStore,
        Self::StaleListings,
        Self::FullStore,
        Self::StoreClock,
        Self::FullDisk,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::KillServer => "kill-server",
            Self::StopServer => "stop-server",
            Self::KillPlugin => "kill-plugin",
            Self::KillAgent => "kill-agent",
            Self::KillMover => "kill-mover",
            Self::KillApiServer => "kill-api-server",
            Self::KillEtcd => "kill-etcd",
            Self::KillStore => "kill-store",
            Self::LostAnswers => "api-lost-answers",
            Self::TooManyRequests => "api-429",
            Self::ApiErrors => "api-5xx",
            Self::Expired => "api-410",
            Self::SlowApi => "api-slow",
            Self::CutConnections => "api-watch-cut",
            Self::StoreErrors => "store-5xx",
            Self::StoreLostAnswers => "store-lost-answers",
            Self::SlowStore => "store-slow",
            Self::TruncatedStore => "store-truncated",
            Self::DamagedStore => "store-damaged",
            Self::StaleListings => "store-stale-listings",
            Self::FullStore => "store-full",
            Self::StoreClock => "store-clock",
            Self::FullDisk => "disk-full",
        }
    }

    /// Whether it needs a node, agents or plugins.
    pub(super) fn needs_node(self) -> bool {
        matches!(self, Self::KillPlugin | Self::KillAgent | Self::KillMover)
    }

    /// How long it lasts at least and at most, in milliseconds.
    pub(super) fn lasts(self) -> (u64, u64) {
        match self {
            Self::KillServer => (0, 3_000),
            // Longer than a Lease is held, at times.
            Self::StopServer => (1_000, 16_000),
            Self::KillPlugin | Self::KillAgent | Self::KillMover | Self::CutConnections => (1, 2),
            Self::KillApiServer | Self::KillEtcd | Self::KillStore => (500, 8_000),
            _ => (2_000, 20_000),
        }
    }

    /// Strikes; `false` where there was nobody to strike.
    pub(super) fn strike(self, stage: &mut Stage) -> Result<bool> {
        match self {
            Self::LostAnswers
            | Self::TooManyRequests
            | Self::ApiErrors
            | Self::Expired
            | Self::SlowApi
            | Self::CutConnections => stage.api.begin(self),
            Self::StoreErrors
            | Self::StoreLostAnswers
            | Self::SlowStore
            | Self::TruncatedStore
            | Self::DamagedStore
            | Self::StaleListings
            | Self::FullStore
            | Self::StoreClock => stage.store.begin(self),
            process => return processes::strike(process, stage),
        }
        Ok(true)
    }

    /// Ends what a strike began. Where nothing was struck, nothing is done.
    pub(super) fn heal(self, stage: &mut Stage) -> Result<()> {
        stage.api.end(self);
        stage.store.end(self);
        processes::heal(self, stage)
    }
}
