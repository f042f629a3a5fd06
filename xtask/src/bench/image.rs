//! A large image from one registry to another: by us and by skopeo.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use velero_testkit::install;
use velero_testkit::progress::say;
use velero_testkit::registry::{ContainerRegistry, Layout};

use super::{Output, peak_memory, ratio, rounded};

use crate::output::out;

const NAME: &str = "bench/image:v1";

#[derive(Args, Clone)]
pub(crate) struct Options {
    /// The size of the image
    #[arg(long, default_value_t = 1024)]
    mib: usize,
    /// How many layers it has
    #[arg(long, default_value_t = 8)]
    layers: usize,
    /// How often each copies it, into an empty registry every time; the fastest counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The profile our program is built with
    #[arg(long, default_value = "release")]
    profile: String,
    /// How to print the figures
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let program = install::package_example("velero-registry", "copy", &options.profile)?;
    let source = ContainerRegistry::start()?;
    say(format!("making an image of {} MiB", options.mib));
    let mut layout = Layout::new()?;
    let layers = options.layers.max(1);
    let image = layout.image("amd64", &vec![(options.mib << 20) / layers; layers])?;
    layout.push(&image, &source, NAME)?;
    drop(layout);

    let (mut ours, mut skopeo): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    for round in 1..=options.rounds.max(1) {
        say(format!("round {round} of {}", options.rounds));
        ours.push(measure(&source, |from, to| {
            let mut command = Command::new(&program);
            command.arg("--plain-http").args([from, to]);
            command
        })?);
        skopeo.push(measure(&source, |from, to| {
            let mut command = Command::new("skopeo");
            command.args(["--insecure-policy", "copy", "--all", "--src-tls-verify=false", "--dest-tls-verify=false"]);
            command.args([format!("docker://{from}"), format!("docker://{to}")]);
            command
        })?);
    }
    let (ours, skopeo) = (summary(&ours)?, summary(&skopeo)?);
    let figures =
        json!({"work": "image", "mib": options.mib, "ratio": ratio(&ours, &skopeo)?, "ours": ours, "skopeo": skopeo});
    print(&figures, options.output);
    Ok(())
}

/// Copies the image into an empty registry.
fn measure(source: &ContainerRegistry, command: impl Fn(&str, &str) -> Command) -> Result<Value> {
    let destination = ContainerRegistry::start()?;
    let (from, to) = (format!("{}/{NAME}", source.host()), format!("{}/{NAME}", destination.host()));
    let mut command = command(&from, &to);
    let program = command.get_program().to_owned();
    let start = Instant::now();
    let mut process = command.stdout(Stdio::null()).spawn().with_context(|| format!("cannot start {program:?}"))?;
    let mut peak = 0;
    let status = loop {
        if let Some(status) = process.try_wait()? {
            break status;
        }
        peak = peak.max(peak_memory(process.id()).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    };
    let seconds = start.elapsed().as_secs_f64();
    ensure!(status.success(), "{program:?} failed: {status}");
    Ok(json!({"seconds": rounded(seconds), "peak_rss_mib": peak}))
}

/// The time of the fastest round and the memory of the hungriest.
fn summary(rounds: &[Value]) -> Result<Value> {
    let seconds = rounds.iter().filter_map(|round| round["seconds"].as_f64()).reduce(f64::min);
    let peak = rounds.iter().filter_map(|round| round["peak_rss_mib"].as_u64()).max();
    Ok(json!({"seconds": seconds.context("nothing measured")?, "peak_rss_mib": peak}))
}

fn print(figures: &Value, output: Output) {
    if output == Output::Json {
        out!("{figures}");
        return;
    }
    out!("{:<10}{:>10}{:>12}{:>12}", "", "seconds", "MiB/s", "peak MiB");
    for side in ["ours", "skopeo"] {
        let seconds = figures[side]["seconds"].as_f64().unwrap_or(f64::NAN);
        let rate = figures["mib"].as_f64().unwrap_or(0.0) / seconds;
        let peak = figures[side]["peak_rss_mib"].as_u64().unwrap_or(0);
        out!("{side:<10}{seconds:>10.2}{rate:>12.0}{peak:>12}");
    }
    out!("ours is {} times as fast", figures["ratio"]);
}
