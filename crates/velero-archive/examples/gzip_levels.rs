//! Measures writing and reading a tarball of Kubernetes-like JSON at each gzip level.
//!
//! `cargo run --release -p velero-archive --example gzip_levels`

use std::time::Instant;
use velero_archive::{ArchiveReader, ArchiveWriter, Error};

const ITEMS: usize = 31_000;

fn item(index: usize) -> String {
    let uid = (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let environment: Vec<_> = (0..24)
        .map(|number| {
            let value = uid.rotate_left(number);
            format!(r#"{{"name":"SETTING_{number}","value":"{value:x}"}}"#)
        })
        .collect();
    format!(
        concat!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"annotations":{{"checksum/config":"{uid:016x}"}},"#,
            r#""labels":{{"app":"web","pod-template-hash":"{hash:x}"}},"managedFields":[{{"apiVersion":"v1","#,
            r#""fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:labels":{{".":{{}},"f:app":{{}}}}}},"#,
            r#""f:spec":{{"f:containers":{{"k:{{\"name\":\"web\"}}":{{".":{{}},"f:image":{{}},"f:name":{{}}}}}}}}}},"#,
            r#""manager":"kube-controller-manager","operation":"Update","time":"2026-01-01T00:00:00Z"}}],"#,
            r#""name":"web-{index}","namespace":"ns-{namespace}","resourceVersion":"{index}","uid":"{uid:032x}"}},"#,
            r#""spec":{{"containers":[{{"env":[{environment}],"image":"registry.example/web:{index}","#,
            r#""name":"web","resources":{{"limits":{{"cpu":"1","memory":"1Gi"}}}}}}],"nodeName":"node-{namespace}"}},"#,
            r#""status":{{"phase":"Running","podIP":"10.0.{namespace}.{low}"}}}}"#,
        ),
        uid = uid,
        hash = uid >> 40,
        index = index,
        namespace = index % 250,
        low = index % 254,
        environment = environment.join(","),
    )
}

fn main() -> Result<(), Error> {
    let items: Vec<_> =
        (0..ITEMS).map(|index| (format!("resources/pods/namespaces/ns/{index}.json"), item(index))).collect();
    let raw: usize = items.iter().map(|(_, body)| body.len()).sum();
    let megabytes = raw as f64 / 1e6;
    println!("{ITEMS} items, {megabytes:.1} MB of JSON");
    for level in [1, 2, 3, 4, 5, 6] {
        let start = Instant::now();
        let mut writer = ArchiveWriter::with_level(Vec::new(), 0, level)?;
        for (path, body) in &items {
            writer.append(path, body.as_bytes())?;
        }
        let bytes = writer.finish()?;
        let wrote = start.elapsed().as_secs_f64();
        let start = Instant::now();
        ArchiveReader::new(bytes.as_slice()).for_each::<Error, _>(|_| Ok(()))?;
        let read = start.elapsed().as_secs_f64();
        println!(
            "level {level}: {:6.2} MB, write {:4.0} MB/s, read {:4.0} MB/s",
            bytes.len() as f64 / 1e6,
            megabytes / wrote,
            megabytes / read
        );
    }
    Ok(())
}
