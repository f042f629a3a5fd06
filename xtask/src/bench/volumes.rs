//! The data of volumes, copied through pods: backed up, backed up again after a change, restored, by us and by the peer.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use velero_testkit::machine::wait_until;
use velero_testkit::parts::{Kubelet, WORKLOAD_IMAGE};
use velero_testkit::progress::say;
use velero_testkit::{Edition, TestBox, VeleroServer, harness, load, objects};
use velero_tests::{backups, restores, volume_data};

use super::profile::Profile;
use super::watch::Watch;
use super::{Output, ratio, rounded, take};
use crate::output::out;

/// How long the pods may take to be filled.
const FILLING: Duration = Duration::from_secs(600);
/// How many pods the node takes: the original starts a mover for each volume at once, beside the pods and the restored pods.
const ROOM: usize = 220;
/// What is measured of a load, in this order.
const STAGES: [&str; 3] = ["backup", "one percent changed", "restore"];

/// What was measured in each stage.
type Figures = BTreeMap<&'static str, Value>;

#[derive(Args, Clone)]
pub(crate) struct Options {
    /// How many pods have a large volume
    #[arg(long, default_value_t = 10)]
    pods: usize,
    /// How large that is, in MiB
    #[arg(long, default_value_t = 200)]
    size_mib: usize,
    /// How many files the volume with many small files has
    #[arg(long, default_value_t = 100_000)]
    files: usize,
    /// How many pods have a small volume
    #[arg(long, default_value_t = 50)]
    small: usize,
    /// Only these loads, by their namespaces; all of them unless told otherwise
    #[arg(long, value_delimiter = ',', value_parser = ["large", "many", "small"])]
    only: Vec<String>,
    /// How long the agent rests before its memory at rest is read, in seconds
    #[arg(long, default_value_t = 60)]
    rest: u64,
    /// Who is measured
    #[arg(long, value_enum, default_value = "both")]
    pub(super) side: Side,
    /// How our programs are built
    #[arg(long, value_enum, default_value = "release")]
    pub(super) profile: Profile,
    /// How to print the figures
    #[arg(long, value_enum, default_value = "table")]
    pub(super) output: Output,
    /// Leave the box up afterwards
    #[arg(long)]
    pub(super) keep: bool,
}

impl Options {
    /// The editions that are measured.
    pub(super) fn editions(&self) -> Vec<Edition> {
        match self.side {
            Side::Both => vec![self.profile.edition(), Edition::Peer],
            Side::Ours => vec![self.profile.edition()],
            Side::Peer => vec![Edition::Peer],
        }
    }
}

/// Who is measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    /// Ours and the original
    Both,
    /// Ours alone
    Ours,
    /// The original alone
    Peer,
}

/// Pods with volumes, how they are filled and how a hundredth of them is changed. Both are run in each pod.
struct Load {
    name: String,
    namespace: &'static str,
    pods: usize,
    fill: String,
    change: String,
}

fn loads(options: &Options) -> [Load; 3] {
    let Options { pods, size_mib, files, small, .. } = *options;
    let hundredth = (size_mib / 100).max(1);
    [
        Load {
            name: format!("{pods} pods with {size_mib} MiB each"),
            namespace: "large",
            pods,
            fill: format!("dd if=/dev/urandom of=/data/file bs=1M count={size_mib} 2>/dev/null"),
            change: format!("dd if=/dev/urandom of=/data/file bs=1M count={hundredth} conv=notrunc 2>/dev/null"),
        },
        Load {
            name: format!("one volume with {files} files"),
            namespace: "many",
            pods: 1,
            fill: format!(
                "for folder in $(seq 1 100); do mkdir /data/$folder; for file in $(seq 1 {}); do echo $folder $file > /data/$folder/$file; \
                 done; done",
                files.div_ceil(100)
            ),
            change: format!("for file in $(seq 1 {}); do date > /data/7/$file; done", files.div_ceil(100)),
        },
        Load {
            name: format!("{small} small volumes"),
            namespace: "small",
            pods: small,
            fill: "head -c 100000 /dev/urandom > /data/file".to_owned(),
            change: "head -c 1000 /dev/urandom > /data/another".to_owned(),
        },
    ]
}

impl Load {
    fn objects(&self) -> impl Iterator<Item = Value> {
        let fill = format!("test -f /data/done || {{ {}; touch /data/done; }}; sleep 100000", self.fill);
        let pod = move |number: usize| {
            let mut pod = objects::pod(self.namespace, &format!("pod-{number}"), &fill);
            pod["metadata"]["annotations"] = json!({"backup.velero.io/backup-volumes": "data"});
            pod["spec"]["volumes"] = json!([volume_data::empty_dir("data")]);
            let container = &mut pod["spec"]["containers"][0];
            container["image"] = json!(WORKLOAD_IMAGE);
            container["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
            // It ends with the first success: a probe that goes on in a hundred pods would be most of what is measured.
            container["startupProbe"] = json!({
                "exec": {"command": ["test", "-f", "/data/done"]}, "periodSeconds": 2, "failureThreshold": 1000,
            });
            pod
        };
        [objects::namespace(self.namespace)].into_iter().chain((0..self.pods).map(pod))
    }

    fn wait(&self, test_box: &TestBox) -> Result<()> {
        wait_until("the pods to be filled", FILLING, || {
            let pods = test_box.machine().items(&format!("/api/v1/namespaces/{}/pods", self.namespace))?;
            let is_ready = |pod: &&Value| pod["status"]["containerStatuses"][0]["ready"] == true;
            let ready = pods.iter().filter(is_ready).count();
            ensure!(ready == self.pods, "{ready} of {} pods are ready", self.pods);
            Ok(())
        })
    }

    fn change(&self, test_box: &TestBox) -> Result<()> {
        for number in 0..self.pods {
            let pod = format!("pod-{number}");
            let machine = test_box.machine();
            machine.kubectl(&["-n", self.namespace, "exec", &pod, "--", "sh", "-c", &self.change])?;
        }
        Ok(())
    }
}

pub(super) fn run(test_box: &TestBox, options: &Options) -> Result<Value> {
    Kubelet.make_room(test_box.machine(), ROOM)?;
    let wanted = |load: &Load| options.only.is_empty() || options.only.iter().any(|only| only == load.namespace);
    let mut rows = vec![at_rest(test_box, options)?];
    for load in loads(options).iter().filter(|load| wanted(load)) {
        say(format!("filling {}", load.name));
        let all: Vec<Value> = load.objects().collect();
        harness::inside(test_box.clone(), async move |cluster| {
            load::create_all(&cluster.client, all.into_iter()).await
        })?;
        load.wait(test_box)?;
        let measured = |wanted: Side, edition: Edition| match options.side {
            side if side == Side::Both || side == wanted => side_of(test_box, edition, load).map(Some),
            _ => Ok(None),
        };
        let ours = measured(Side::Ours, options.profile.edition())?;
        let peer = measured(Side::Peer, Edition::Peer)?;
        rows.extend(compared(load, ours.as_ref(), peer.as_ref())?);
        let namespace = format!("/api/v1/namespaces/{}", load.namespace);
        test_box.machine().delete(&namespace)?;
    }
    Ok(json!({"work": "volumes", "rows": rows}))
}

/// What agents hold that have nothing to do.
fn at_rest(test_box: &TestBox, options: &Options) -> Result<Value> {
    let mut row = json!({"work": "an agent at rest"});
    for edition in options.editions() {
        say(format!("{edition:?}: an agent at rest for {} s", options.rest));
        let server = volume_data::server(test_box, edition, &harness::unique_name("bench"))?;
        let watch = Watch::start();
        std::thread::sleep(Duration::from_secs(options.rest));
        let (agent, ..) = watch.stop();
        server.remove_agents()?;
        server.stop()?;
        row[if edition == Edition::Peer { "peer" } else { "ours" }] = json!({"agent_peak_rss_mib": agent});
    }
    Ok(row)
}

/// The rows of a load, a stage each.
fn compared(load: &Load, ours: Option<&Figures>, peer: Option<&Figures>) -> Result<Vec<Value>> {
    let row = |stage: &&str| {
        let of =
            |figures: Option<&Figures>| figures.and_then(|figures| figures.get(stage)).cloned().unwrap_or_default();
        let (ours, peer) = (of(ours), of(peer));
        let ratio = if ours.is_null() || peer.is_null() { Value::Null } else { json!(ratio(&ours, &peer)?) };
        Ok(json!({"work": format!("{}, {stage}", load.name), "ratio": ratio, "ours": ours, "peer": peer}))
    };
    STAGES.iter().map(row).collect()
}

/// What waits in restored pods asks for a tenth of a processor unless told otherwise, on both sides, and the pod keeps that: a
/// node of two processors would have room for twenty of the small ones.
fn small_restore_helpers(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "small-restore-helpers",
            "namespace": namespace,
            "labels": {"velero.io/plugin-config": "", "velero.io/pod-volume-restore": "RestoreItemAction"},
        },
        "data": {"cpuRequest": "5m", "memRequest": "16Mi"},
    })
}

/// One side with one load: its agents come before and go after, so that they are measured alone.
fn side_of(test_box: &TestBox, edition: Edition, load: &Load) -> Result<Figures> {
    say(format!("{edition:?}: {}", load.name));
    let server = volume_data::server(test_box, edition, &harness::unique_name("bench"))?;
    let namespace = volume_data::namespace(edition);
    test_box.machine().apply(&small_restore_helpers(&namespace).to_string())?;
    let mut figures = Figures::new();
    let spec = json!({"includedNamespaces": [load.namespace], "snapshotVolumes": false});
    for stage in STAGES {
        let name = harness::unique_name(load.namespace);
        let request = match stage {
            "restore" => {
                let target = format!("{}-{}", load.namespace, format!("{edition:?}").to_lowercase());
                let backup = latest_backup(&server)?;
                let spec = json!({"backupName": backup, "namespaceMapping": {load.namespace: target}});
                restores::request(&server, &name, &spec)
            }
            "backup" => backups::request(&server, &name, &spec),
            _ => {
                load.change(test_box)?;
                backups::request(&server, &name, &spec)
            }
        };
        let watch = Watch::start();
        let (ended, seconds) =
            harness::inside(test_box.clone(), async move |cluster| take(cluster.client, request).await)?;
        let (agent, mover, movers) = watch.stop();
        let status = &ended["status"];
        ensure!(status["phase"] == "Completed", "{stage} of {edition:?}: {status}\n{}", server.agent_log());
        let measured = json!({
            "seconds": rounded(seconds), "agent_peak_rss_mib": agent, "mover_peak_rss_mib": mover,
            "peak_rss_mib": agent.max(mover), "pods": movers,
        });
        say(format!("{stage}: {measured}"));
        figures.insert(stage, measured);
    }
    let target = format!("{}-{}", load.namespace, format!("{edition:?}").to_lowercase());
    test_box.machine().delete(&format!("/api/v1/namespaces/{target}"))?;
    server.remove_agents()?;
    server.stop()?;
    Ok(figures)
}

fn latest_backup(server: &VeleroServer) -> Result<String> {
    let backups = server.machine().items(&server.path("backups"))?;
    let latest =
        backups.iter().max_by_key(|backup| backup["metadata"]["creationTimestamp"].as_str().map(str::to_owned));
    let name = latest.and_then(|backup| backup["metadata"]["name"].as_str()).context("no backup to restore")?;
    Ok(name.to_owned())
}

/// Prints the rows as lines of JSON or as a table.
pub(super) fn print(figures: &Value, output: Output) {
    let rows = figures["rows"].as_array().into_iter().flatten();
    if output == Output::Json {
        return rows.for_each(|row| out!("{row}"));
    }
    out!("{:<48}{:>30}{:>30}{:>8}", "", "ours s / agent / mover MiB", "peer s / agent / mover MiB", "ratio");
    for row in rows {
        let side = |side: &str| {
            let figures = &row[side];
            format!("{} / {} / {}", figures["seconds"], figures["agent_peak_rss_mib"], figures["mover_peak_rss_mib"])
        };
        let work = row["work"].as_str().unwrap_or_default();
        out!("{work:<48}{:>30}{:>30}{:>8}", side("ours"), side("peer"), row["ratio"]);
    }
}
