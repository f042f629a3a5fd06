//! What messages can come from. The first that fits counts, so what is more exact comes first.

use super::Known;

pub(super) const KNOWN: &[Known] = &[
    Known {
        signs: &[&["in-cluster version is different"]],
        cause: "The object exists already and differs from the backup; it was left as it is",
        remedy: "restore with --existing-resource-policy update, into another namespace with --namespace-mappings, or delete the \
                 object first",
    },
    Known {
        signs: &[&["because it is being terminated"], &["namespace", "terminating"]],
        cause: "The namespace is being deleted",
        remedy: "wait until it is gone (what keeps it is in its conditions), then restore again",
    },
    Known {
        signs: &[&["exceeded quota"]],
        cause: "A ResourceQuota of the namespace is used up",
        remedy: "raise the quota or remove what is not needed, then restore again, or with --resume",
    },
    Known {
        signs: &[&["violates podsecurity"]],
        cause: "Pod Security of the namespace does not admit the pod",
        remedy: "set the label pod-security.kubernetes.io/enforce of the namespace as in the old cluster, or change the pod with a \
                 resource modifier",
    },
    Known {
        signs: &[&["failed calling webhook"], &["failed to call webhook"]],
        cause: "An admission webhook does not answer",
        remedy: "see that the service of the webhook runs, or restore without its configuration first; then restore with --resume",
    },
    Known {
        signs: &[&["admission webhook", "denied"], &["validatingadmissionpolicy"]],
        cause: "An admission webhook or policy refuses the object",
        remedy: "change the object with a resource modifier, or exempt the namespace while it is restored",
    },
    Known {
        signs: &[&["provided port is already allocated"]],
        cause: "The node port is taken by another Service",
        remedy: "restore without --preserve-nodeports, or change the port with a resource modifier",
    },
    Known {
        signs: &[&["provided ip is already allocated"]],
        cause: "The address is taken by another Service",
        remedy: "delete the other Service, or remove spec.clusterIP with a resource modifier",
    },
    Known {
        signs: &[&["field is immutable"], &["updates to", "are forbidden"], &["may not be changed"]],
        cause: "A field differs that cannot be changed in an existing object",
        remedy: "delete the object in the cluster first, or restore into another namespace",
    },
    Known {
        signs: &[&["is forbidden", "cannot"], &["grant this permission"], &["unauthorized"]],
        cause: "The account that did the work lacks a right",
        remedy: "grant the service account of the server the right that the message names; `velero install` binds it to \
                 cluster-admin",
    },
    Known {
        signs: &[&["no node agent"], &["there are no node agents"], &["daemonset pod not found"]],
        cause: "No node agent runs where the volume is",
        remedy: "install node agents (`velero install --use-node-agent`), and see that DaemonSet node-agent has a running pod on \
                 that node",
    },
    Known {
        signs: &[&["only the volumes of a running pod"], &["pod is not in the expected status"]],
        cause: "The pod does not run, so its volumes cannot be copied",
        remedy: "start the pod, or leave its volumes out with annotation backup.velero.io/backup-volumes-excludes",
    },
    Known {
        signs: &[&["volumesnapshotclass"], &["volumegroupsnapshotclass"]],
        cause: "There is no single VolumeSnapshotClass for the driver of the volume",
        remedy: "create one, and where there are several, label one velero.io/csi-volumesnapshot-class=true",
    },
    Known {
        signs: &[&["csi-snapshot-timeout"], &["volumesnapshot", "timed out"], &["volumesnapshot", "not ready"]],
        cause: "The storage driver did not take a snapshot in time",
        remedy: "look at the VolumeSnapshotContent and the log of the driver; --csi-snapshot-timeout gives it more time",
    },
    Known {
        signs: &[&["dataupload"], &["datadownload"], &["data mover"]],
        cause: "Moving the data of a volume failed",
        remedy: "describe the DataUpload or DataDownload in the namespace of the server, and look at the log of the node agent on \
                 its node",
    },
    Known {
        signs: &[&["podvolumebackup"], &["podvolumerestore"], &["data of volume", "is not restored"]],
        cause: "Copying the files of a volume failed",
        remedy: "describe the PodVolumeBackup or PodVolumeRestore in the namespace of the server, and look at the log of the node \
                 agent on its node",
    },
    Known {
        signs: &[&["operation", "timed out"], &["item-operation-timeout"], &["asynchronous action timed out"]],
        cause: "An operation of a plugin did not end in time",
        remedy: "look at what the plugin waits for; --item-operation-timeout gives it more time",
    },
    Known {
        signs: &[&["executing hook"], &["pre hooks"], &["post hooks"], &["hook", "exit code"], &["hook", "failed"]],
        cause: "A hook in a container failed",
        remedy: "run the command of the hook in the container by hand; the log has what it wrote, and its timeout and onError are \
                 set where the hook is",
    },
    Known {
        signs: &[&["nosuchbucket"], &["bucket does not exist"], &["containernotfound"]],
        cause: "The bucket of the location is not there",
        remedy: "`velero backup-location check` tells which one was looked for; create it or correct the location",
    },
    Known {
        signs: &[
            &["accessdenied"],
            &["access denied"],
            &["invalidaccesskeyid"],
            &["signaturedoesnotmatch"],
            &["authenticationfailed"],
            &["expiredtoken"],
        ],
        cause: "The object store or cloud refuses the credentials",
        remedy: "`velero backup-location check` tries them out right by right; correct the Secret of the location",
    },
    Known {
        signs: &[&["requesttimetooskewed"]],
        cause: "The clocks of the server and of the object store differ",
        remedy: "let the nodes of the cluster synchronise their clocks",
    },
    Known {
        signs: &[&["certificate", "unknown"], &["invalid peer certificate"], &["x509"]],
        cause: "A certificate is not trusted",
        remedy: "set the certificate bundle of the location (`velero backup-location set --cacert`)",
    },
    Known {
        signs: &[&["no space left"], &["disk quota exceeded"], &["storagefull"], &["notenoughspace"]],
        cause: "A disk or store is full",
        remedy: "make room, or let backups expire sooner (--ttl), then take the backup again",
    },
    Known {
        signs: &[&["invalid repository password"], &["repository", "password"]],
        cause: "The password of the repository is not the one it was made with",
        remedy: "put the old password back into Secret velero-repo-credentials",
    },
    Known {
        signs: &[
            &["was interrupted"],
            &["server was stopped"],
            &["with status \"inprogress\" during the server starting"],
        ],
        cause: "The server ended while it worked",
        remedy: "see why it ended (`velero server status`, `kubectl describe pod`); take the backup again, or restore with --resume",
    },
    Known {
        signs: &[&["cancelled"], &["canceled"]],
        cause: "Somebody cancelled it",
        remedy: "nothing, if that was meant; a restore goes on with --resume",
    },
    Known {
        signs: &[&["the claim has no volume"]],
        cause: "The claim is not bound, so there is no data to back up",
        remedy: "nothing, if nothing uses it yet; otherwise see in its events why it gets no volume",
    },
    Known {
        signs: &[&["fail to get the namespace"], &["namespace", "specified in backup.spec.includednamespaces"]],
        cause: "A namespace that was asked for is not there",
        remedy: "correct the list of namespaces of the backup or schedule",
    },
    Known {
        signs: &[
            &["no matches for kind"],
            &["could not find the requested resource"],
            &["does not serve"],
            &["cannot find resource"],
            &["the crd", "is not available"],
        ],
        cause: "The cluster does not know the type",
        remedy: "install what brings its CustomResourceDefinition first, or correct the list of resources; then restore with --resume",
    },
    Known {
        signs: &[
            &["did not answer"],
            &["etcdserver"],
            &["too many requests"],
            &["deadline exceeded"],
            &["connection refused"],
            &["connection reset"],
            &["no such host"],
            &["i/o timeout"],
        ],
        cause: "Something that was asked did not answer",
        remedy: "see that what the message names is up and can be reached from the server, then try again",
    },
    Known {
        signs: &[&["is invalid"]],
        cause: "The API server refuses a field of the object",
        remedy: "change the field that the message names with a resource modifier",
    },
    Known {
        signs: &[&["was not found in kubernetes api"], &["not found"]],
        cause: "An object that another one names is not there",
        remedy: "nothing, if it was deleted meanwhile; otherwise see who should have made it",
    },
    Known {
        signs: &[&["is not backed up"]],
        cause: "The data of a volume is not in the backup",
        remedy: "the message says what stands against it; a resource policy or an annotation says which volumes are wanted",
    },
];
