//! `velero install`

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::server_flags::ServerFlags;
use super::values::{KeyValues, OptionalBool, StringList};

/// `velero install`
#[derive(Args, Clone, Debug)]
pub(crate) struct InstallArguments {
    #[command(flatten)]
    pub(crate) run: InstallRunArguments,

    #[command(flatten)]
    pub(crate) storage: StorageArguments,

    #[command(flatten)]
    pub(crate) pod: PodArguments,

    #[command(flatten)]
    pub(crate) server: InstallServerArguments,

    #[command(flatten)]
    pub(crate) node_agent: NodeAgentArguments,
}

/// What the command does with the resources.
#[derive(Args, Clone, Debug)]
pub(crate) struct InstallRunArguments {
    /// Only generate CustomResourceDefinition resources. Useful for updating an existing installation
    #[arg(long)]
    pub(crate) crds_only: bool,

    /// Generate resources, but don't send them to the cluster. Use with -o
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Apply every resource, existing locations and Secrets included
    #[arg(long)]
    pub(crate) apply: bool,

    /// Wait for the Velero deployment to be ready
    #[arg(long)]
    pub(crate) wait: bool,

    /// Replace the Deployment of another Velero in the namespace; its custom resources stay
    #[arg(long)]
    pub(crate) force: bool,

    /// Create NetworkPolicies that admit connections to the port of metrics, health and downloads alone [default: true]
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) network_policy: OptionalBool,

    /// Output display format: json or yaml. The resources are sent too, unless with --dry-run
    #[arg(short, long)]
    pub(crate) output: Option<String>,
}

/// Where backups go.
#[derive(Args, Clone, Debug)]
pub(crate) struct StorageArguments {
    /// Provider name for backup and volume storage: aws, azure, gcp, fs, or that of a plugin. Without it and without
    /// --bucket, backups go to a PersistentVolumeClaim
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) provider: String,

    /// Name of the object storage bucket where backups should be stored
    #[arg(long, default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    pub(crate) bucket: String,

    /// Prefix under which all Velero data should be stored within the bucket
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,

    /// Use the bucket and prefix though another cluster has written backups there in the last 30 days: one that is gone, or that
    /// is meant to share them
    #[arg(long)]
    pub(crate) share_bucket: bool,

    /// File containing credentials for backup and volume provider. If not specified, --no-secret must be used for
    /// confirmation
    #[arg(long)]
    pub(crate) secret_file: Option<PathBuf>,

    /// No Secret is needed. Must be used as confirmation if --secret-file is not provided
    #[arg(long)]
    pub(crate) no_secret: bool,

    /// Create no default backup location
    #[arg(long)]
    pub(crate) no_default_backup_location: bool,

    /// Configuration to use for the backup storage location: key1=value1,key2=value2
    #[arg(long, action = ArgAction::Append)]
    pub(crate) backup_location_config: Vec<KeyValues>,

    /// Configuration to use for the volume snapshot location: key1=value1,key2=value2
    #[arg(long, action = ArgAction::Append)]
    pub(crate) snapshot_location_config: Vec<KeyValues>,

    /// Create a volume snapshot location for the provider [default: true with --plugins]
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) use_volume_snapshots: OptionalBool,

    /// File containing a certificate bundle to use when verifying TLS connections to the object store
    #[arg(long)]
    pub(crate) cacert: Option<PathBuf>,

    /// Size of the PersistentVolumeClaim for backups, where they go to one
    #[arg(long, default_value = "10Gi")]
    pub(crate) backup_volume_size: String,

    /// Storage class of the PersistentVolumeClaim for backups; by default that of the cluster
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) backup_volume_storage_class: String,
}

/// The pod of the server.
#[derive(Args, Clone, Debug)]
pub(crate) struct PodArguments {
    /// Image to use for the Velero and node agent pods
    #[arg(long, default_value_t = crate::install::default_image())]
    pub(crate) image: String,

    /// How many servers run, at most 3: one works, the others wait and take over when it ends
    #[arg(long, default_value = "1")]
    pub(crate) replicas: u32,

    /// Plugin container images to install into the Velero Deployment
    #[arg(long)]
    pub(crate) plugins: Option<StringList>,

    /// Annotations to add to the Velero and node agent pods: key1=value1,key2=value2
    #[arg(long, action = ArgAction::Append)]
    pub(crate) pod_annotations: Vec<KeyValues>,

    /// Labels to add to the Velero and node agent pods: key1=value1,key2=value2
    #[arg(long, action = ArgAction::Append)]
    pub(crate) pod_labels: Vec<KeyValues>,

    /// Annotations to add to the Velero ServiceAccount: key1=value1,key2=value2
    #[arg(long, action = ArgAction::Append)]
    pub(crate) sa_annotations: Vec<KeyValues>,

    /// An existing ServiceAccount, with rights, to run as; none is created then
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) service_account_name: String,

    /// Give the server all rights in the cluster instead of those it needs
    #[arg(long)]
    pub(crate) cluster_admin: bool,

    /// CPU request for Velero pod; 0 is unbounded
    #[arg(long, default_value = "500m")]
    pub(crate) velero_pod_cpu_request: String,

    /// Memory request for Velero pod; 0 is unbounded
    #[arg(long, default_value = "128Mi")]
    pub(crate) velero_pod_mem_request: String,

    /// CPU limit for Velero pod; 0 is unbounded
    #[arg(long, default_value = "1000m")]
    pub(crate) velero_pod_cpu_limit: String,

    /// Memory limit for Velero pod; 0 is unbounded
    #[arg(long, default_value = "512Mi")]
    pub(crate) velero_pod_mem_limit: String,

    /// Priority class name for the Velero server deployment
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) server_priority_class_name: String,
}

/// What the server is to do.
#[derive(Args, Clone, Debug)]
pub(crate) struct InstallServerArguments {
    /// Comma separated list of features to set on the Velero deployment
    // The command line has a flag of the same name for all commands, with another meaning.
    #[arg(long)]
    pub(crate) features: Option<StringList>,

    /// Use early frequent polling for all CSI snapshots: for plugins, the server itself does not need it
    #[arg(long)]
    pub(crate) csi_snapshot_early_frequent_polling: bool,

    /// Serve the page too; `velero web` opens it
    #[arg(long)]
    pub(crate) web: bool,

    #[command(flatten)]
    pub(crate) page: PageArguments,

    #[command(flatten)]
    pub(crate) flags: ServerFlags,
}

/// How the page is encrypted, and which proxy is believed.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PageArguments {
    /// Secret of the namespace with tls.crt and tls.key for the page, and ca.crt where a proxy is trusted
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) web_tls_secret: String,

    /// Header in which a proxy in front of the page says who asks: it must show a certificate of ca.crt, and the server gets the
    /// right to impersonate users and groups
    #[arg(long)]
    pub(crate) web_trusted_user_header: Option<String>,

    /// Header in which that proxy names the groups of who asks
    #[arg(long)]
    pub(crate) web_trusted_groups_header: Option<String>,
}

/// The agents on the nodes.
#[derive(Args, Clone, Debug)]
pub(crate) struct NodeAgentArguments {
    /// Create the node-agent daemonset: what copies volumes of pods and moves snapshots
    #[arg(long)]
    pub(crate) use_node_agent: bool,

    /// Show the node-agent-windows daemonset, only with --dry-run: there is no image for Windows
    #[arg(long)]
    pub(crate) use_node_agent_windows: bool,

    /// Use privileged mode for the node agent. Required to back up block devices
    #[arg(long)]
    pub(crate) privileged_node_agent: bool,

    /// CPU request for node-agent pod; 0 is unbounded
    #[arg(long, default_value = "0")]
    pub(crate) node_agent_pod_cpu_request: String,

    /// Memory request for node-agent pod; 0 is unbounded
    #[arg(long, default_value = "0")]
    pub(crate) node_agent_pod_mem_request: String,

    /// CPU limit for node-agent pod; 0 is unbounded
    #[arg(long, default_value = "0")]
    pub(crate) node_agent_pod_cpu_limit: String,

    /// Memory limit for node-agent pod; 0 is unbounded
    #[arg(long, default_value = "0")]
    pub(crate) node_agent_pod_mem_limit: String,

    /// Kubelet root directory for the node agent
    #[arg(long, default_value = "/var/lib/kubelet")]
    pub(crate) kubelet_root_dir: String,

    /// Don't mount the pod volume host path to node-agent
    #[arg(long)]
    pub(crate) node_agent_disable_host_path: bool,

    /// ConfigMap with node-agent configurations
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) node_agent_configmap: String,

    /// Priority class name for the node agent daemonset
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) node_agent_priority_class_name: String,
}
