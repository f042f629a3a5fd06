//! The plugin binary. Called as `velero-plugin-openshift install /target` it copies itself there, which is all that the
//! image for `velero plugin add` has to do.

use std::path::Path;
use std::process::ExitCode;

const NAME: &str = "velero-plugin-openshift";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [command, folder] = arguments.as_slice()
        && command == "install"
    {
        return install(Path::new(folder));
    }
    velero_cluster::install_crypto_provider();
    velero_plugin::sdk::serve(velero_plugin_openshift::plugins()).await
}

fn install(folder: &Path) -> ExitCode {
    let target = folder.join(NAME);
    match std::env::current_exe().and_then(|own| std::fs::copy(own, &target)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot copy the plugin to {}: {error}", target.display());
            ExitCode::FAILURE
        }
    }
}
