//! The values of the Helm chart: each works, or is refused with the reason; and table, schema, defaults and templates tell
//! of the same ones.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use velero_tests::helm::{Helm, chart};

const NAMESPACE: &str = "charted";
/// What Helm and charts around this one read; and older names of values.
const NOT_IN_DEFAULTS: [&str; 4] = ["global", "enabled", "securityContext", "nodeAgent.securityContext"];

/// A step from a value to a part of it.
#[derive(Clone)]
enum Step {
    Field(String),
    Entry(usize),
}

/// A value of the chart that is set somewhere.
struct Set {
    /// Its name, with `*` for names that users choose and `[]` for entries of lists.
    path: String,
    steps: Vec<Step>,
}

fn of_chart(file: &str) -> String {
    fs::read_to_string(chart().join(file)).unwrap()
}

fn schema() -> Value {
    serde_json::from_str(&of_chart("values.schema.json")).unwrap()
}

/// The values files that come with the chart.
fn values_files() -> Vec<(PathBuf, Value)> {
    let files = fs::read_dir(chart().join("ci")).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    assert!(files.len() >= 10, "{files:?}");
    let read = |file: PathBuf| {
        let values = serde_saphyr::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        (file, values)
    };
    files.into_iter().map(read).collect()
}

/// The schemas one step below, when what is below are values of the chart and not fields of Kubernetes.
fn below<'a>(path: &str, schema: &'a Value) -> Vec<(String, &'a Value)> {
    let is_ours = |schema: &Value| {
        let mut properties = schema["properties"].as_object().into_iter().flatten();
        properties.next().is_some_and(|(_, property)| property["description"].is_string())
    };
    if is_ours(schema) {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        let properties = schema["properties"].as_object().into_iter().flatten();
        return properties.map(|(name, property)| (format!("{prefix}{name}"), property)).collect();
    }
    let deeper = [("[]", &schema["items"]), (".*", &schema["additionalProperties"])];
    let deeper = deeper.into_iter().filter(|(_, schema)| is_ours(schema));
    deeper.flat_map(|(step, schema)| below(&format!("{path}{step}"), schema)).collect()
}

/// All values of the chart, with whether they are refused.
fn known(path: &str, schema: &Value) -> Vec<(String, bool)> {
    let below = below(path, schema);
    if below.is_empty() {
        let refused = schema["description"].as_str().is_some_and(|text| text.starts_with("Refused: "));
        return vec![(path.to_owned(), refused)];
    }
    below.iter().flat_map(|(path, schema)| known(path, schema)).collect()
}

/// The values that a document sets.
fn set(value: &Value, schema: &Value, path: &str, steps: &[Step], found: &mut Vec<Set>) {
    let says_nothing = match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(entries) => entries.is_empty(),
        _ => false,
    };
    let deeper = below(path, schema);
    let step = |step: Step| [steps, &[step]].concat();
    match value {
        _ if deeper.is_empty() && says_nothing => {}
        _ if deeper.is_empty() => found.push(Set { path: path.to_owned(), steps: steps.to_vec() }),
        Value::Array(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                set(entry, &schema["items"], &format!("{path}[]"), &step(Step::Entry(index)), found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let (path, schema) = match schema["properties"].get(name) {
                    Some(schema) if path.is_empty() => (name.clone(), schema),
                    Some(schema) => (format!("{path}.{name}"), schema),
                    None => (format!("{path}.*"), &schema["additionalProperties"]),
                };
                set(field, schema, &path, &step(Step::Field(name.clone())), found);
            }
        }
        _ => {}
    }
}

fn all_set(values: &Value, schema: &Value) -> Vec<Set> {
    let mut found = Vec::new();
    set(values, schema, "", &[], &mut found);
    found
}

/// The document without one of its values.
fn without(values: &Value, steps: &[Step]) -> Value {
    let mut values = values.clone();
    let Some((Step::Field(last), way)) = steps.split_last() else { panic!("a value has a name") };
    let place = way.iter().fold(&mut values, |value, step| match step {
        Step::Field(name) => &mut value[name],
        Step::Entry(index) => &mut value[index],
    });
    place.as_object_mut().unwrap().remove(last);
    values
}

/// What the chart makes of values, in an order that does not depend on chance.
fn rendered(values: &Value) -> Option<Vec<String>> {
    let text = Helm::alone().template(NAMESPACE, values).ok()?;
    let mut documents: Vec<String> = text.split("\n---\n").map(str::to_owned).collect();
    documents.sort();
    Some(documents)
}

/// The values that make a difference in a file, apart from those known to do so already.
fn with_effect(values: &Value, schema: &Value, file: &str) -> Vec<String> {
    let whole = rendered(values).unwrap_or_else(|| panic!("{file} is refused"));
    let makes_a_difference = |set: &Set| rendered(&without(values, &set.steps)).as_ref() != Some(&whole);
    all_set(values, schema).into_iter().filter(makes_a_difference).map(|set| set.path).collect()
}

#[test]
fn every_value_of_the_chart_has_an_effect_in_one_of_its_values_files() {
    let schema = schema();
    let files = values_files();
    let effective: BTreeSet<String> = std::thread::scope(|scope| {
        let work = files.iter().map(|(file, values)| {
            let schema = &schema;
            scope.spawn(move || with_effect(values, schema, &file.display().to_string()))
        });
        let work: Vec<_> = work.collect();
        work.into_iter().flat_map(|work| work.join().unwrap()).collect()
    });
    let known = known("", &schema)
        .into_iter()
        .filter(|(path, refused)| !refused && !["global", "enabled"].contains(&path.as_str()));
    let idle: Vec<String> = known.map(|(path, _)| path).filter(|path| !effective.contains(path)).collect();
    assert!(idle.is_empty(), "no values file shows that they work: {idle:?}");
}

#[test]
fn the_table_of_values_the_schema_and_the_defaults_tell_of_the_same_values() {
    let schema = schema();
    let known = known("", &schema);
    let readme = of_chart("README.md");
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let table: Vec<(String, bool)> =
        rows.map(|(path, verdict)| (path.to_owned(), verdict.starts_with("**refused**"))).collect();
    let sorted = |values: &[(String, bool)]| {
        let mut values = values.to_vec();
        values.sort();
        values
    };
    assert_eq!(sorted(&table), sorted(&known), "the table of README.md and values.schema.json differ");

    let defaults: Value = serde_saphyr::from_str(&of_chart("values.yaml")).unwrap();
    let names = |path: &str| -> Vec<String> { path.split('.').map(str::to_owned).collect() };
    for (path, refused) in &known {
        let inside =
            path.contains("[]") || path.contains('*') || path.starts_with("configuration.repositoryMaintenanceJob.");
        if *refused || inside || NOT_IN_DEFAULTS.contains(&path.as_str()) {
            continue;
        }
        let found = names(path).iter().try_fold(&defaults, |value, name| value.get(name));
        assert!(found.is_some(), "values.yaml does not name {path}");
    }
}

#[test]
fn what_a_schedule_may_say_is_what_a_backup_has() {
    let file = velero_testkit::install::repository_root().join("config/crd/velero.io_schedules.yaml");
    let definition: Value = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/template/properties";
    let fields = |value: &Value| -> BTreeSet<String> { value.as_object().unwrap().keys().cloned().collect() };
    let ours = &schema()["properties"]["schedules"]["additionalProperties"]["properties"]["template"]["properties"];
    assert_eq!(fields(ours), fields(definition.pointer(spec).unwrap()));
}

fn with_location(location: &Value) -> Value {
    json!({"configuration": {"backupStorageLocation": [location]}})
}

fn in_configuration(field: &str, value: &Value) -> Value {
    json!({"configuration": {field: value}})
}

/// Misspelt at every depth, or of another type.
fn unknown() -> Vec<(Value, &'static str)> {
    let misspelt = json!({"schedule": "@daily", "template": {"includeNamespaces": ["a"]}});
    vec![
        (json!({"credential": {}}), "additional properties 'credential'"),
        (json!({"image": {"repo": "x"}}), "at '/image': additional properties 'repo'"),
        (
            in_configuration("defaultBackupTtl", &json!("1h")),
            "at '/configuration': additional properties 'defaultBackupTtl'",
        ),
        (json!({"nodeAgent": {"toleration": []}}), "at '/nodeAgent': additional properties 'toleration'"),
        (json!({"metrics": {"serviceMonitor": {"labels": {}}}}), "at '/metrics/serviceMonitor'"),
        (with_location(&json!({"provider": "aws", "bucket": "b", "region": "eu"})), "'region' not allowed"),
        (json!({"schedules": {"daily": misspelt}}), "'includeNamespaces' not allowed"),
        (json!({"schedules": {"daily": {"cron": "@daily"}}}), "missing property 'schedule'"),
        (json!({"replicas": "two"}), "at '/replicas': got string, want integer"),
        (in_configuration("logLevel", &json!("loud")), "at '/configuration/logLevel': value must be one of"),
        (json!({"tolerations": {}}), "at '/tolerations'"),
        (json!({"image": {"digest": "v1"}}), "at '/image/digest'"),
    ]
}

fn restore_helper(value: &Value) -> Value {
    json!({"configMaps": {"fs-restore-action-config": value}})
}

/// What Velero's chart had once, or names and does not read.
fn removed() -> Vec<(Value, &'static str)> {
    let maintenance = |field: &str, value: Value| in_configuration("repositoryMaintenanceJob", &json!({field: value}));
    vec![
        (json!({"deployRestic": true}), "it is called deployNodeAgent"),
        (json!({"restic": {"a": 1}}), "it is called nodeAgent"),
        (json!({"resticTimeout": "1h"}), "configuration.fsBackupTimeout"),
        (json!({"defaultVolumesToRestic": true}), "configuration.defaultVolumesToFsBackup"),
        (json!({"defaultResticPruneFrequency": "1h"}), "configuration.defaultRepoMaintainFrequency"),
        (in_configuration("resticTimeout", &json!("1h")), "configuration.fsBackupTimeout"),
        (in_configuration("defaultVolumesToRestic", &json!(true)), "configuration.defaultVolumesToFsBackup"),
        (in_configuration("defaultResticPruneFrequency", &json!("1h")), "configuration.defaultRepoMaintainFrequency"),
        (in_configuration("provider", &json!("aws")), "each entry of configuration.backupStorageLocation"),
        (in_configuration("backupStorageLocation", &json!({"bucket": "b"})), "it is a list since chart 4"),
        (in_configuration("volumeSnapshotLocation", &json!({"config": {}})), "it is a list since chart 4"),
        (in_configuration("uploaderType", &json!("restic")), "no longer writes"),
        (maintenance("requests", json!({"cpu": "1"})), "repositoryConfigData"),
        (maintenance("limits", json!({"cpu": "1"})), "repositoryConfigData"),
        (maintenance("latestJobsCount", json!(3)), "repositoryConfigData"),
        (json!({"configMaps": {"restic-restore-action-config": {}}}), "fs-restore-action-config"),
        (restore_helper(&json!({"labels": {"velero.io/restic": "x"}})), "velero.io/pod-volume-restore"),
        (restore_helper(&json!({"data": {"image": "velero/velero-restic-restore-helper:v1"}})), "leave data.image out"),
        (json!({"upgradeCRDsJob": {"shellCmd": "/tmp/sh"}}), "needs no shell"),
        (json!({"upgradeCRDsJob": {"updateCmd": "/velero"}}), "needs no kubectl"),
    ]
}

/// What cannot work.
fn impossible() -> Vec<(Value, &'static str)> {
    let original = json!({"repository": "docker.io/velero/velero", "tag": "v1.18.1"});
    let command = json!({"exec": {"command": ["sleep", "5"]}});
    let twice = json!([{"provider": "aws", "bucket": "a"}, {"name": "default", "provider": "aws", "bucket": "b"}]);
    let both = json!({"enabled": true, "minAvailable": 1, "maxUnavailable": 1});
    vec![
        (json!({"image": {"repository": "velero/velero"}}), "the image of the original Velero"),
        (json!({"image": original}), "the image of the original Velero"),
        (json!({"image": {"tag": "v1.18.3"}}), "image.tag is v1.18.3, and this chart is made for v0."),
        (in_configuration("namespace", &json!("other")), "where the server would not look"),
        (json!({"lifecycle": {"preStop": command}}), "lifecycle.preStop.exec: the image has no shell"),
        (json!({"nodeAgent": {"lifecycle": {"postStart": command}}}), "nodeAgent.lifecycle.postStart.exec"),
        (json!({"podLabels": {"app.kubernetes.io/name": "x"}}), "by which Kubernetes finds the pods"),
        (json!({"podDisruptionBudget": both}), "takes one of them"),
        (json!({"replicas": 0}), "use 1, 2 or 3"),
        (json!({"replicas": 5}), "use 1, 2 or 3"),
        (json!({"replicas": 2}), "backups go to a volume"),
        (in_configuration("webTLSSecret", &json!("page")), "set configuration.webAddress too"),
        (in_configuration("webTrustedUserHeader", &json!("X-User")), "needs configuration.webTLSSecret"),
        (in_configuration("webTrustedGroupsHeader", &json!("X-Groups")), "needs configuration.webTrustedUserHeader"),
        (with_location(&json!({"provider": "aws"})), "bucket is required"),
        (in_configuration("backupStorageLocation", &twice), "two entries named default"),
        (
            with_location(&json!({"provider": "aws", "bucket": "b", "caCert": "-----BEGIN CERTIFICATE-----\n"})),
            "entry default: caCert is a certificate as it is, and base64 of it is needed",
        ),
        (json!({"image": null}), "image is null, and its defaults are gone with it"),
        (json!({"metrics": {"serviceMonitor": null}}), "metrics.serviceMonitor is null"),
        (
            with_location(&json!({"provider": "aws", "bucket": "b", "credential": {"key": "cloud"}})),
            "backupStorageLocation, entry default: credential needs name and key",
        ),
        (
            in_configuration("volumeSnapshotLocation", &json!([{"provider": "aws", "credential": {"name": "keys"}}])),
            "volumeSnapshotLocation, entry default: credential needs name and key",
        ),
        // What `--reuse-values` hands over after Velero's chart: its defaults instead of ours.
        (json!({"persistence": null, "replicas": null, "networkPolicy": null}), "--reset-then-reuse-values"),
    ]
}

#[test]
fn a_value_that_is_misspelt_or_cannot_work_is_refused_with_the_reason() {
    let refusals = [unknown(), removed(), impossible()].concat();
    for (values, reason) in &refusals {
        let refused = Helm::alone().template(NAMESPACE, values).expect_err(&format!("{values} was accepted"));
        assert!(refused.to_string().contains(reason), "{values}: {refused}");
    }
    // Each value that the table says is refused is among them.
    let tried: Vec<Set> = removed().iter().flat_map(|(values, _)| all_set(values, &schema())).collect();
    for (path, refused) in known("", &schema()) {
        assert!(!refused || tried.iter().any(|set| set.path == path), "{path} was not tried");
    }
}

#[test]
fn numbers_and_booleans_become_the_texts_that_kubernetes_wants() {
    let config = json!({"blockSizeInBytes": 104857600, "useAAD": true});
    let location = json!({"provider": "azure", "bucket": "b", "prefix": 20250101, "config": config});
    let values = json!({
        "labels": {"tier": 1}, "podAnnotations": {"prometheus.io/port": 8085, "own": true},
        "configuration": {"backupStorageLocation": [location], "extraEnvVars": {"LIMIT": 1048576}},
        "configMaps": {"own": {"data": {"count": 2000000}}}, "nodeSelector": {"backup": true},
        "deployNodeAgent": true, "nodeAgent": {"extraEnvVars": [{"name": "SIZE", "value": 3145728}]},
        "upgradeCRDsJob": {"extraEnvVars": [{"name": "TRIES", "value": 7}]},
    });
    let rendered = Helm::alone().template(NAMESPACE, &values).unwrap();
    for text in [
        "tier: \"1\"\n",
        "prometheus.io/port: \"8085\"\n",
        "own: \"true\"\n",
        "prefix: \"20250101\"\n",
        "blockSizeInBytes: \"104857600\"\n",
        "useAAD: \"true\"\n",
        "value: \"1048576\"\n",
        "value: \"3145728\"\n",
        "value: \"7\"\n",
        "count: \"2000000\"\n",
        "backup: \"true\"\n",
    ] {
        assert!(rendered.contains(text), "{text:?} is missing in: {rendered}");
    }
    assert!(!rendered.contains("backup: true\n"), "pods of Jobs are placed by it too: {rendered}");
}

#[test]
fn a_value_that_is_nothing_or_zero_is_taken_as_it_is_meant() {
    let budget = json!({"enabled": true, "minAvailable": 0});
    let values = json!({"terminationGracePeriodSeconds": null, "deployNodeAgent": true, "podDisruptionBudget": budget});
    let rendered = Helm::alone().template(NAMESPACE, &values).unwrap();
    assert!(!rendered.contains("terminationGracePeriodSeconds"), "pods would be killed at once: {rendered}");
    assert!(rendered.contains("  minAvailable: 0\n"), "{rendered}");
    let budget = json!({"enabled": true, "maxUnavailable": 0});
    let rendered = Helm::alone().template(NAMESPACE, &json!({ "podDisruptionBudget": budget })).unwrap();
    assert!(rendered.contains("  maxUnavailable: 0\n"), "{rendered}");
    let agents = json!({"podVolumePath": null, "pluginVolumePath": ""});
    let rendered = Helm::alone().template(NAMESPACE, &json!({"deployNodeAgent": true, "nodeAgent": agents})).unwrap();
    for folder in ["pods", "plugins"] {
        assert!(rendered.contains(&format!("            path: /var/lib/kubelet/{folder}\n")), "{folder}: {rendered}");
    }
}

#[test]
fn a_place_for_temporary_files_of_the_values_takes_the_place_of_ours() {
    let own = json!({
        "extraVolumes": [{"name": "own", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "own", "mountPath": "/tmp"}],
    });
    for values in [json!({}), own] {
        let rendered = Helm::alone().template(NAMESPACE, &values).unwrap();
        assert_eq!(rendered.matches("mountPath: /tmp\n").count(), 1, "{values}");
    }
}

#[test]
fn pods_that_move_data_run_as_the_agents_do_where_a_cloud_knows_the_account_of_the_server() {
    let identities =
        ["eks.amazonaws.com/role-arn", "iam.gke.io/gcp-service-account", "azure.workload.identity/client-id"];
    let annotated = identities.map(|name| (json!({name: "velero"}), 0));
    for (annotations, named) in [(json!({}), 5), (json!({"team": "backup"}), 5)].into_iter().chain(annotated) {
        let values = json!({"deployNodeAgent": true, "serviceAccount": {"server": {"annotations": annotations}}});
        let rendered = Helm::alone().template(NAMESPACE, &values).unwrap();
        assert_eq!(rendered.matches("name: velero-data-mover\n").count(), named, "{annotations}");
        assert!(rendered.contains("name: velero-node-agent\n"), "agents have their rights in any case");
    }
}

#[test]
fn variables_from_a_secret_of_somebody_else_are_not_passed_over() {
    let values = json!({"credentials": {"useSecret": false, "name": "keys", "extraEnvVars": {"TOKEN": ""}}});
    let rendered = Helm::alone().template(NAMESPACE, &values).unwrap();
    assert!(rendered.contains("- name: TOKEN\n") && rendered.contains("name: keys\n"), "{rendered}");
    assert!(!rendered.contains("kind: Secret\n"), "{rendered}");
}

/// What the templates of a chart read, such as `configuration.backupStorageLocation`.
fn read_by_templates(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_by_templates(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let names = text.split(".Values.").skip(1).filter_map(|rest| {
            rest.split(|character: char| !character.is_ascii_alphanumeric() && character != '.').next()
        });
        found.extend(names.map(|name| name.trim_end_matches('.').to_owned()));
    }
}

/// The paths of all values that a document names, also of those without a value.
fn named(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                named(field, &path, found);
            }
        }
        Value::Array(entries) if entries.iter().any(Value::is_object) => {
            entries.iter().for_each(|entry| named(entry, &format!("{path}[]"), found));
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

#[test]
#[ignore = "needs Velero's own chart, in the folder that VELERO_CHART names"]
fn every_value_of_veleros_own_chart_is_in_the_table_and_its_defaults_are_taken() {
    let Some(folder) = std::env::var_os("VELERO_CHART").map(PathBuf::from) else {
        eprintln!("not compared: VELERO_CHART is not set");
        return;
    };
    let mut defaults: Value = serde_saphyr::from_str(&fs::read_to_string(folder.join("values.yaml")).unwrap()).unwrap();
    let mut theirs = BTreeSet::new();
    named(&defaults, "", &mut theirs);
    read_by_templates(&folder.join("templates"), &mut theirs);
    let ours: Vec<String> = known("", &schema()).into_iter().map(|(path, _)| path).collect();
    let is_known = |path: &String| {
        ours.iter().any(|own| {
            let below = |longer: &str, shorter: &str| {
                longer.strip_prefix(shorter).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            };
            below(own, path) || below(path, own)
        })
    };
    let unknown: Vec<&String> = theirs.iter().filter(|path| !is_known(path)).collect();
    let count = theirs.len();
    assert!(count > 150 && unknown.is_empty(), "of {count} values these are not in the table: {unknown:?}");

    // Who has copied all of its defaults changes the image and names a location, and nothing else.
    let refused = Helm::alone().template(NAMESPACE, &defaults).unwrap_err().to_string();
    assert!(refused.contains("the image of the original Velero"), "{refused}");
    defaults["image"].as_object_mut().unwrap().retain(|name, _| name != "repository" && name != "tag");
    for (field, location) in [
        ("backupStorageLocation", json!([{"name": null, "provider": "aws", "bucket": "b"}])),
        ("volumeSnapshotLocation", json!([{"name": null, "provider": "aws", "config": {"region": "r"}}])),
    ] {
        defaults["configuration"][field] = location;
    }
    Helm::alone().template(NAMESPACE, &defaults).unwrap();
    eprintln!("{count} values of Velero's chart are in the table");
}

#[test]
fn the_chart_is_what_helm_calls_good_and_is_the_same_when_packed() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    let source = chart().display().to_string();
    for (file, values) in values_files() {
        let linted = Helm::alone().run(&["lint", "--strict", &source, "--namespace", NAMESPACE], Some(&values));
        linted.unwrap_or_else(|problem| panic!("{}: {problem:#}", file.display()));
    }
    Helm::alone().run(&["package", &source, "--destination", &place], None).unwrap();
    let packed = folder.path().join(format!("velero-{}.tgz", env!("CARGO_PKG_VERSION"))).display().to_string();
    let make = |chart: &str| {
        Helm::alone().run(&["template", "velero", chart, "--include-crds", "--namespace", NAMESPACE], None).unwrap()
    };
    let (packed, source) = (make(&packed), make(&source));
    assert_eq!(packed, source);
    assert_eq!(
        packed.matches("kind: CustomResourceDefinition").count(),
        13,
        "the definitions are in a folder linked to"
    );
}
