//! What a maintenance Job is made of: the pod of the server with another command.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use kube::api::ObjectMeta;
use velero_api::labels;
use velero_api::metadata::name;
use velero_api::v1::BackupRepository;
use velero_rules::Unusable;
use velero_rules::repository_config::JobConfig;
use velero_rules::repository_maintenance::job_name;

/// The container of the server.
const SERVER: &str = "velero";
/// The container of the pod of a Job, as Velero has it too.
pub(super) const CONTAINER: &str = "velero-repo-maintenance-container";
/// A Job that takes longer has failed: nothing else would ever say so of one that hangs.
const LONGEST: i64 = 24 * 3600;
/// Labels and annotations of the server's pods that others go by.
const INHERITED_LABELS: [&str; 1] = ["azure.workload.identity/use"];
const INHERITED_ANNOTATIONS: [&str; 1] = ["iam.amazonaws.com/role"];

/// How the process in the pod logs.
pub(super) struct LogForm<'a> {
    pub(super) level: &'a str,
    pub(super) format: &'a str,
}

/// The Job that maintains a repository, made of the Deployment of the server.
pub(super) fn job(
    repository: &BackupRepository,
    deployment: &Deployment,
    config: &JobConfig,
    log: &LogForm<'_>,
    milliseconds: i64,
) -> Result<Job, Unusable> {
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    let pod = template.and_then(|template| template.spec.as_ref());
    let server = pod.and_then(|pod| {
        pod.containers.iter().find(|container| container.name == SERVER).or_else(|| pod.containers.first())
    });
    let (Some(pod), Some(server)) = (pod, server) else {
        return Err(Unusable(format!("deployment {:?} has no container", name(deployment))));
    };
    let label = labels::valid_value(name(repository));
    let marks = BTreeMap::from([(labels::REPOSITORY_NAME.to_owned(), label)]);
    let inherited = template.and_then(|template| template.metadata.as_ref());
    let mut pod_labels =
        chosen(config.pod_labels.as_ref(), inherited.and_then(|metadata| metadata.labels.as_ref()), &INHERITED_LABELS);
    pod_labels.extend(marks.clone());
    let pod_annotations = chosen(
        config.pod_annotations.as_ref(),
        inherited.and_then(|metadata| metadata.annotations.as_ref()),
        &INHERITED_ANNOTATIONS,
    );
    let spec = pod_spec(pod, config, container(repository, server, config, log)?);
    Ok(Job {
        metadata: ObjectMeta {
            name: Some(job_name(name(repository), milliseconds)),
            namespace: repository.metadata.namespace.clone(),
            labels: Some(marks),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec {
            backoff_limit: Some(0),
            active_deadline_seconds: Some(LONGEST),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    name: Some("velero-repo-maintenance-pod".to_owned()),
                    labels: Some(pod_labels),
                    annotations: Some(pod_annotations),
                    ..ObjectMeta::default()
                }),
                spec: Some(spec),
            },
            ..JobSpec::default()
        }),
        status: None,
    })
}

/// The pod of the Job, made of that of the server.
fn pod_spec(server: &PodSpec, config: &JobConfig, container: Container) -> PodSpec {
    let affinity = config.affinity();
    PodSpec {
        containers: vec![container],
        restart_policy: Some("Never".to_owned()),
        priority_class_name: config.priority_class_name.clone().filter(|class| !class.is_empty()),
        security_context: server.security_context.clone(),
        volumes: server.volumes.clone(),
        service_account_name: server.service_account_name.clone(),
        tolerations: server.tolerations.clone(),
        // Whoever chooses other nodes for maintenance must not be bound to those of the server.
        node_selector: server.node_selector.clone().filter(|_| affinity.is_none()),
        affinity,
        image_pull_secrets: server.image_pull_secrets.clone(),
        dns_policy: server.dns_policy.clone(),
        dns_config: server.dns_config.clone(),
        host_aliases: server.host_aliases.clone(),
        ..PodSpec::default()
    }
}

fn container(
    repository: &BackupRepository,
    server: &Container,
    config: &JobConfig,
    log: &LogForm<'_>,
) -> Result<Container, Unusable> {
    let spec = &repository.spec;
    let arguments = vec![
        "repo-maintenance".to_owned(),
        format!("--repo-name={}", spec.volume_namespace),
        format!("--repo-type={}", spec.repository_type),
        format!("--backup-storage-location={}", spec.backup_storage_location),
        format!("--log-level={}", log.level),
        format!("--log-format={}", log.format),
    ];
    Ok(Container {
        name: CONTAINER.to_owned(),
        image: server.image.clone(),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: server.command.clone().or_else(|| Some(vec!["/velero".to_owned()])),
        args: Some(arguments),
        env: server.env.clone(),
        env_from: server.env_from.clone(),
        volume_mounts: server.volume_mounts.clone(),
        security_context: server.security_context.clone(),
        resources: Some(config.resources()?),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    })
}

/// What the ConfigMap says, else what is taken over from the server.
fn chosen(
    configured: Option<&BTreeMap<String, String>>,
    of_server: Option<&BTreeMap<String, String>>,
    inherited: &[&str],
) -> BTreeMap<String, String> {
    if let Some(configured) = configured.filter(|configured| !configured.is_empty()) {
        return configured.clone();
    }
    let of_server = of_server.into_iter().flatten();
    let taken = of_server.filter(|(key, value)| inherited.contains(&key.as_str()) && !value.is_empty());
    taken.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use velero_api::v1::BackupRepositorySpec;

    use super::*;

    fn made(pod: &Value, config: &Value) -> Value {
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": { "name": "velero" },
            "spec": { "selector": {}, "template": {
                "metadata": {
                    "labels": { "azure.workload.identity/use": "true", "deploy": "velero" },
                    "annotations": { "iam.amazonaws.com/role": "r", "prometheus.io/scrape": "true" },
                },
                "spec": pod,
            } },
        }))
        .unwrap();
        let spec = BackupRepositorySpec {
            volume_namespace: "shop".to_owned(),
            backup_storage_location: "default".to_owned(),
            repository_type: "kopia".to_owned(),
            ..BackupRepositorySpec::default()
        };
        let repository = BackupRepository::new("velero", "shop-default-kopia", spec);
        let config: JobConfig = serde_json::from_value(config.clone()).unwrap();
        let log = LogForm { level: "info", format: "text" };
        serde_json::to_value(job(&repository, &deployment, &config, &log, 7).unwrap()).unwrap()
    }

    fn server_pod() -> Value {
        json!({
            "serviceAccountName": "velero",
            "imagePullSecrets": [{ "name": "pull" }],
            "dnsPolicy": "None",
            "dnsConfig": { "nameservers": ["10.0.0.2"] },
            "hostAliases": [{ "ip": "10.0.0.1", "hostnames": ["store.example.com"] }],
            "nodeSelector": { "disk": "fast" },
            "tolerations": [{ "key": "k", "operator": "Exists" }],
            "volumes": [{ "name": "scratch", "emptyDir": {} }],
            "containers": [
                { "name": "sidecar", "image": "other" },
                { "name": "velero", "image": "velero:1", "args": ["server"], "command": ["/velero"],
                  "env": [{ "name": "A", "value": "b" }], "envFrom": [{ "secretRef": { "name": "s" } }],
                  "volumeMounts": [{ "name": "scratch", "mountPath": "/scratch" }] },
            ],
        })
    }

    #[test]
    fn a_job_is_the_pod_of_the_server_with_another_command() {
        let job = made(&server_pod(), &json!({}));
        assert_eq!(job["metadata"]["name"], "shop-default-kopia-maintain-job-7");
        assert_eq!(job["metadata"]["labels"], json!({ "velero.io/repo-name": "shop-default-kopia" }));
        assert_eq!(job["spec"]["backoffLimit"], 0);
        let template = &job["spec"]["template"];
        let labels = json!({ "velero.io/repo-name": "shop-default-kopia", "azure.workload.identity/use": "true" });
        assert_eq!(template["metadata"]["labels"], labels);
        assert_eq!(template["metadata"]["annotations"], json!({ "iam.amazonaws.com/role": "r" }));
        let pod = &template["spec"];
        for field in ["serviceAccountName", "imagePullSecrets", "nodeSelector", "tolerations", "volumes"] {
            assert_eq!(pod[field], server_pod()[field], "{field}");
        }
        for field in ["dnsPolicy", "dnsConfig", "hostAliases"] {
            assert_eq!(pod[field], server_pod()[field], "the store is found by the same name: {field}");
        }
        assert_eq!((&pod["restartPolicy"], pod["containers"].as_array().unwrap().len()), (&json!("Never"), 1));
        let container = &pod["containers"][0];
        for field in ["image", "command", "env", "envFrom", "volumeMounts"] {
            assert_eq!(container[field], server_pod()["containers"][1][field], "{field}");
        }
        let arguments = json!([
            "repo-maintenance",
            "--repo-name=shop",
            "--repo-type=kopia",
            "--backup-storage-location=default",
            "--log-level=info",
            "--log-format=text"
        ]);
        assert_eq!(container["args"], arguments);
        assert_eq!(container["terminationMessagePolicy"], "FallbackToLogsOnError");
    }

    #[test]
    fn the_config_map_comes_before_what_the_server_has() {
        let job = made(
            &server_pod(),
            &json!({
                "loadAffinity": [{ "nodeSelector": { "matchLabels": { "pool": "slow" } } }],
                "podResources": { "memoryLimit": "1Gi" },
                "priorityClassName": "low",
                "podLabels": { "a": "b" },
                "podAnnotations": { "c": "d" },
            }),
        );
        let template = &job["spec"]["template"];
        assert_eq!(template["metadata"]["labels"]["a"], "b");
        assert_eq!(template["metadata"]["labels"].as_object().unwrap().len(), 2);
        assert_eq!(template["metadata"]["annotations"], json!({ "c": "d" }));
        assert_eq!(template["spec"]["priorityClassName"], "low");
        assert!(template["spec"].get("nodeSelector").is_none());
        assert_eq!(template["spec"]["containers"][0]["resources"], json!({ "limits": { "memory": "1Gi" } }));
    }
}
