//! Flags that contradict each other, or themselves.

use anyhow::{Result, bail, ensure};
use velero_controllers::server::Settings;
use velero_store::{PROVIDERS, is_built_in};

use super::{CLAIM, Installation, locations, network, quantity, web_page};
use crate::arguments::{FlagValue, InstallArguments, StorageArguments};

/// How many servers have a use.
const MOST_REPLICAS: u32 = 3;

/// Refuses flags that cannot become an installation.
pub(crate) fn check(arguments: &InstallArguments) -> Result<()> {
    if arguments.run.crds_only {
        return Ok(());
    }
    check_page(arguments)?;
    check_location(arguments)?;
    check_snapshot_location(&arguments.storage)?;
    check_secret(&arguments.storage)?;
    check_node_agent(arguments)?;
    check_replicas(arguments.pod.replicas)?;
    check_durations(arguments)?;
    check_amounts(arguments)
}

/// Refuses what the server would refuse, in the words of this command where it has other flags.
fn check_page(arguments: &InstallArguments) -> Result<()> {
    let (server, page) = (&arguments.server, &arguments.server.page);
    let trusts = page.web_trusted_user_header.is_some() || page.web_trusted_groups_header.is_some();
    ensure!(
        !trusts || !page.web_tls_secret.is_empty(),
        "--web-trusted-user-header needs --web-tls-secret: a proxy is believed only over TLS and with a certificate of its own"
    );
    ensure!(server.web || page.web_tls_secret.is_empty(), "--web-tls-secret needs --web: there is no page without it");
    let settings = Settings {
        web_address: if server.web { format!(":{}", network::WEB_PORT) } else { String::new() },
        web: web_page::settings(page),
        ..server.flags.settings.clone()
    };
    Ok(settings.validate()?)
}

fn check_location(arguments: &InstallArguments) -> Result<()> {
    let storage = &arguments.storage;
    let StorageArguments { provider, bucket, .. } = storage;
    ensure!(
        !bucket.starts_with('-'),
        "--bucket {bucket:?}: the name of a bucket cannot begin with a dash; was a variable left empty?"
    );
    if storage.no_default_backup_location {
        let given = [
            ("bucket", !bucket.is_empty()),
            ("prefix", !storage.prefix.is_empty()),
            ("backup-location-config", !storage.backup_location_config.is_empty()),
        ];
        if let Some((flag, _)) = given.iter().find(|(_, given)| *given) {
            bail!("cannot use both --{flag} and --no-default-backup-location at the same time");
        }
    } else if locations::is_on_claim(storage) {
        let (path, is_on_volume) = locations::directory(storage);
        let folder = locations::CLAIM_FOLDER;
        ensure!(is_on_volume, "--backup-location-config path={path} must lie in {folder}, where the volume is mounted");
        quantity::check("backup-volume-size", &storage.backup_volume_size)?;
    } else {
        ensure!(!provider.is_empty(), "--provider is required with --bucket {bucket:?}");
        ensure!(!bucket.is_empty(), "--bucket is required with --provider {provider:?}");
        check_bucket(provider, bucket)?;
    }
    ensure!(
        provider.is_empty() || is_built_in(provider) || locations::has_plugins(arguments),
        "--provider {provider:?} is not built in ({}); name the image of its plugin with --plugins",
        PROVIDERS.join(", ")
    );
    Ok(())
}

/// Refuses what no bucket of the provider can be called.
fn check_bucket(provider: &str, bucket: &str) -> Result<()> {
    let (longest, further) = match provider.strip_prefix("velero.io/").unwrap_or(provider) {
        // Old buckets have longer names with more letters than new ones may have.
        "aws" => (255, "._-"),
        "gcp" => (222, "._-"),
        "azure" => (63, "-$"),
        _ => return Ok(()),
    };
    let is_edge = |character: Option<char>| character.is_some_and(|character| character.is_ascii_alphanumeric());
    let fits = (3..=longest).contains(&bucket.len())
        && bucket.chars().all(|character| character.is_ascii_alphanumeric() || further.contains(character))
        && (is_edge(bucket.chars().next()) || bucket.starts_with('$'))
        && is_edge(bucket.chars().next_back());
    ensure!(
        fits,
        "--bucket {bucket:?} is not the name of a bucket of {provider}: it has 3 to {longest} letters, digits and any of \
         {further:?}, letters or digits at both ends; a folder in it goes into --prefix"
    );
    Ok(())
}

fn check_snapshot_location(storage: &StorageArguments) -> Result<()> {
    let has_config = !storage.snapshot_location_config.is_empty();
    if storage.use_volume_snapshots.0 == Some(false) {
        ensure!(!has_config, "--snapshot-location-config must be empty when --use-volume-snapshots=false");
        let unused = storage.no_default_backup_location && !storage.provider.is_empty();
        ensure!(
            !unused,
            "--provider must be empty when using --no-default-backup-location and --use-volume-snapshots=false"
        );
    }
    ensure!(!has_config || !storage.provider.is_empty(), "--snapshot-location-config needs --provider");
    Ok(())
}

fn check_secret(storage: &StorageArguments) -> Result<()> {
    match (&storage.secret_file, storage.no_secret) {
        (Some(_), true) => bail!("cannot use both --secret-file and --no-secret"),
        (None, false) if !storage.provider.is_empty() && !locations::is_on_claim(storage) => {
            bail!("one of --secret-file or --no-secret is required with --provider {:?}", storage.provider)
        }
        _ => Ok(()),
    }
}

fn check_node_agent(arguments: &InstallArguments) -> Result<()> {
    let agents = &arguments.node_agent;
    ensure!(
        agents.use_node_agent || !arguments.server.flags.settings.default_volumes_to_fs_backup,
        "--use-node-agent is required when using --default-volumes-to-fs-backup"
    );
    ensure!(
        !agents.use_node_agent_windows || arguments.run.dry_run,
        "--use-node-agent-windows is not supported: there is no image for Windows; leave it out, or see what it would be \
         with --dry-run"
    );
    Ok(())
}

fn check_replicas(replicas: u32) -> Result<()> {
    match replicas {
        0 => bail!(
            "--replicas 0: nobody would back up or restore anything; install 1, and switch a server off for a while by \
             kubectl scale"
        ),
        1..=MOST_REPLICAS => Ok(()),
        _ => bail!(
            "--replicas {replicas}: one server works and the others wait for its end, so 2 are enough and {MOST_REPLICAS} \
             outlive two nodes at once; use at most {MOST_REPLICAS}"
        ),
    }
}

/// Refuses what only the things tell that are there already.
pub(crate) fn check_existing(installation: &Installation<'_>) -> Result<()> {
    let replicas = installation.arguments.pod.replicas;
    ensure!(
        replicas <= 1 || !locations::uses_claim(installation),
        "--replicas {replicas}: backups go to PersistentVolumeClaim {CLAIM}, which the pods of one node alone can use; name a \
         bucket with --provider and --bucket, or use --replicas 1"
    );
    Ok(())
}

fn check_durations(arguments: &InstallArguments) -> Result<()> {
    for flag in &arguments.server.flags.given {
        if let FlagValue::Duration(duration) = flag.value {
            ensure!(!duration.is_negative(), "--{} {duration} must be non-negative", flag.install_name());
        }
    }
    Ok(())
}

fn check_amounts(arguments: &InstallArguments) -> Result<()> {
    let (pod, agents) = (&arguments.pod, &arguments.node_agent);
    let amounts = [
        ("velero-pod-cpu-request", &pod.velero_pod_cpu_request),
        ("velero-pod-mem-request", &pod.velero_pod_mem_request),
        ("velero-pod-cpu-limit", &pod.velero_pod_cpu_limit),
        ("velero-pod-mem-limit", &pod.velero_pod_mem_limit),
        ("node-agent-pod-cpu-request", &agents.node_agent_pod_cpu_request),
        ("node-agent-pod-mem-request", &agents.node_agent_pod_mem_request),
        ("node-agent-pod-cpu-limit", &agents.node_agent_pod_cpu_limit),
        ("node-agent-pod-mem-limit", &agents.node_agent_pod_mem_limit),
    ];
    amounts.iter().try_for_each(|(flag, text)| quantity::check(flag, text))
}
