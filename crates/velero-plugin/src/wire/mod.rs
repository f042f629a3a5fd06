//! The messages and services of the plugin protocol, made from `proto/`, and what they are in our words.

mod convert;
#[cfg(test)]
mod hostile_tests;
mod status;

pub(crate) use convert::{
    from_duration, identifier_from, identifier_to, json_bytes, progress_from, progress_to, selector_from, selector_to,
    to_duration,
};
pub(crate) use status::{first_frame, operation_error, to_status};

macro_rules! generated_code {
    ($($module:ident = $package:literal),+) => {$(
        #[allow(missing_docs, unreachable_pub, clippy::all, clippy::too_many_lines, reason = "generated code")]
        #[allow(clippy::use_self, clippy::needless_pass_by_value, clippy::unwrap_used, reason = "generated code")]
        pub(crate) mod $module {
            tonic::include_proto!($package);
        }
    )+};
}

generated_code!(
    generated = "generated",
    v1 = "v1",
    v2 = "v2",
    go_plugin = "plugin",
    health = "grpc.health.v1",
    rpc = "google.rpc"
);
