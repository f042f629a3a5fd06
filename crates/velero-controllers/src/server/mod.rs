//! The server process.
//!
//! ```text
//! wiring ── everything that runs in it, in one place
//! lease ── which of several servers leads
//! startup, interrupted ── what happens once, before the controllers run or, where it takes long, beside them
//! reports ── what was protected, written into the default location when asked for
//! census ── looks at all objects once a minute; standing ── the figures that only such a look gives
//! http ── metrics, health and downloads
//! web ── the page, where there is one
//! ```

mod census;
pub(crate) mod http;
mod interrupted;
mod lease;
mod reports;
mod standing;
pub(crate) mod startup;
mod web;
mod wiring;

pub use crate::runtime::controller::{Controller, UnknownController};
pub use crate::runtime::log_format::{LogFormat, LogSettings, UnknownLogFormat};
pub use crate::runtime::repository_settings::RepositorySettings;
pub use crate::runtime::settings::{FlagsWithoutEffect, INSTALL_FLAGS, Settings};
pub use crate::runtime::shared_settings::{MetricsSettings, PatienceSettings};
pub use crate::runtime::web_settings::WebSettings;
pub use wiring::{run, run_until, run_until_with};
