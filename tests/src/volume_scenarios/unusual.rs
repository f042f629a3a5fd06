//! Asked-for volumes of pods that are unusual: hooks around the copy, other users, odd files.

use serde_json::{Value, json};

use super::pods::{annotated, claim, pod, pod_with_claim, pod_with_scratch, script, with};
use super::{Again, Row, Way};
use crate::volume_data::{claimed, empty_dir};

const COPIED_CLAIM: [&str; 3] =
    ["backup Completed", "copy web/data Completed", "claim data: PodVolumeBackup succeeded"];
const COPIED_SCRATCH: [&str; 3] =
    ["backup Completed", "copy web/scratch Completed", "volume web/scratch: PodVolumeBackup succeeded"];

/// A row whose data comes back as it was.
fn comes_back(name: &'static str, objects: Vec<Value>, copied: [&str; 3], same: &[&str]) -> Row {
    let lines = [&copied[..], &["restore Completed"], same].concat();
    Row::new(name, Way::Asked, objects).restored(Again::Whole).gives(&lines)
}

fn pre_hook(pod: Value, command: &str) -> Value {
    annotated(pod, "pre.hook.backup.velero.io/command", &json!(["sh", "-c", command]).to_string())
}

fn post_hook(pod: Value, command: &str) -> Value {
    annotated(pod, "post.hook.backup.velero.io/command", &json!(["sh", "-c", command]).to_string())
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = hooks();
    rows.extend(files());
    rows.extend(users());
    rows
}

/// The namespace that the hooks of the backup itself are for.
const HOOKED: &str = "hook-of-backup";

/// The hooks of the backup of rows that ask.
pub(super) fn hooks_of_backup() -> Value {
    let exec = |command: &str| json!([{"exec": {"container": "web", "command": ["sh", "-c", command]}}]);
    json!({"resources": [{
        "name": "around", "includedNamespaces": [HOOKED], "includedResources": ["pods"],
        "pre": exec("echo by-backup > /volumes/data/by-backup"), "post": exec("rm /volumes/data/by-backup"),
    }]})
}

fn hooks() -> Vec<Row> {
    let pod = || pod_with_claim("web", "data");
    let around = post_hook(pre_hook(pod(), "echo by-hook > /volumes/data/by-hook"), "rm /volumes/data/by-hook");
    let failing = |command: &str, on_error: &str| {
        annotated(pre_hook(pod(), command), "pre.hook.backup.velero.io/on-error", on_error)
    };
    let failed = |lines: &[&'static str]| [&["backup PartiallyFailed"], lines].concat();
    let copied = ["copy web/data Completed", "claim data: PodVolumeBackup succeeded"];
    vec![
        comes_back("hook-around", vec![claim("data"), around], COPIED_CLAIM, &["web/data plus by-hook"]),
        // The original does not say which pod a hook has failed in, but how it ended.
        Row::new("hook-fails", Way::Asked, vec![claim("data"), failing("exit 31", "Fail")])
            .known_by(&["exit code 31"])
            .gives(&failed(&["claim data: skipped"])),
        Row::new("hook-fails-goes-on", Way::Asked, vec![claim("data"), failing("exit 32", "Continue")])
            .known_by(&["exit code 32"])
            .gives(&failed(&copied)),
        Row::new("hook-fails-after", Way::Asked, vec![claim("data"), post_hook(pod(), "exit 33")])
            .known_by(&["exit code 33"])
            .gives(&failed(&copied)),
        comes_back(HOOKED, vec![claim("data"), pod()], COPIED_CLAIM, &["web/data plus by-backup"]),
    ]
}

fn files() -> Vec<Row> {
    let unreadable = script(
        pod_with_scratch("web", "scratch"),
        "cd /volumes/scratch; test -e random || { head -c 3000 /dev/urandom > random; chmod 0 random; mkdir shut; chmod 0 shut; }",
    );
    let odd = script(
        pod_with_scratch("web", "scratch"),
        "cd /volumes/scratch; test -e random || { head -c 3000 /dev/urandom > random; ln -s /nowhere dangling; chmod 06755 random; \
         ln random hard; touch -d '2001-02-03 04:05:06' \"$(head -c 255 /dev/zero | tr '\\0' x)\"; \
         printf x > \"$(printf 'new\\tline')\"; : > nothing; chown 1234:5678 nothing; dd if=/dev/zero of=hole bs=1 count=1 seek=3000000 \
         2>/dev/null; }",
    );
    let pipe = script(
        pod_with_scratch("web", "scratch"),
        "cd /volumes/scratch; test -e random || { head -c 3000 /dev/urandom > random; mkfifo pipe; }",
    );
    let mut read_only = pod("web", "data", &[claimed("data", "data")]);
    let filler = read_only["spec"]["containers"][0].clone();
    let fill = filler["command"][2].as_str().unwrap_or_default().replace("sleep 100000", "true");
    let filler = json!({
        "name": "filler", "image": filler["image"], "imagePullPolicy": "Never", "command": ["sh", "-c", fill],
        "volumeMounts": filler["volumeMounts"],
    });
    read_only["spec"]["initContainers"] = json!([filler]);
    let read_only = with(read_only, "/spec/containers/0/volumeMounts/0/readOnly", json!(true));
    vec![
        Row::new("empty-volume", Way::Asked, vec![script(pod_with_scratch("web", "scratch"), "true")])
            .restored(Again::Whole)
            .gives(&[&COPIED_SCRATCH[..], &["restore Completed", "web/scratch same"]].concat()),
        comes_back("file-without-mode", vec![unreadable], COPIED_SCRATCH, &["web/scratch same"]),
        comes_back("files-that-are-odd", vec![odd], COPIED_SCRATCH, &["web/scratch same"]),
        comes_back("pipe-among-files", vec![pipe], COPIED_SCRATCH, &["web/scratch minus pipe"]),
        comes_back("mounted-read-only", vec![claim("data"), read_only], COPIED_CLAIM, &["web/data same"]),
    ]
}

fn users() -> Vec<Row> {
    let both = || pod("web", "data,scratch", &[claimed("data", "data"), empty_dir("scratch")]);
    let user = |user: Value| with(both(), "/spec/securityContext", user);
    let not_root = with(
        pod_with_scratch("web", "scratch"),
        "/spec/securityContext",
        json!({"runAsUser": 1000, "runAsGroup": 1000, "runAsNonRoot": true}),
    );
    let copied = [
        "backup Completed",
        "copy web/data Completed",
        "claim data: PodVolumeBackup succeeded",
        "copy web/scratch Completed",
        "volume web/scratch: PodVolumeBackup succeeded",
        "restore Completed",
        "web/data same",
        "web/scratch same",
    ];
    vec![
        Row::new("group-of-files", Way::Asked, vec![claim("data"), user(json!({"fsGroup": 2000}))])
            .restored(Again::Whole)
            .gives(&copied),
        Row::new(
            "user-and-group",
            Way::Asked,
            vec![claim("data"), user(json!({"runAsUser": 1000, "runAsNonRoot": true, "fsGroup": 2000}))],
        )
        .restored(Again::Whole)
        .gives(&copied),
        comes_back("not-root", vec![not_root], COPIED_SCRATCH, &["web/scratch same"]),
    ]
}
