//! The plugin binary.

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    velero_plugin::sdk::serve(velero_plugin_example::plugins()).await
}
