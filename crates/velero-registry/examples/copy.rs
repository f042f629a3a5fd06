//! Copies an image: `copy SOURCE DESTINATION`, for measurements and trials.

use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use velero_registry::{Access, Credentials, Options, Platforms, Reference, Registry, Retry, copy};

#[derive(Parser)]
struct Arguments {
    /// The image to copy
    source: Reference,
    /// Where to
    destination: Reference,
    /// One platform instead of all, as os/architecture
    #[arg(long)]
    platform: Option<velero_registry::Platform>,
    /// A user and a password for both registries, as user:password
    #[arg(long)]
    credentials: Option<String>,
    /// Accept any certificate
    #[arg(long)]
    insecure_tls: bool,
    /// Allow plain HTTP
    #[arg(long)]
    plain_http: bool,
    /// How many blobs move at the same time
    #[arg(long)]
    parallel: Option<usize>,
    /// The pauses between attempts, in milliseconds
    #[arg(long, value_delimiter = ',')]
    pauses: Option<Vec<u64>>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let credentials = arguments.credentials.as_deref().and_then(|text| text.split_once(':'));
    let access = Access {
        credentials: credentials.map_or(Credentials::Anonymous, |(username, password)| Credentials::Basic {
            username: username.to_owned(),
            password: password.to_owned(),
        }),
        insecure_tls: arguments.insecure_tls,
        plain_http: arguments.plain_http,
        ..Access::default()
    };
    let mut options = Options::default();
    options.parallel = arguments.parallel.unwrap_or(options.parallel);
    if let Some(pauses) = arguments.pauses {
        options.retry = Retry { pauses: pauses.into_iter().map(Duration::from_millis).collect() };
    }
    if let Some(platform) = arguments.platform {
        options.platforms = Platforms::One(platform);
    }
    let source = Registry::new(arguments.source.registry(), access.clone())?;
    let destination = Registry::new(arguments.destination.registry(), access)?;
    let copied = copy(&source.image(&arguments.source)?, &destination.image(&arguments.destination)?, &options).await?;
    let peak = peak_memory()?;
    println!("{} moved {} skipped {} peak KiB {peak}", copied.digest, copied.bytes, copied.skipped);
    Ok(())
}

/// The most memory this process ever held, in KiB.
fn peak_memory() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
