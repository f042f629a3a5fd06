//! Repositories of volume data, one for each namespace and location: made, connected, maintained.
//!
//! ```text
//! reconciler ── New, NotReady → establish; Ready → maintenance
//! establish ── connects or makes the repository in the bucket, and says Ready or why not
//!   password ── the Secret with the password of all of them
//! location_changes ── another bucket means another repository: those of a changed location are established again
//! maintenance ── what Jobs did is written down, the next one begun when it is due
//!   jobs, job_template ── the Jobs in the cluster, and what one is made of
//!   work ── the maintenance itself, in the pod of a Job or, where there can be none, in the server
//! state ── what the status says of readiness
//! command ── what runs in the pod of a Job: `velero repo-maintenance`
//! settings ── what the ConfigMaps of the server's flags say
//! ```

pub(crate) mod command;
mod establish;
mod job_template;
mod jobs;
pub(crate) mod location_changes;
mod maintenance;
mod password;
pub(crate) mod reconciler;
pub(crate) mod settings;
mod state;
mod work;
