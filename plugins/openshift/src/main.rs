//! The plugin binary.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    velero_cluster::install_crypto_provider();
    velero_plugin::sdk::serve(velero_plugin_openshift::plugins()).await
}
