//! The controller of the data mover: does what `DataMove` objects ask for.

use std::process::ExitCode;

use velero_cluster::{Cluster, ConnectOptions};

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = async {
        let cluster = Cluster::connect(&ConnectOptions::default()).await?;
        velero_plugin_example::data_mover::control(&cluster).await
    };
    let Err(error) = outcome.await;
    eprintln!("the data mover cannot go on: {error}");
    ExitCode::FAILURE
}
