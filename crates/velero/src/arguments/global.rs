//! Flags every command takes.

use std::path::PathBuf;

use clap::Args;

use super::values::{OptionalBool, StringList};

/// Flags every command takes.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct GlobalArguments {
    /// Path to the kubeconfig file; by default $KUBECONFIG, then the in-cluster configuration
    #[arg(long, global = true)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig file to use; by default its current one
    #[arg(long, global = true)]
    pub(crate) kubecontext: Option<String>,

    /// The namespace in which Velero should operate [default: velero]
    #[arg(short, long, global = true)]
    pub(crate) namespace: Option<String>,

    /// Comma separated list of features to enable, on top of those in the client configuration file
    // `install` has a flag of the same name that means the server's features.
    #[arg(long, global = true)]
    pub(crate) features: Option<StringList>,

    /// Show colored output, or not; overrides the client configuration file
    #[arg(long, global = true, value_name = "BOOL")]
    pub(crate) colorized: Option<OptionalBool>,

    #[command(flatten)]
    pub(crate) logging: LoggingArguments,
}

/// Flags of the logging library the original uses. All but the verbosity are accepted and mean nothing here; the server
/// says so.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct LoggingArguments {
    /// From 6 on, tells of each request to the API server; the server has --log-level instead
    #[arg(short, long = "v", global = true, value_name = "LEVEL")]
    pub(crate) verbosity: Option<i32>,

    #[arg(long = "add_dir_header", global = true, hide = true)]
    add_dir_header: bool,

    #[arg(long, global = true, hide = true)]
    alsologtostderr: bool,

    #[arg(long, global = true, hide = true)]
    alsologtostderrthreshold: Option<String>,

    #[arg(long = "legacy_stderr_threshold_behavior", global = true, hide = true)]
    legacy_stderr_threshold_behavior: bool,

    #[arg(long = "log_backtrace_at", global = true, hide = true)]
    log_backtrace_at: Option<String>,

    #[arg(long = "log_dir", global = true, hide = true)]
    log_dir: Option<String>,

    #[arg(long = "log_file", global = true, hide = true)]
    log_file: Option<String>,

    #[arg(long = "log_file_max_size", global = true, hide = true)]
    log_file_max_size: Option<u64>,

    #[arg(long, global = true, hide = true)]
    logtostderr: bool,

    #[arg(long = "one_output", global = true, hide = true)]
    one_output: bool,

    #[arg(long = "skip_headers", global = true, hide = true)]
    skip_headers: bool,

    #[arg(long = "skip_log_headers", global = true, hide = true)]
    skip_log_headers: bool,

    #[arg(long, global = true, hide = true)]
    stderrthreshold: Option<String>,

    #[arg(long, global = true, hide = true)]
    vmodule: Option<String>,
}

impl LoggingArguments {
    /// Those that were given, by their names.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let flags = [
            ("v", self.verbosity.is_some()),
            ("add_dir_header", self.add_dir_header),
            ("alsologtostderr", self.alsologtostderr),
            ("alsologtostderrthreshold", self.alsologtostderrthreshold.is_some()),
            ("legacy_stderr_threshold_behavior", self.legacy_stderr_threshold_behavior),
            ("log_backtrace_at", self.log_backtrace_at.is_some()),
            ("log_dir", self.log_dir.is_some()),
            ("log_file", self.log_file.is_some()),
            ("log_file_max_size", self.log_file_max_size.is_some()),
            ("logtostderr", self.logtostderr),
            ("one_output", self.one_output),
            ("skip_headers", self.skip_headers),
            ("skip_log_headers", self.skip_log_headers),
            ("stderrthreshold", self.stderrthreshold.is_some()),
            ("vmodule", self.vmodule.is_some()),
        ];
        flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect()
    }
}
