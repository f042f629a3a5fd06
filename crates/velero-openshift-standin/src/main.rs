//! The stand-in for OpenShift in the box.

use std::process::ExitCode;

use clap::Parser;
use velero_openshift_standin::server::{self, Options};

/// An aggregated API server for image.openshift.io, in memory
#[derive(Parser)]
#[command(name = "velero-openshift-standin")]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

#[tokio::main]
async fn main() -> ExitCode {
    match server::serve(Arguments::parse().options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
