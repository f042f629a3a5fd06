//! `velero backup-location check`

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result, bail, ensure};
use kube::api::ListParams;
use serde_json::Value;
use velero_api::metadata;
use velero_api::v1::{Backup, BackupStorageLocation, BackupStorageLocationAccessMode};
use velero_store::check::{Mode, diagnose, observe, unknown_backups};
use velero_store::{StoreConfig, is_built_in};

use crate::arguments::BackupLocationCheckArguments;
use crate::commands::location_config::{Given, given_config, location_config, needs_cluster};
use crate::output::{Format, LocationCheck, ServerSays};
use crate::printer::Printer;
use crate::session::Session;
use crate::settings::Settings;

/// The provider whose directory is in the pod of the server.
pub(super) const DIRECTORY: &str = "fs";

/// Tries a location out, from here, and says what is wrong with it.
pub(crate) async fn check(
    settings: &Settings,
    printer: Printer,
    arguments: &BackupLocationCheckArguments,
) -> Result<()> {
    let format = Format::parse(Some(&arguments.output))?.unwrap_or(Format::Table);
    let given = Given {
        credentials_file: arguments.credentials_file.clone(),
        cacert: arguments.cacert.clone(),
        ..Given::default()
    };
    let report = match (&arguments.name, &arguments.file) {
        (_, Some(file)) => {
            let location = read_location(file)?;
            if needs_cluster(&location, &given) {
                let session = Session::connect(settings, printer).await?;
                let config = location_config(&session, &location, &given).await?;
                try_out(&location, &config, None, known_backups(&session).await.as_ref()).await
            } else {
                try_out(&location, &given_config(&location, &given)?, None, None).await
            }
        }
        (Some(name), None) => of_cluster(&Session::connect(settings, printer).await?, name, &given).await?,
        (None, None) => bail!("it is not said which location; give its name, or a file with --file"),
    };
    report.print(printer, format)?;
    ensure!(report.is_good(), "{}", report.verdict());
    Ok(())
}

/// Checks a location that the cluster has.
async fn of_cluster(session: &Session, name: &str, given: &Given) -> Result<LocationCheck> {
    let location: BackupStorageLocation = session.get(name).await?;
    let says = ServerSays::of(&location);
    let provider = &location.spec.provider;
    if !is_built_in(provider) || provider.ends_with(DIRECTORY) {
        return Ok(LocationCheck::by_server(&location, says));
    }
    check_certificates(&location)?;
    let config = location_config(session, &location, given).await?;
    let known = known_backups(session).await;
    Ok(try_out(&location, &config, Some(says), known.as_ref()).await)
}

/// The names of the backups of the cluster; nothing where they may not be listed.
pub(crate) async fn known_backups(session: &Session) -> Option<BTreeSet<String>> {
    match session.api::<Backup>().list_metadata(&ListParams::default()).await {
        Ok(listed) => Some(listed.items.into_iter().filter_map(|backup| backup.metadata.name).collect()),
        // Without their definition there are none.
        Err(kube::Error::Api(status)) if status.code == 404 => Some(BTreeSet::new()),
        Err(_) => None,
    }
}

/// Checks the store of a location, beside the backups that its cluster has.
async fn try_out(
    location: &BackupStorageLocation,
    config: &StoreConfig,
    says: Option<ServerSays>,
    known: Option<&BTreeSet<String>>,
) -> LocationCheck {
    let read_only = location.spec.access_mode == Some(BackupStorageLocationAccessMode::ReadOnly);
    let mode = if read_only { Mode::ReadOnly } else { Mode::ReadWrite };
    let seen = observe(config, &location.spec.object_storage.prefix, mode).await;
    let mut findings = diagnose(&seen);
    findings.extend(unknown_backups(&seen, known));
    LocationCheck::new(location, &seen, findings, says)
}

/// Reads the one location of a file.
fn read_location(file: &Path) -> Result<BackupStorageLocation> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        io::stdin().lock().read_to_string(&mut text).map(drop)
    } else {
        fs::read_to_string(file).map(|content| text = content)
    };
    read.with_context(|| format!("--file: cannot read {}", file.display()))?;
    parse_location(&text).with_context(|| format!("--file {}", file.display()))
}

fn parse_location(text: &str) -> Result<BackupStorageLocation> {
    const KIND: &str = "BackupStorageLocation";
    let document: Value = serde_saphyr::from_str(text).context("it is not one document of YAML or JSON")?;
    let kind = document["kind"].as_str().unwrap_or_default();
    ensure!(kind == KIND, "it holds an object of kind {kind:?}, and one of kind {KIND} is needed");
    let location: BackupStorageLocation =
        serde_json::from_value(document.clone()).context("it is not a BackupStorageLocation that can be understood")?;
    let unknown = unknown_fields(&document, &location);
    ensure!(
        unknown.is_empty(),
        "{} is not known in a BackupStorageLocation: correct its name or place, or take it out",
        unknown.join(", ")
    );
    ensure!(!location.spec.provider.is_empty(), "spec.provider of {:?} is empty", metadata::name(&location));
    check_certificates(&location)?;
    Ok(location)
}

/// Refuses what the server refuses before it asks the store.
fn check_certificates(location: &BackupStorageLocation) -> Result<()> {
    let storage = &location.spec.object_storage;
    ensure!(
        storage.ca_cert.is_none() || storage.ca_cert_ref.is_none(),
        "BackupStorageLocation {:?}: cannot specify both caCert and caCertRef in objectStorage, use caCertRef",
        metadata::name(location)
    );
    Ok(())
}

/// The fields that would have no effect, and that nobody would miss: what is misspelled is one of them.
fn unknown_fields(document: &Value, location: &BackupStorageLocation) -> Vec<String> {
    const OF_SECRET: [&str; 3] = ["name", "key", "optional"];
    let besides = |path: &str, known: &[&str]| -> Vec<String> {
        let fields = document.pointer(path).and_then(Value::as_object).into_iter().flatten();
        let unknown = fields.filter(|(name, _)| !known.contains(&name.as_str()));
        unknown.map(|(name, _)| format!("{path}/{name}").trim_start_matches('/').replace('/', ".")).collect()
    };
    let spec = &location.spec;
    let mut unknown = besides("", &["apiVersion", "kind", "metadata", "spec", "status"]);
    unknown.extend(spec.unknown.keys().map(|name| format!("spec.{name}")));
    unknown.extend(spec.object_storage.unknown.keys().map(|name| format!("spec.objectStorage.{name}")));
    unknown.extend(besides("/spec/credential", &OF_SECRET));
    unknown.extend(besides("/spec/objectStorage/caCertRef", &OF_SECRET));
    unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_something_else_is_refused_with_what_is_needed() {
        let good = "apiVersion: velero.io/v1\nkind: BackupStorageLocation\nmetadata: {name: a}\nspec:\n  provider: aws\n  objectStorage: {bucket: b}\n";
        assert_eq!(parse_location(good).unwrap().spec.object_storage.bucket, "b");
        for (text, part) in [
            ("kind: Backup", "of kind \"Backup\""),
            ("a: [", "one document"),
            ("", "of kind \"\""),
            (&good.replace("aws", "''"), "spec.provider"),
            (&good.replace("{bucket: b}", "[1]"), "cannot be understood"),
            (
                &good.replace("bucket: b", "bucket: b, caCert: 'YQ==', caCertRef: {name: c, key: k}"),
                "cannot specify both caCert and caCertRef",
            ),
        ] {
            let error = format!("{:#}", parse_location(text).unwrap_err());
            assert!(error.contains(part) || error.contains("can be understood"), "{text}: {error}");
        }
    }

    #[test]
    fn a_field_that_is_not_known_is_refused_by_its_name() {
        let good = "kind: BackupStorageLocation\nmetadata: {name: a, labels: {team: a}}\nspec:\n  provider: aws\n  default: true\n  config: {own: x}\n  credential: {name: c, key: k}\n  objectStorage: {bucket: b, prefix: p}\nstatus: {phase: Available}\n";
        parse_location(good).unwrap();
        for (right, wrong, field) in [
            ("prefix:", "prefx:", "spec.objectStorage.prefx"),
            ("  default:", "  prefix: p\n  default:", "spec.prefix"),
            ("key: k", "key: k, secret: s", "spec.credential.secret"),
            ("prefix: p", "caCertRef: {name: c, key: k, from: s}", "spec.objectStorage.caCertRef.from"),
            ("status:", "state:", "state"),
        ] {
            let error = parse_location(&good.replace(right, wrong)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{field} is not known")), "{wrong}: {error}");
        }
    }
}
