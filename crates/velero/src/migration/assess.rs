//! Object by object: what becomes of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use velero_api::labels::POD_VOLUME_RESTORE;
use velero_api::v1::{Backup, BackupPhase, Restore, RestorePhase, Schedule};
use velero_rules::node_agent_config::NodeAgentConfig;
use velero_rules::resource_modifiers::ResourceModifiers;
use velero_rules::resource_policies::ResourcePolicies;

use super::exchange::{is_ours, is_replaced};
use super::keeper::{keepers, owner};
use super::plugins::Needed;
use super::{
    Installed, Line, Located, RESTIC_AGENTS, Unread, Verdict, WINDOWS_AGENTS, account, agent_container, arguments,
    containers, flag_values, flags, foreign_program, helm, name, plugins, server_container, text, version,
};

/// The features that have an effect.
const FEATURES: [&str; 2] = ["EnableCSI", "EnableAPIGroupVersions"];
/// The flag that names the settings of node agents.
const AGENT_CONFIG_FLAG: &str = "node-agent-configmap";
/// The ConfigMap with the settings of node agents before 1.15, which read it by this name.
const OLD_AGENT_CONFIG: &str = "node-agent-config";
/// From which version on a flag names it.
const AGENT_CONFIG_BY_FLAG: (u32, u32) = (1, 15);
/// A label of plugin settings, as it was called before 1.10.
const OLD_RESTORE_LABEL: &str = "velero.io/restic";

/// What becomes of an installed Velero.
pub(crate) fn assess(installed: &Installed) -> Vec<Line> {
    let mut lines: Vec<Line> = installed.unread.iter().map(unread).collect();
    if installed.servers.is_empty() && installed.knows("Deployment") {
        lines.push(Line::new(
            "Deployment/velero",
            Verdict::Refused,
            "no Velero is installed in this namespace; choose its namespace with --namespace, or use velero install",
        ));
    }
    for server in &installed.servers {
        lines.extend(server_lines(server, installed));
    }
    lines.extend(installed.agents.iter().flat_map(agent_lines));
    lines.extend(keepers(installed));
    lines.extend(account::judge(installed));
    lines.extend(config_map_lines(installed));
    lines.extend(locations(installed));
    lines.extend(snapshot_locations(installed));
    lines.extend(installed.schedules.iter().map(schedule));
    lines.extend(phases::<Backup>("Backup", &installed.backups, |backup| {
        let phase = backup.status.phase.unwrap_or(BackupPhase::New);
        (phase.to_string(), phase.ending().is_some())
    }));
    lines.extend(phases::<Restore>("Restore", &installed.restores, |restore| {
        let phase = restore.status.phase.unwrap_or(RestorePhase::New);
        (phase.to_string(), phase.ending().is_some())
    }));
    lines.extend(repositories(installed));
    lines.extend(volume_data(installed));
    lines.extend(installed.releases.iter().flat_map(helm::judge));
    lines
}

/// What may not be read may stand in the way.
fn unread(unread: &Unread) -> Line {
    let Unread { object, reason } = unread;
    Line::new(object, Verdict::Refused, format!("not all can be read, so what becomes of it is not known: {reason}"))
}

fn server_lines(server: &Value, installed: &Installed) -> Vec<Line> {
    let object = format!("Deployment/{}", name(server));
    if is_ours(server) {
        return vec![Line::new(object, Verdict::Works, "it is ours already")];
    }
    let Some(container) = server_container(server) else { return Vec::new() };
    let mut lines = vec![version::judge(&object, text(container, "/image"))];
    lines.extend(owner(&object, server));
    if let Some(line) = wrapped(&object, container) {
        lines.push(line);
        return lines;
    }
    let given = arguments(container);
    lines.extend(flags::judge(&object, &given));
    let features = flag_values(&given, "features").into_iter().flat_map(|list| list.split(','));
    for feature in features.filter(|feature| !feature.is_empty() && !FEATURES.contains(feature)) {
        let detail = format!("feature {feature} is not known, here as there, and has no effect");
        lines.push(Line::new(format!("{object} --features"), Verdict::Differs, detail));
    }
    let replicas = server["spec"]["replicas"].as_i64().unwrap_or(1);
    if replicas > 1 {
        let detail = format!("{replicas} servers: one works at a time, the others wait until it is gone");
        lines.push(Line::new(&object, Verdict::Differs, detail));
    }
    if ["BackupStorageLocation", "VolumeSnapshotLocation"].iter().all(|kind| installed.knows(kind)) {
        let needed = Needed::of(installed);
        lines.extend(containers(server, "initContainers").map(|container| plugins::judge(container, &needed)));
    }
    lines
}

/// A container that does not run Velero's program itself: what its own would do is not known.
fn wrapped(object: &str, container: &Value) -> Option<Line> {
    let program = foreign_program(container)?;
    let detail = format!(
        "container {:?} runs {program}, which our image does not have: give it the command /velero, with flags as its arguments",
        text(container, "/name")
    );
    Some(Line::new(object, Verdict::Refused, detail))
}

/// The images of the plugins of all servers.
fn plugin_images(installed: &Installed) -> Vec<&str> {
    let containers = installed.servers.iter().flat_map(|server| containers(server, "initContainers"));
    containers.map(|container| text(container, "/image")).collect()
}

fn agent_lines(agents: &Value) -> Vec<Line> {
    let object = format!("DaemonSet/{}", name(agents));
    match name(agents) {
        WINDOWS_AGENTS => {
            return vec![Line::new(
                object,
                Verdict::Missing,
                "there are no node agents for Windows; it stays as it is",
            )];
        }
        RESTIC_AGENTS => {
            let detail = "restic is not known here, and it would take the work of node agents from them: delete it, then install \
                          node agents with velero install --use-node-agent";
            return vec![Line::new(object, Verdict::Missing, detail)];
        }
        _ if is_ours(agents) => return vec![Line::new(object, Verdict::Works, "they are ours already")],
        _ if !is_replaced(agents) => {
            let detail = "no container of it has the command velero node-agent, for Linux: it stays as it is";
            return vec![Line::new(object, Verdict::Missing, detail)];
        }
        _ => {}
    }
    let Some(container) = agent_container(agents) else { return Vec::new() };
    let mut lines = vec![version::judge(&object, text(container, "/image"))];
    lines.extend(owner(&object, agents));
    lines.extend(flags::judge(&object, &arguments(container)));
    lines
}

/// The ConfigMaps that flags, backups and restores name: can they be read?
fn config_map_lines(installed: &Installed) -> Vec<Line> {
    if !installed.knows("ConfigMap") {
        return Vec::new();
    }
    let found: BTreeMap<&str, &Value> = installed.config_maps.iter().map(|map| (name(map), map)).collect();
    let mut lines = Vec::new();
    for (wanted, what, read) in wanted_config_maps(installed) {
        let object = format!("ConfigMap/{wanted}");
        let Some(map) = found.get(wanted.as_str()) else {
            lines.push(Line::new(object, Verdict::Missing, format!("{what} names it, and it does not exist")));
            continue;
        };
        let data: BTreeMap<String, String> = serde_json::from_value(map["data"].clone()).unwrap_or_default();
        lines.push(match read(&data) {
            Ok(()) => Line::new(object, Verdict::Works, what),
            Err(problem) => Line::new(object, Verdict::Missing, format!("{what}: {problem}")),
        });
    }
    let of_plugins = installed.config_maps.iter().filter(|map| {
        map["metadata"]["labels"].as_object().is_some_and(|labels| labels.contains_key("velero.io/plugin-config"))
    });
    lines.extend(of_plugins.map(plugin_settings));
    lines.extend(old_agent_config(installed, &found));
    lines
}

fn plugin_settings(map: &Value) -> Line {
    let object = format!("ConfigMap/{}", name(map));
    if map["metadata"]["labels"][OLD_RESTORE_LABEL].is_null() {
        return Line::new(object, Verdict::Works, "settings of a plugin");
    }
    let detail = format!("its label {OLD_RESTORE_LABEL} is called {POD_VOLUME_RESTORE} since Velero 1.10: rename it");
    Line::new(object, Verdict::Missing, detail)
}

/// Settings of node agents that no flag names, and that were read all the same.
fn old_agent_config(installed: &Installed, found: &BTreeMap<&str, &Value>) -> Option<Line> {
    found.get(OLD_AGENT_CONFIG)?;
    let mut agents = installed.agents.iter().filter(|agents| !is_ours(agents)).filter_map(agent_container);
    let reads_it = |container: &Value| {
        version::of_image(text(container, "/image")).is_some_and(|version| version < AGENT_CONFIG_BY_FLAG)
            && flag_values(&arguments(container), AGENT_CONFIG_FLAG).is_empty()
    };
    agents.any(reads_it).then(|| {
        Line::new(
            format!("ConfigMap/{OLD_AGENT_CONFIG}"),
            Verdict::Missing,
            format!(
                "settings of node agents, read by its name until Velero 1.14: here a flag names it, so add \
                 --{AGENT_CONFIG_FLAG}={OLD_AGENT_CONFIG} to the arguments of the node agents"
            ),
        )
    })
}

type Reader = fn(&BTreeMap<String, String>) -> Result<(), String>;

fn wanted_config_maps(installed: &Installed) -> BTreeSet<(String, &'static str, Reader)> {
    let mut wanted: BTreeSet<(String, &'static str, Reader)> = BTreeSet::new();
    let workloads = installed.servers.iter().chain(&installed.agents);
    let given: Vec<String> = workloads
        .flat_map(|workload| containers(workload, "containers").flat_map(arguments).collect::<Vec<_>>())
        .collect();
    for (flag, what, read) in [
        (AGENT_CONFIG_FLAG, "settings of node agents", read_agent_config as Reader),
        ("backup-repository-configmap", "settings of repositories", read_json),
        ("repo-maintenance-job-configmap", "settings of maintenance", read_json),
        ("global-backup-volume-policies-configmap", "volume policies for all backups", read_policies),
    ] {
        let names = flag_values(&given, flag).into_iter().filter(|name| !name.is_empty());
        wanted.extend(names.map(|name| (name.to_owned(), what, read)));
    }
    let policies = installed.schedules.iter().map(|schedule| text(schedule, "/spec/template/resourcePolicy/name"));
    let policies = policies.filter(|name| !name.is_empty());
    wanted.extend(policies.map(|name| (name.to_owned(), "resource policies of a schedule", read_policies as Reader)));
    let modifiers = installed.restores.iter().map(|restore| text(restore, "/spec/resourceModifier/name"));
    let modifiers = modifiers.filter(|name| !name.is_empty());
    // Those of restores that have ended need not be there any more.
    let kept = |name: &&str| installed.config_maps.iter().any(|map| super::name(map) == *name);
    wanted.extend(
        modifiers
            .filter(kept)
            .map(|name| (name.to_owned(), "resource modifiers of a restore", read_modifiers as Reader)),
    );
    wanted
}

fn read_agent_config(data: &BTreeMap<String, String>) -> Result<(), String> {
    let config = NodeAgentConfig::parse(data).map_err(|error| error.to_string())?;
    match config.unknown.as_slice() {
        [] => Ok(()),
        unknown => Err(format!("keys {unknown:?} are not known and have no effect")),
    }
}

fn read_json(data: &BTreeMap<String, String>) -> Result<(), String> {
    data.iter().try_for_each(|(key, text)| {
        let parsed = serde_json::from_str::<serde_json::Map<String, Value>>(text);
        parsed.map(drop).map_err(|error| format!("key {key} is not a JSON object: {error}"))
    })
}

fn read_policies(data: &BTreeMap<String, String>) -> Result<(), String> {
    ResourcePolicies::from_config_map(data).map(drop).map_err(|error| error.to_string())
}

fn read_modifiers(data: &BTreeMap<String, String>) -> Result<(), String> {
    ResourceModifiers::from_config_map(data).map(drop).map_err(|error| error.to_string())
}

/// Plugins are found in Deployments: without those only what is built in can be judged.
fn locations(installed: &Installed) -> Vec<Line> {
    let images = plugin_images(installed);
    let is_judged = |located: &&Located| {
        installed.knows("Deployment") || velero_store::is_built_in(text(&located.object, "/spec/provider"))
    };
    installed.locations.iter().filter(is_judged).map(|located| location(located, &images)).collect()
}

fn location(location: &Located, images: &[&str]) -> Line {
    let Located { object, refusal } = location;
    let title = format!("BackupStorageLocation/{}", name(object));
    let (provider, bucket) = (text(object, "/spec/provider"), text(object, "/spec/objectStorage/bucket"));
    match refusal {
        Some(problem) if plugins::serves_store(provider, images) => {
            let stays = "its plugin stays and serves it as before, but for the data of volumes in repositories";
            Line::new(title, Verdict::Missing, format!("{problem}; {stays}"))
        }
        Some(problem) => Line::new(title, Verdict::Missing, problem),
        None if velero_store::is_built_in(provider) => {
            match velero_store::check::refused_prefix(text(object, "/spec/objectStorage/prefix")) {
                Some(finding) => Line::new(title, Verdict::Missing, finding.to_string()),
                None => {
                    let check =
                        format!("{provider} {bucket}; try it out: velero backup-location check {}", name(object));
                    Line::new(title, Verdict::Works, check)
                }
            }
        }
        None if plugins::may_bring_stores(images) => {
            Line::new(title, Verdict::Works, format!("{provider} {bucket}: its plugin runs as it is"))
        }
        None => Line::new(title, Verdict::Missing, format!("nothing serves provider {provider}: add its plugin")),
    }
}

fn snapshot_locations(installed: &Installed) -> Vec<Line> {
    if !installed.knows("Deployment") {
        return Vec::new();
    }
    let images = plugin_images(installed);
    let judge = |location: &Value| {
        let title = format!("VolumeSnapshotLocation/{}", name(location));
        let provider = text(location, "/spec/provider");
        match plugins::takes_snapshots(provider, &images) {
            true => Line::new(title, Verdict::Works, provider),
            false => Line::new(
                title,
                Verdict::Missing,
                format!("nothing takes snapshots of provider {provider}: add its plugin"),
            ),
        }
    };
    installed.snapshot_locations.iter().map(judge).collect()
}

fn schedule(object: &Value) -> Line {
    let title = format!("Schedule/{}", name(object));
    let parsed: Schedule = match serde_json::from_value(object.clone()) {
        Ok(parsed) => parsed,
        Err(error) => return Line::new(title, Verdict::Missing, format!("it cannot be understood: {error}")),
    };
    let expression = &parsed.spec.schedule;
    match velero_rules::schedule::validate(expression) {
        Err(error) => Line::new(title, Verdict::Missing, format!("spec.schedule {expression:?}: {error}")),
        Ok(_) if parsed.spec.paused => Line::new(title, Verdict::Works, format!("{expression}, paused: it stays so")),
        Ok(_) => Line::new(title, Verdict::Works, format!("{expression}: it goes on from its last backup")),
    }
}

/// A line for each phase; work that goes on is in the way.
fn phases<K: serde::de::DeserializeOwned>(
    kind: &str,
    objects: &[Value],
    phase: impl Fn(K) -> (String, bool),
) -> Vec<Line> {
    let mut counts: BTreeMap<(String, bool), Vec<&str>> = BTreeMap::new();
    let mut lines = Vec::new();
    for object in objects {
        match serde_json::from_value::<K>(object.clone()) {
            Ok(parsed) => counts.entry(phase(parsed)).or_default().push(name(object)),
            Err(error) => {
                let title = format!("{kind}/{}", name(object));
                lines.push(Line::new(title, Verdict::Missing, format!("it cannot be understood: {error}")));
            }
        }
    }
    lines.extend(counts.into_iter().map(|((phase, ended), names)| {
        let title = format!("{kind} {phase}");
        let count = names.len();
        match ended {
            true => Line::new(title, Verdict::Works, format!("{count} stay as they are")),
            false => {
                let shown = names.iter().take(3).copied().collect::<Vec<_>>().join(", ");
                let detail =
                    format!("{count} not ended yet ({shown}): let them end first, the exchange would interrupt them");
                Line::new(title, Verdict::Refused, detail)
            }
        }
    }));
    lines
}

fn repositories(installed: &Installed) -> Vec<Line> {
    let judge = |repository: &Value| {
        let title = format!("BackupRepository/{}", name(repository));
        match text(repository, "/spec/repositoryType") {
            "restic" | "" => Line::new(
                title,
                Verdict::Missing,
                "it is restic's, which is not read here: restore what is needed with Velero, then back up anew",
            ),
            kind => Line::new(title, Verdict::Works, format!("{kind}, with the password that it has")),
        }
    };
    installed.repositories.iter().map(judge).collect()
}

/// The data of volumes that cannot be read here.
fn volume_data(installed: &Installed) -> Vec<Line> {
    let restic =
        installed.pod_volume_backups.iter().filter(|copy| ["restic", ""].contains(&text(copy, "/spec/uploaderType")));
    let restic = restic.count();
    let foreign =
        installed.data_uploads.iter().filter(|upload| !["", "velero"].contains(&text(upload, "/spec/datamover")));
    let foreign = foreign.count();
    let mut lines = Vec::new();
    if restic > 0 {
        let detail = format!("{restic} made by restic: their data is not restored here, restore it with Velero");
        lines.push(Line::new("PodVolumeBackup", Verdict::Missing, detail));
    }
    if foreign > 0 {
        let detail =
            format!("{foreign} of other data movers: they stay with their movers, which go on beside the server");
        lines.push(Line::new("DataUpload", Verdict::Differs, detail));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn installed() -> Installed {
        let workload = |container: Value, plugins: Value| json!({"metadata": {"name": "velero"}, "spec": {"template": {"spec": {"containers": [container], "initContainers": plugins}}}});
        let args = json!(["server", "--features=EnableCSI,Odd", "--repo-maintenance-job-configmap=maintain"]);
        let server = workload(
            json!({"name": "velero", "image": "velero/velero:v1.18.3", "args": args}),
            json!([{"name": "aws", "image": "velero/velero-plugin-for-aws:v1.14.3"}]),
        );
        Installed { servers: vec![server], ..Installed::default() }
    }

    fn verdict_of(lines: &[Line], object: &str) -> Verdict {
        let found = lines.iter().find(|line| line.object.starts_with(object));
        found.unwrap_or_else(|| panic!("{object} is not in {lines:#?}")).verdict
    }

    #[test]
    fn nothing_installed_and_work_that_goes_on_are_refused() {
        assert_eq!(verdict_of(&assess(&Installed::default()), "Deployment/velero"), Verdict::Refused);
        let running = |phase: &str| json!({"metadata": {"name": "b"}, "spec": {}, "status": {"phase": phase}});
        for (phase, verdict) in [
            ("InProgress", Verdict::Refused),
            ("Queued", Verdict::Refused),
            ("Completed", Verdict::Works),
            ("PartiallyFailed", Verdict::Works),
            ("Failed", Verdict::Works),
        ] {
            let lines = assess(&Installed { backups: vec![running(phase)], ..installed() });
            assert_eq!(verdict_of(&lines, &format!("Backup {phase}")), verdict);
        }
    }

    #[test]
    fn what_an_operator_keeps_as_it_is_is_refused_and_a_store_without_a_plugin_is_missed() {
        let mut owned = installed();
        let owners = json!([{"kind": "DataProtectionApplication", "name": "dpa", "controller": true}]);
        owned.servers[0]["metadata"]["ownerReferences"] = owners;
        let lines = assess(&owned);
        let line = lines.iter().find(|line| line.verdict == Verdict::Refused).unwrap();
        assert_eq!(line.object, "Deployment/velero");
        assert!(line.detail.contains("DataProtectionApplication/dpa"), "{line:?}");

        let object = json!({"metadata": {"name": "far"}, "spec": {"provider": "example.io/own"}});
        let located = Located { object, refusal: None };
        let lines = assess(&Installed { locations: vec![located], ..installed() });
        assert_eq!(verdict_of(&lines, "BackupStorageLocation/far"), Verdict::Missing);
    }

    #[test]
    fn a_program_around_velero_is_refused_before_anything_is_changed() {
        let mut wrapping = installed();
        let container = &mut wrapping.servers[0]["spec"]["template"]["spec"]["containers"][0];
        container["command"] = json!(["/bin/sh", "-c"]);
        container["args"] = json!(["exec /velero server --log-level=debug"]);
        let lines = assess(&wrapping);
        let line = lines.iter().find(|line| line.verdict == Verdict::Refused).unwrap();
        assert!(line.object == "Deployment/velero" && line.detail.contains("/bin/sh"), "{line:?}");
    }

    #[test]
    fn a_container_beside_node_agents_is_not_taken_for_them() {
        let agents = json!({"metadata": {"name": "node-agent"}, "spec": {"template": {"spec": {"containers": [
            {"name": "proxy", "image": "example.com/proxy:2.1.0"},
            {"name": "node-agent", "image": "velero/velero:v1.18.3", "args": ["node-agent", "server"]},
        ]}}}});
        let mut other = agents.clone();
        other["metadata"]["name"] = json!("other");
        other["spec"]["template"]["spec"]["containers"][1]["command"] = json!(["/bin/sh"]);
        let lines = assess(&Installed { agents: vec![agents, other], ..installed() });
        assert_eq!(verdict_of(&lines, "DaemonSet/node-agent"), Verdict::Works);
        assert_eq!(verdict_of(&lines, "DaemonSet/other"), Verdict::Missing);
    }

    #[test]
    fn settings_that_were_read_by_another_name_are_told() {
        let agents = |version: &str, flag: &str| {
            let image = format!("velero/velero:{version}");
            json!({"metadata": {"name": "node-agent"}, "spec": {"template": {"spec": {"containers": [
                {"name": "node-agent", "image": image, "args": ["node-agent", "server", flag]},
            ]}}}})
        };
        let config = json!({"metadata": {"name": "node-agent-config"}, "data": {"c": "{}"}});
        for (version, flag, verdict) in [
            ("v1.14.1", "--log-level=info", Some(Verdict::Missing)),
            ("v1.14.1", "--node-agent-configmap=node-agent-config", Some(Verdict::Works)),
            ("v1.15.0", "--log-level=info", None),
        ] {
            let (agents, config_maps) = (vec![agents(version, flag)], vec![config.clone()]);
            let lines = assess(&Installed { agents, config_maps, ..installed() });
            let found: Vec<Verdict> = lines
                .iter()
                .filter(|line| line.object == "ConfigMap/node-agent-config")
                .map(|line| line.verdict)
                .collect();
            assert_eq!(found, verdict.into_iter().collect::<Vec<_>>(), "{version} {flag}");
        }
        let labelled =
            |label: &str| json!({"metadata": {"name": "helper", "labels": {"velero.io/plugin-config": "", label: ""}}});
        for (label, verdict) in
            [("velero.io/restic", Verdict::Missing), ("velero.io/pod-volume-restore", Verdict::Works)]
        {
            let lines = assess(&Installed { config_maps: vec![labelled(label)], ..installed() });
            assert_eq!(verdict_of(&lines, "ConfigMap/helper"), verdict, "{label}");
        }
    }

    #[test]
    fn volume_policies_for_all_backups_are_read() {
        let mut installed = installed();
        let args = json!(["server", "--global-backup-volume-policies-configmap=everywhere"]);
        installed.servers[0]["spec"]["template"]["spec"]["containers"][0]["args"] = args;
        assert_eq!(verdict_of(&assess(&installed), "ConfigMap/everywhere"), Verdict::Missing);
        for (version, verdict) in [("v1", Verdict::Works), ("v2", Verdict::Missing)] {
            let data = json!({"policies.yaml": format!("version: {version}\n")});
            installed.config_maps = vec![json!({"metadata": {"name": "everywhere"}, "data": data})];
            assert_eq!(verdict_of(&assess(&installed), "ConfigMap/everywhere"), verdict, "{version}");
        }
    }

    #[test]
    fn a_location_with_a_prefix_that_no_key_can_have_does_not_work() {
        for (prefix, verdict) in
            [("/team//a/", Verdict::Works), ("team/../a", Verdict::Missing), ("team\n", Verdict::Missing)]
        {
            let spec = json!({"provider": "aws", "objectStorage": {"bucket": "b", "prefix": prefix}});
            let located = Located { object: json!({"metadata": {"name": "default"}, "spec": spec}), refusal: None };
            let lines = assess(&Installed { locations: vec![located], ..installed() });
            let line = lines.iter().find(|line| line.object == "BackupStorageLocation/default").unwrap();
            assert_eq!(line.verdict, verdict, "{prefix:?}");
            assert_eq!(line.detail.contains("spec.objectStorage.prefix"), verdict == Verdict::Missing, "{line:?}");
        }
    }

    #[test]
    fn what_may_not_be_read_is_in_the_way_and_nothing_is_said_that_counts_on_it() {
        let servers = installed().servers;
        let object = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
        let located = |name: &str, provider: &str| {
            let spec = json!({"provider": provider, "objectStorage": {"bucket": "b"}});
            Located { object: object(name, spec), refusal: None }
        };
        let installed = |unread: &[&str]| {
            let policy = json!({"resourcePolicy": {"kind": "configmap", "name": "policies"}});
            Installed {
                schedules: vec![object("daily", json!({"schedule": "0 3 * * *", "template": policy}))],
                locations: vec![located("default", "aws"), located("own", "example.io/own")],
                snapshot_locations: vec![object("disks", json!({"provider": "gcp"}))],
                unread: unread
                    .iter()
                    .map(|object| Unread { object: (*object).to_owned(), reason: "it is forbidden".to_owned() })
                    .collect(),
                ..Installed::default()
            }
        };
        let said = |unread: &[&str]| {
            let lines = assess(&installed(unread));
            let bad = lines.into_iter().filter(|line| line.verdict != Verdict::Works).map(|line| line.object);
            bad.collect::<Vec<_>>()
        };
        let known =
            ["Deployment/velero", "ConfigMap/policies", "BackupStorageLocation/own", "VolumeSnapshotLocation/disks"];
        assert_eq!(said(&[]), known);
        assert_eq!(said(&["Deployment", "ConfigMap"]), ["Deployment", "ConfigMap"]);
        let line = &assess(&installed(&["Backup"]))[0];
        assert!(line.verdict == Verdict::Refused && line.detail.ends_with("it is forbidden"), "{line:?}");

        for (unread, told) in
            [("Secret", true), ("VolumeSnapshotLocation", false), ("BackupStorageLocation/default", false)]
        {
            let lines = assess(&Installed { servers: servers.clone(), ..installed(&[unread]) });
            assert_eq!(lines.iter().any(|line| line.object == "Plugin/aws"), told, "{unread}");
        }
    }

    #[test]
    fn every_object_gets_its_line() {
        let object = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
        let lines = assess(&Installed {
            agents: vec![object("node-agent-windows", json!({})), object("restic", json!({}))],
            config_maps: vec![
                json!({"metadata": {"name": "policies"}, "data": {"p": "version: v1\nvolumePolicies: []\n"}}),
            ],
            schedules: vec![
                object(
                    "daily",
                    json!({"schedule": "0 3 * * *", "template": {"resourcePolicy": {"kind": "configmap", "name": "policies"}}}),
                ),
                object(
                    "odd",
                    json!({"schedule": "every day", "template": {"resourcePolicy": {"kind": "configmap", "name": "gone"}}}),
                ),
            ],
            locations: vec![
                Located {
                    object: object("default", json!({"provider": "aws", "objectStorage": {"bucket": "b"}})),
                    refusal: None,
                },
                Located { object: object("bad", json!({"provider": "aws"})), refusal: Some("no bucket".to_owned()) },
            ],
            snapshot_locations: vec![
                object("ebs", json!({"provider": "aws"})),
                object("disks", json!({"provider": "gcp"})),
            ],
            repositories: vec![
                object("k", json!({"repositoryType": "kopia"})),
                object("r", json!({"repositoryType": "restic"})),
            ],
            pod_volume_backups: vec![object("p", json!({"uploaderType": "restic"}))],
            data_uploads: vec![object("u", json!({"datamover": "vendor"}))],
            ..installed()
        });
        for (title, verdict) in [
            ("Deployment/velero", Verdict::Works),
            ("Deployment/velero --features", Verdict::Differs),
            ("Plugin/aws", Verdict::Works),
            ("DaemonSet/node-agent-windows", Verdict::Missing),
            ("DaemonSet/restic", Verdict::Missing),
            ("ConfigMap/maintain", Verdict::Missing),
            ("ConfigMap/policies", Verdict::Works),
            ("ConfigMap/gone", Verdict::Missing),
            ("BackupStorageLocation/default", Verdict::Works),
            ("BackupStorageLocation/bad", Verdict::Missing),
            ("VolumeSnapshotLocation/ebs", Verdict::Works),
            ("VolumeSnapshotLocation/disks", Verdict::Missing),
            ("Schedule/daily", Verdict::Works),
            ("Schedule/odd", Verdict::Missing),
            ("BackupRepository/k", Verdict::Works),
            ("BackupRepository/r", Verdict::Missing),
            ("PodVolumeBackup", Verdict::Missing),
            ("DataUpload", Verdict::Differs),
        ] {
            assert_eq!(verdict_of(&lines, title), verdict, "{title}: {lines:#?}");
        }
        let of_restic = lines.iter().find(|line| line.object == "DaemonSet/restic").unwrap();
        assert!(of_restic.detail.contains("delete it, then install node agents"), "{of_restic:?}");
    }
}
