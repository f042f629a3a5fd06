//! Backups as tests use them: make one with any server, wait for its end, read what it wrote to the bucket.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::{ACCESS_KEY, SECRET_KEY};
use velero_testkit::{TestBox, VeleroServer};

/// The phases in which a backup has ended.
pub const ENDED: &[&str] = &["Completed", "PartiallyFailed", "Failed", "FailedValidation"];

/// A Backup with that spec in the server's namespace.
pub fn request(server: &VeleroServer, name: &str, spec: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": server.namespace()});
    json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": metadata, "spec": spec})
}

/// Creates a Backup with that spec in the server's namespace.
pub fn create(server: &VeleroServer, name: &str, spec: &Value) -> Result<()> {
    server.machine().apply(&request(server, name, spec).to_string())
}

/// Waits until a backup has ended and gives it.
pub fn ended(server: &VeleroServer, name: &str, deadline: Duration) -> Result<Value> {
    let mut backup = Value::Null;
    wait_until("the backup to end", deadline, || {
        backup = server.object("backups", name)?;
        let phase = backup["status"]["phase"].as_str().unwrap_or("New");
        ensure!(ENDED.contains(&phase), "{name} is {phase}, the server's log: {}", server.log().display());
        Ok(())
    })?;
    Ok(backup)
}

/// Downloads an object of the bucket; `None` where there is none.
pub fn object(machine: &Machine, bucket: &str, key: &str) -> Result<Option<Vec<u8>>> {
    let file = machine.folder("downloads")?.join(key.replace('/', "_"));
    let url = format!("{}/{bucket}/{key}", TestBox::store_url_for_pods());
    let keys = format!("{ACCESS_KEY}:{SECRET_KEY}");
    let sign = ["--silent", "--show-error", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", &keys];
    let file_text = file.display().to_string();
    let rest = ["--output", &file_text, "--write-out", "%{http_code}", &url];
    let status = machine.run("curl", sign.iter().chain(&rest))?;
    let content = fs::read(&file).unwrap_or_default();
    let _ = fs::remove_file(&file);
    match status.as_str() {
        "200" => Ok(Some(content)),
        "404" => Ok(None),
        other => anyhow::bail!("GET {url} answers {other}: {}", String::from_utf8_lossy(&content)),
    }
}

/// The keys of all objects in the bucket under a prefix.
pub fn keys(machine: &Machine, bucket: &str, prefix: &str) -> Result<Vec<String>> {
    listed(machine, bucket, prefix, "Key")
}

/// How many bytes the objects in the bucket under a prefix have, of which there are at most a thousand.
pub fn stored_bytes(machine: &Machine, bucket: &str, prefix: &str) -> Result<u64> {
    listed(machine, bucket, prefix, "Size")?.iter().map(|size| Ok(size.parse::<u64>()?)).sum()
}

/// What the list of the objects in the bucket under a prefix says in one element.
fn listed(machine: &Machine, bucket: &str, prefix: &str, element: &str) -> Result<Vec<String>> {
    let listed = listing(machine, bucket, prefix)?;
    let (begin, end) = (format!("<{element}>"), format!("</{element}>"));
    let pieces = listed.split(&begin).skip(1).filter_map(|piece| piece.split(&end).next());
    Ok(pieces.map(str::to_owned).collect())
}

/// What the store says of all objects in the bucket under a prefix: keys, times, sizes and digests.
pub fn listing(machine: &Machine, bucket: &str, prefix: &str) -> Result<String> {
    let credentials = format!("{ACCESS_KEY}:{SECRET_KEY}");
    let sign = ["--silent", "--show-error", "--fail", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", &credentials];
    let (store, prefix) = (TestBox::store_url_for_pods(), in_query(prefix));
    let (mut all, mut further) = (String::new(), String::new());
    loop {
        let url = format!("{store}/{bucket}?{further}list-type=2&prefix={prefix}");
        let page = machine.run("curl", sign.iter().chain(&[url.as_str()]))?;
        let next = next_page(&page);
        all.push_str(&page);
        match next {
            Some(token) => further = format!("continuation-token={}&", in_query(&token)),
            None => return Ok(all),
        }
    }
}

/// Where a list goes on, of which a page has a thousand objects; nothing at its end.
fn next_page(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("<NextContinuationToken>")?;
    let (token, _) = rest.split_once("</NextContinuationToken>")?;
    let goes_on = page.contains("<IsTruncated>true</IsTruncated>") && !token.is_empty();
    goes_on.then(|| token.to_owned())
}

/// A text as a value in the query of a URL.
fn in_query(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
}

/// The files of a backup's archive: path and content.
pub fn archive(machine: &Machine, bucket: &str, prefix: &str, name: &str) -> Result<BTreeMap<String, Vec<u8>>> {
    let key = format!("{prefix}/backups/{name}/{name}.tar.gz");
    let content = object(machine, bucket, &key)?.with_context(|| format!("no object {key} in the bucket"))?;
    unpack(machine, name, &content)
}

fn unpack(machine: &Machine, name: &str, archive: &[u8]) -> Result<BTreeMap<String, Vec<u8>>> {
    let folder = machine.folder(&format!("downloads/{name}-{}", velero_testkit::harness::unique_name("archive")))?;
    let file = folder.join("archive.tar.gz");
    fs::write(&file, archive)?;
    let status = Command::new("tar").args(["--touch", "-xzf"]).arg(&file).arg("-C").arg(&folder).status()?;
    ensure!(status.success(), "tar cannot read the archive of {name}");
    fs::remove_file(&file)?;
    let mut files = BTreeMap::new();
    collect(&folder, &folder, &mut files)?;
    fs::remove_dir_all(&folder)?;
    Ok(files)
}

fn collect(root: &PathBuf, folder: &PathBuf, files: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else {
            files.insert(path.strip_prefix(root)?.display().to_string(), fs::read(&path)?);
        }
    }
    Ok(())
}
