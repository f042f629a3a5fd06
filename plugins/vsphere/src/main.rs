//! The plugin binary.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    velero_plugin::sdk::serve(velero_plugin_vsphere::plugins()).await
}
