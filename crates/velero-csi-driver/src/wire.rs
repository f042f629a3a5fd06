//! The messages and services made from `proto/`.

macro_rules! generated_code {
    ($($module:ident = $package:literal),+) => {$(
        #[allow(missing_docs, unreachable_pub, clippy::all, clippy::too_many_lines, reason = "generated code")]
        #[allow(clippy::use_self, clippy::needless_pass_by_value, clippy::unwrap_used, reason = "generated code")]
        pub(crate) mod $module {
            tonic::include_proto!($package);
        }
    )+};
}

generated_code!(csi = "csi.v1", kubelet = "pluginregistration");
