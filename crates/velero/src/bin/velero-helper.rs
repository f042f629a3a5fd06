//! Keeps a pod running that only holds volumes: `velero-helper pause`.

use std::env;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some("pause") => {
            // The first process of a container is not ended by a signal it does not listen to.
            let Ok(mut terminate) = signal(SignalKind::terminate()) else { return ExitCode::FAILURE };
            terminate.recv().await;
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("velero-helper: say what to do: pause");
            ExitCode::FAILURE
        }
    }
}
