use super::*;

/// Messages as they are written: by backups and restores of ours, by those of Velero, by API servers, stores and drivers.
const MESSAGES: &[(&str, &str, &str, &str)] = &[
    (
        "shop",
        "could not restore, ConfigMap:settings already exists. Warning: the in-cluster version is different than the backed-up version",
        "ConfigMap shop/settings",
        "exists already",
    ),
    (
        "shop",
        "could not restore, ConfigMap \"settings\" already exists. Warning: the in-cluster version is different than the backed-up version",
        "ConfigMap shop/settings",
        "exists already",
    ),
    (
        "shop",
        "error restoring pods/shop/web: pods \"web\" is forbidden: exceeded quota: all, requested: pods=1, used: pods=4, limited: pods=4",
        "pods shop/web",
        "ResourceQuota",
    ),
    (
        "shop",
        "error restoring pods/shop/web: pods \"web\" is forbidden: violates PodSecurity \"restricted:latest\": privileged",
        "pods shop/web",
        "Pod Security",
    ),
    (
        "shop",
        "error restoring services/shop/web: Internal error occurred: failed calling webhook \"check.acme.io\": connection refused",
        "services shop/web",
        "webhook does not answer",
    ),
    (
        "shop",
        "error restoring services/shop/web: admission webhook \"check.acme.io\" denied the request: no owner",
        "services shop/web",
        "refuses the object",
    ),
    (
        "shop",
        "error restoring services/shop/web: Service \"web\" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated",
        "services shop/web",
        "node port",
    ),
    (
        "",
        "error restoring storageclasses.storage.k8s.io/fast: StorageClass \"fast\" is invalid: provisioner: Required value",
        "storageclasses.storage.k8s.io fast",
        "refuses a field",
    ),
    (
        "shop",
        "error restoring deployments.apps/shop/web: Deployment.apps \"web\" is invalid: spec.selector: Invalid value: field is immutable",
        "deployments.apps shop/web",
        "cannot be changed",
    ),
    (
        "",
        " resource: /secrets message: /Error listing items error: /secrets is forbidden: User \"system:serviceaccount:velero:velero\" cannot list resource \"secrets\"; grant this permission to the account in use",
        "secrets",
        "lacks a right",
    ),
    (
        "shop",
        " resource: /pods name: /web message: /The data of volume data of pod shop/web is not backed up: there are no node agents in namespace velero; install them",
        "pods shop/web",
        "No node agent",
    ),
    (
        "shop",
        " resource: /persistentvolumeclaims name: /orders message: /Error backing up item error: /no VolumeSnapshotClass has the driver disk.csi.acme.io; create one",
        "persistentvolumeclaims shop/orders",
        "VolumeSnapshotClass",
    ),
    (
        "shop",
        " resource: /pods name: /db-0 message: /Error executing hook error: /command [\"fsfreeze\"] ended with exit code 1",
        "pods shop/db-0",
        "A hook",
    ),
    (
        "",
        " message: /Backup failed error: /could not put \"backups/b/b.tar.gz\": AccessDenied: no",
        "",
        "refuses the credentials",
    ),
    (
        "shop",
        " resource: /persistentvolumeclaims name: /new message: /The claim has no volume (it is Pending), so the backup has no data of it",
        "persistentvolumeclaims shop/new",
        "not bound",
    ),
    ("", "the CRD queues.acme.io is not available to use for custom resources: timeout", "", "does not know the type"),
    (
        "shop",
        " resource: /pods name: /web message: /Additional item was not found in Kubernetes API, can't back it up",
        "pods shop/web",
        "is not there",
    ),
];

#[test]
fn each_message_has_its_object_its_cause_and_a_remedy() {
    for (namespace, message, object, cause) in MESSAGES {
        let mut results = Results::default();
        results.add(namespace, *message);
        let groups = grouped(&results);
        assert_eq!(groups.len(), 1, "{message}");
        let group = &groups[0];
        assert!(group.cause.contains(cause), "{message}\n{}", group.cause);
        assert!(group.remedy.is_some_and(|remedy| !remedy.is_empty()), "{message}");
        assert_eq!(group.objects.first().map_or("", String::as_str), *object, "{message}");
        assert_eq!((group.count, group.example.as_str()), (1, message.trim()));
    }
}

#[test]
fn messages_of_one_cause_come_together_with_the_most_first() {
    let mut results = Results::default();
    results.add_velero("something odd at 12:04 in \"one\"");
    for name in ["a", "b", "b"] {
        results.add("shop", format!("error restoring configmaps/shop/{name}: etcdserver: request timed out"));
    }
    results.add("yard", "something odd at 12:05 in \"another\"");
    results.add("yard", "something else");
    let groups = grouped(&results);
    assert_eq!(groups.iter().map(|group| group.count).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!(groups[0].objects, ["configmaps shop/a", "configmaps shop/b"]);
    assert_eq!((groups[1].cause.as_str(), groups[1].remedy), ("something odd at 12:04 in \"one\"", None));
    assert_eq!(groups[1].objects, ["yard"]);
    let messages: usize = groups.iter().map(|group| group.count).sum();
    assert_eq!(messages, results.len(), "no message is lost");
}

#[test]
fn nothing_gives_nothing_and_odd_messages_do_no_harm() {
    assert_eq!(grouped(&Results::default()), []);
    let mut results = Results::default();
    let odd =
        ["", "\"", "resource: /", "error restoring : ", "could not restore, already exists", "ä".repeat(9000).leak()];
    for message in odd {
        results.add_velero(message);
        results.add("shop", message);
    }
    let groups = grouped(&results);
    assert_eq!(groups.iter().map(|group| group.count).sum::<usize>(), 12);
    assert!(groups.iter().all(|group| group.cause.chars().count() <= LONGEST + 1));
}

#[test]
fn every_sign_is_in_small_letters_so_that_it_can_be_found() {
    for known in KNOWN {
        assert!(!known.signs.is_empty(), "{}", known.cause);
        for sign in known.signs.iter().copied().flatten() {
            assert_eq!(*sign, sign.to_lowercase(), "{}", known.cause);
        }
    }
}
