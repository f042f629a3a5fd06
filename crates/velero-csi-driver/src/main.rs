//! The CSI driver of the box.

use std::process::ExitCode;

use clap::Parser;
use velero_csi_driver::server::{self, Options};

/// A CSI driver whose volumes are directories or files, and which misbehaves on command
#[derive(Parser)]
#[command(name = "velero-csi-driver")]
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
