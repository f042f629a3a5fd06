//! Tests of what flags become.

use clap::{CommandFactory, FromArgMatches};

use super::*;
use crate::arguments::{Cli, Command, with_go_flags};

fn parsed(flags: &[&str]) -> InstallArguments {
    let matches = with_go_flags(Cli::command()).get_matches_from(["velero", "install"].iter().chain(flags));
    let Command::Install(arguments) = Cli::from_arg_matches(&matches).unwrap().command else { panic!("not install") };
    *arguments
}

fn built(flags: &[&str], existing: Existing) -> Vec<Resource> {
    let arguments = parsed(flags);
    check(&arguments).unwrap();
    let secret = arguments.storage.secret_file.as_ref().map(|_| b"keys".to_vec());
    let files = Files { secret, certificate: None };
    let installation = Installation { namespace: "velero", arguments: &arguments, files, existing };
    resources(&installation).split_off(definitions().len())
}

fn kinds(resources: &[Resource]) -> Vec<String> {
    resources.iter().map(|resource| format!("{}/{}", resource.kind(), resource.name())).collect()
}

fn find<'a>(resources: &'a [Resource], kind: &str) -> &'a Resource {
    resources.iter().find(|resource| resource.kind() == kind).unwrap()
}

const BUCKET: [&str; 6] = ["--provider", "aws", "--bucket", "my-bucket", "--secret-file", "keys"];

#[test]
fn without_flags_backups_go_to_a_claim() {
    let resources = built(&[], Existing::default());
    let expected = [
        "Namespace/velero",
        "ClusterRole/velero",
        "ClusterRoleBinding/velero",
        "ServiceAccount/velero",
        "NetworkPolicy/velero",
        "PersistentVolumeClaim/velero-backups",
        "BackupStorageLocation/default",
        "ServerStatusRequest/velero-server-status",
        "Deployment/velero",
    ];
    assert_eq!(kinds(&resources), expected);
    let spec = &find(&resources, "BackupStorageLocation").object["spec"];
    assert_eq!(spec["provider"], "fs");
    assert_eq!(spec["config"]["path"], "/backups/velero");
    let pod = &find(&resources, "Deployment").object["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"][2]["persistentVolumeClaim"]["claimName"], "velero-backups");
    assert_eq!(pod["containers"][0]["volumeMounts"][3]["mountPath"], "/backups");
}

#[test]
fn a_bucket_comes_with_its_secret_and_with_plugins_a_snapshot_location() {
    let makes_snapshot_location = |further: &[&str]| {
        let resources = built(&[&BUCKET, further].concat(), Existing::default());
        kinds(&resources).contains(&"VolumeSnapshotLocation/default".to_owned())
    };
    assert!(!makes_snapshot_location(&[]), "nobody would take the snapshots");
    assert!(makes_snapshot_location(&["--use-volume-snapshots=true"]));
    assert!(makes_snapshot_location(&["--snapshot-location-config=region=eu"]));
    assert!(makes_snapshot_location(&["--backup-location-config=region=eu"]));
    assert!(!makes_snapshot_location(&["--backup-location-config=region=eu,s3Url=http://minio:9000"]));
    let resources = built(&[&BUCKET[..], &["--plugins=a/b:v1"]].concat(), Existing::default());
    let expected = [
        "Namespace/velero",
        "ClusterRole/velero",
        "ClusterRoleBinding/velero",
        "ServiceAccount/velero",
        "NetworkPolicy/velero",
        "Secret/cloud-credentials",
        "BackupStorageLocation/default",
        "VolumeSnapshotLocation/default",
        "ServerStatusRequest/velero-server-status",
        "Deployment/velero",
    ];
    assert_eq!(kinds(&resources), expected);
    assert_eq!(find(&resources, "Secret").object["data"]["cloud"], "a2V5cw==");
    let container = &find(&resources, "Deployment").object["spec"]["template"]["spec"]["containers"][0];
    let names: Vec<_> = container["env"].as_array().unwrap().iter().map(|variable| &variable["name"]).collect();
    assert!(names.contains(&&json!("AWS_SHARED_CREDENTIALS_FILE")), "{names:?}");
}

#[test]
fn what_an_earlier_installation_made_is_kept_unless_flags_name_it() {
    let bucket = Existing { location: true, secret: true, ..Existing::default() };
    let again = built(&[], bucket);
    let names = kinds(&again);
    assert!(!names.iter().any(|name| name.contains("Location") || name.contains("Claim")), "{names:?}");
    let volumes = &find(&again, "Deployment").object["spec"]["template"]["spec"]["volumes"];
    assert_eq!(volumes[2]["secret"]["secretName"], "cloud-credentials");
    assert_eq!(find(&built(&BUCKET, bucket), "BackupStorageLocation").manner, Manner::Apply);
    assert_eq!(find(&built(&BUCKET, bucket), "Namespace").manner, Manner::Keep);

    let claim = Existing { location: true, claim: true, ..Existing::default() };
    let again = built(&[], claim);
    let volumes = &find(&again, "Deployment").object["spec"]["template"]["spec"]["volumes"];
    assert_eq!(volumes[2]["persistentVolumeClaim"]["claimName"], "velero-backups");
}

#[test]
fn flags_reach_the_server_and_plugins_become_init_containers() {
    let flags = [
        "--features=EnableCSI",
        "--garbage-collection-frequency=2h",
        "--concurrent-backups=3",
        "--plugins=a/b:v1,c/b:v2,a/b:v3",
        "--pod-labels=x=y,deploy=other",
        "--cluster-admin",
        "--velero-pod-cpu-limit=0",
        "--use-volume-snapshots=false",
    ];
    let resources = built(&flags, Existing::default());
    let template = &find(&resources, "Deployment").object["spec"]["template"];
    let container = &template["spec"]["containers"][0];
    let expected = [
        "server",
        "--features=EnableCSI",
        "--uploader-type=kopia",
        "--garbage-collection-frequency=2h0m0s",
        "--concurrent-backups=3",
    ];
    assert_eq!(container["args"], json!(expected));
    assert_eq!(container["resources"]["limits"], json!({"memory": "512Mi"}));
    assert_eq!(template["metadata"]["labels"], json!({"component": "velero", "deploy": "velero", "x": "y"}));
    let plugins = template["spec"]["initContainers"].as_array().unwrap();
    let names: Vec<_> = plugins.iter().map(|plugin| plugin["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a-b", "c-b", "a-b-00002"]);
    assert_eq!(find(&resources, "ClusterRoleBinding").object["roleRef"]["name"], "cluster-admin");
    assert!(!kinds(&resources).contains(&"ClusterRole/velero".to_owned()));
}

/// What the level `restricted` of Kubernetes asks of a pod, beside what no pod of ours ever has.
fn is_restricted(pod: &Value) -> bool {
    let of_pod = &pod["securityContext"];
    let list = |name: &str| pod[name].as_array().cloned().unwrap_or_default();
    let confined = |container: &Value| {
        let rights = &container["securityContext"];
        rights["allowPrivilegeEscalation"] == false
            && rights["capabilities"] == json!({"drop": ["ALL"]})
            && rights["runAsUser"] != 0
    };
    of_pod["runAsNonRoot"] == true
        && of_pod["seccompProfile"]["type"] == "RuntimeDefault"
        && [list("initContainers"), list("containers")].iter().flatten().all(confined)
        && list("volumes").iter().all(|volume| volume.get("hostPath").is_none())
}

#[test]
fn a_server_alone_lives_in_a_restricted_namespace_and_node_agents_open_it() {
    let level = |resources: &[Resource]| {
        let namespace = find(resources, "Namespace");
        (namespace.object["metadata"]["labels"]["pod-security.kubernetes.io/enforce"].clone(), namespace.manner)
    };
    let own = Existing { namespace: true, ..Existing::default() };
    for flags in [&[][..], &BUCKET, &["--plugins=a/b:v1"]] {
        let alone = built(flags, own);
        assert_eq!(level(&alone), (json!("restricted"), Manner::Keep), "{flags:?}");
        assert!(is_restricted(&find(&alone, "Deployment").object["spec"]["template"]["spec"]), "{flags:?}");
    }
    let agents = &["--use-node-agent"];
    assert_eq!(level(&built(agents, Existing::default())), (json!("privileged"), Manner::Keep));
    assert_eq!(level(&built(agents, own)), (json!("privileged"), Manner::Apply), "its pods would be refused");
    let open = Existing { open_namespace: true, ..own };
    assert_eq!(level(&built(&[], open)), (json!("privileged"), Manner::Keep), "agents may be there already");
}

#[test]
fn connections_are_admitted_to_one_port_of_pods_that_are_ours() {
    let policies = |flags: &[&str]| -> Vec<Value> {
        let resources = built(flags, Existing::default()).into_iter();
        resources.filter(|resource| resource.kind() == "NetworkPolicy").map(|resource| resource.object).collect()
    };
    for flags in [&["--use-node-agent"][..], &["--use-node-agent", "--network-policy"]] {
        let found = policies(flags);
        let selected: Vec<_> = found.iter().map(|policy| &policy["spec"]["podSelector"]["matchLabels"]).collect();
        assert_eq!(selected, [&json!({"deploy": "velero"}), &json!({"role": "node-agent"})]);
        for policy in &found {
            assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress"]));
            assert_eq!(policy["spec"]["ingress"], json!([{"ports": [{"protocol": "TCP", "port": 8085}]}]));
        }
    }
    assert!(policies(&["--network-policy=false"]).is_empty());
}

#[test]
fn an_account_of_the_users_comes_with_its_own_rights() {
    let resources = built(&["--service-account-name=mine"], Existing::default());
    assert!(
        !kinds(&resources).iter().any(|name| name.starts_with("ClusterRole") || name.starts_with("ServiceAccount"))
    );
    assert_eq!(find(&resources, "Deployment").object["spec"]["template"]["spec"]["serviceAccountName"], "mine");
}

#[test]
fn movers_have_an_account_of_their_own_unless_a_cloud_knows_that_of_the_server() {
    let movers = |resources: &[Resource]| {
        let names = resources.iter().filter(|resource| resource.name() == MOVER).map(Resource::kind);
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let all = ["Role", "RoleBinding", "ServiceAccount"];
    for (flag, has_account) in [
        ("--sa-annotations=team=backup", true),
        ("--sa-annotations=eks.amazonaws.com/role-arn=", true),
        ("--sa-annotations=team=backup,eks.amazonaws.com/role-arn=arn", false),
        ("--sa-annotations=iam.gke.io/gcp-service-account=velero@project", false),
        ("--sa-annotations=azure.workload.identity/client-id=1", false),
        ("--service-account-name=mine", false),
    ] {
        let arguments = parsed(&["--use-node-agent", flag]);
        let (files, existing) = (Files::default(), Existing::default());
        let installation = Installation { namespace: "velero", arguments: &arguments, files, existing };
        let (made, left) = (movers(&resources(&installation)), movers(&left_out(&installation)));
        assert_eq!(made.is_empty(), !has_account, "{flag}: {made:?}");
        assert_eq!([made, left].concat(), all, "{flag}: what an earlier installation made is to go");
    }
    assert!(movers(&built(&["--sa-annotations=eks.amazonaws.com/role-arn=arn"], Existing::default())).is_empty());
}

#[test]
fn flags_that_contradict_each_other_are_named() {
    let cases: [(&[&str], &str); 22] = [
        (&["--provider=tape", "--bucket=b", "--no-secret"], "--plugins"),
        (&["--provider=aws", "--no-secret"], "--bucket is required"),
        (&["--bucket=my-bucket"], "--provider is required"),
        (&["--provider=aws", "--bucket=-x", "--no-secret"], "dash"),
        (&["--provider=aws", "--bucket", "--no-secret"], "dash"),
        (&["--provider=aws", "--bucket=a/b", "--no-secret"], "--prefix"),
        (&["--provider=azure", "--bucket=ab", "--no-secret"], "3 to 63"),
        (&["--provider=gcp", "--bucket=my bucket", "--no-secret"], "not the name of a bucket"),
        (&["--provider=aws", "--bucket=my-bucket"], "--no-secret is required"),
        (&["--secret-file=x", "--no-secret"], "both --secret-file and --no-secret"),
        (&["--no-default-backup-location", "--prefix=p"], "--prefix"),
        (&["--provider=fs", "--backup-location-config=path=/etc"], "/backups"),
        (&["--use-volume-snapshots=false", "--snapshot-location-config=a=b"], "must be empty"),
        (&["--use-node-agent-windows"], "not supported"),
        (&["--default-volumes-to-fs-backup", "--dry-run"], "--use-node-agent is required"),
        (&["--garbage-collection-frequency=-1h"], "non-negative"),
        (&["--velero-pod-mem-limit=lots"], "--velero-pod-mem-limit"),
        (&["--uploader-type=restic"], "kopia"),
        (&["--web-tls-secret=page"], "--web"),
        (&["--web", "--web-trusted-user-header=X-User"], "--web-tls-secret"),
        (&["--web", "--web-tls-secret=page", "--web-trusted-groups-header=X-Groups"], "web-trusted-user-header"),
        (&["--web", "--web-tls-secret=page", "--web-trusted-user-header=two words"], "no name of a header"),
    ];
    for (flags, expected) in cases {
        let problem = check(&parsed(flags)).expect_err(&flags.join(" ")).to_string();
        assert!(problem.contains(expected), "{flags:?}: {problem}");
    }
}

#[test]
fn a_bucket_is_looked_at_where_the_server_will_open_it_without_a_plugin_and_with_keys() {
    for (flags, expected) in [
        (&BUCKET[..], Some("my-bucket")),
        (&[], None),
        (&["--provider=aws", "--bucket=my-bucket", "--no-secret"], None),
        (&["--provider=fs", "--bucket=my-bucket", "--secret-file=keys"], None),
        (&["--provider=example.io/own", "--bucket=b", "--secret-file=keys", "--plugins=a/b:v1"], None),
        (&["--no-default-backup-location", "--secret-file=keys"], None),
        (&["--crds-only", "--provider=aws", "--bucket=my-bucket", "--secret-file=keys"], None),
    ] {
        let arguments = parsed(flags);
        let secret = arguments.storage.secret_file.as_ref().map(|_| b"keys".to_vec());
        let files = Files { secret, certificate: None };
        let existing = Existing::default();
        let installation = Installation { namespace: "velero", arguments: &arguments, files, existing };
        assert_eq!(bucket(&installation).map(|config| config.bucket).as_deref(), expected, "{flags:?}");
    }
}

#[test]
fn several_servers_are_spread_replaced_one_by_one_and_not_all_evicted_at_once() {
    let one = built(&BUCKET, Existing::default());
    let spec = &find(&one, "Deployment").object["spec"];
    assert_eq!((&spec["strategy"]["type"], &spec["replicas"]), (&json!("Recreate"), &Value::Null));
    assert!(!kinds(&one).contains(&"PodDisruptionBudget/velero".to_owned()), "it would keep nodes from being emptied");

    let two = built(&[&BUCKET[..], &["--replicas=2"]].concat(), Existing::default());
    let spec = &find(&two, "Deployment").object["spec"];
    assert_eq!((&spec["strategy"]["type"], &spec["replicas"]), (&json!("RollingUpdate"), &json!(2)));
    let spread = &spec["template"]["spec"]["topologySpreadConstraints"][0];
    assert_eq!(spread["labelSelector"]["matchLabels"], json!({"deploy": "velero"}));
    assert_eq!(spread["whenUnsatisfiable"], "ScheduleAnyway", "two servers on one node are better than one");
    let budget = &find(&two, "PodDisruptionBudget").object["spec"];
    assert_eq!(budget["maxUnavailable"], 1);
    assert_eq!(budget["selector"]["matchLabels"], spec["selector"]["matchLabels"]);
}

#[test]
fn a_number_of_servers_without_a_use_is_refused() {
    let refusal = |flags: &[&str]| {
        let arguments = parsed(flags);
        let installation = Installation {
            namespace: "velero",
            arguments: &arguments,
            files: Files::default(),
            existing: Existing::default(),
        };
        check(&arguments).and_then(|()| check_existing(&installation)).err().map(|error| error.to_string())
    };
    for (replicas, words) in [("0", Some("nobody would back up")), ("3", None), ("5", Some("use at most 3"))] {
        let refused = refusal(&[&BUCKET[..], &["--replicas", replicas]].concat());
        assert_eq!(refused.is_some(), words.is_some(), "{replicas}: {refused:?}");
        assert!(refused.unwrap_or_default().contains(words.unwrap_or_default()), "{replicas}");
    }
    assert_eq!(refusal(&["--replicas=1"]), None);
    let on_volume = refusal(&["--replicas=2"]).unwrap();
    assert!(on_volume.contains("PersistentVolumeClaim velero-backups"), "{on_volume}");
}

#[test]
fn the_image_is_our_own_and_the_chart_names_the_same() {
    let image = default_image();
    let (repository, tag) = image.rsplit_once(':').unwrap();
    assert_eq!((repository, tag), ("ghcr.io/velero-rust/velero", crate::version::VERSION));
    let chart = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/chart/velero");
    let read = |file: &str| std::fs::read_to_string(chart.join(file)).unwrap();
    assert!(
        read("values.yaml").contains(&format!("\nimage:\n  repository: {repository}\n")),
        "values.yaml names another image"
    );
    assert!(read("Chart.yaml").contains(&format!("\nappVersion: {tag}\n")), "Chart.yaml names another version");
}

#[test]
fn the_page_is_served_only_where_it_is_asked_for() {
    let of = |flags: &[&str]| {
        let resources = built(flags, Existing::default());
        let container = find(&resources, "Deployment").object["spec"]["template"]["spec"]["containers"][0].clone();
        let admitted =
            find(&resources, "NetworkPolicy").object["spec"]["ingress"][0]["ports"].as_array().unwrap().len();
        let addresses =
            container["args"].as_array().unwrap().iter().filter(|flag| **flag == "--web-address=:8086").count();
        (addresses, container["ports"].as_array().unwrap().len(), admitted)
    };
    assert_eq!(of(&[]), (0, 1, 1));
    assert_eq!(of(&["--web"]), (1, 2, 2));
}

#[test]
fn a_proxy_is_trusted_only_where_it_is_asked_for() {
    let of = |flags: &[&str]| {
        let resources = built(flags, Existing::default());
        let spec = find(&resources, "Deployment").object["spec"]["template"]["spec"].clone();
        let flags: Vec<String> = serde_json::from_value(spec["containers"][0]["args"].clone()).unwrap();
        let flags: Vec<String> = flags.into_iter().filter(|flag| flag.starts_with("--web-")).collect();
        let secrets = spec["volumes"].as_array().unwrap().iter().filter(|volume| volume["name"] == "web-tls").count();
        let impersonates = find(&resources, "ClusterRole").object.to_string().contains("impersonate");
        (flags, secrets, impersonates)
    };
    let (flags, secrets, impersonates) = of(&["--web"]);
    assert_eq!((flags.len(), secrets, impersonates), (1, 0, false));
    let (flags, secrets, impersonates) = of(&["--web", "--web-tls-secret=page"]);
    assert_eq!(flags, ["--web-address=:8086", "--web-tls-cert=/web-tls/tls.crt", "--web-tls-key=/web-tls/tls.key"]);
    assert_eq!((secrets, impersonates), (1, false));
    let trusting = ["--web", "--web-tls-secret=page", "--web-trusted-user-header=X-User"];
    let (flags, _, impersonates) = of(&trusting);
    assert_eq!(flags[3..], ["--web-client-ca=/web-tls/ca.crt", "--web-trusted-user-header=X-User"]);
    assert!(impersonates);
}
