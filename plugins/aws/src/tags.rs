//! The tags of snapshots and of the volumes made of them.

use std::collections::BTreeMap;

use crate::ec2::Tag;

/// How many tags a resource of AWS can have.
const MOST: usize = 50;

/// What the tags of AWS itself begin with; nobody else may set them.
const RESERVED: &str = "aws:";

const CLUSTER_PREFIX: &str = "kubernetes.io/cluster/";
const CLUSTER: &str = "KubernetesCluster";

/// The tags of a snapshot: those of the backup, then those of the volume that do not contradict them.
pub(crate) fn of_snapshot(backup: &BTreeMap<String, String>, volume: &[Tag]) -> Vec<Tag> {
    let own = backup.iter().map(|(key, value)| Tag::new(key, value));
    let copied = volume.iter().filter(|tag| !backup.contains_key(&tag.key)).cloned();
    allowed(own.chain(copied))
}

/// The tags of a volume made of a snapshot: those of the snapshot. Where the cluster has a name, the volume becomes its
/// own, whichever cluster the snapshot is from.
pub(crate) fn of_volume(snapshot: &[Tag], cluster: Option<&str>) -> Vec<Tag> {
    let owner = cluster.map(|name| [Tag::new(&format!("{CLUSTER_PREFIX}{name}"), "owned"), Tag::new(CLUSTER, name)]);
    let names_owner = |tag: &&Tag| tag.key.starts_with(CLUSTER_PREFIX) || tag.key == CLUSTER;
    let copied = snapshot.iter().filter(|tag| cluster.is_none() || !names_owner(tag)).cloned();
    allowed(owner.into_iter().flatten().chain(copied))
}

/// EC2 refuses the whole request for one tag that is reserved or too many.
fn allowed(tags: impl Iterator<Item = Tag>) -> Vec<Tag> {
    tags.filter(|tag| !tag.key.starts_with(RESERVED)).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Vec<Tag> {
        pairs.iter().map(|(key, value)| Tag::new(key, value)).collect()
    }

    #[test]
    fn a_snapshot_has_the_tags_of_the_backup_and_of_the_volume() {
        let backup = BTreeMap::from([("velero.io/backup".to_owned(), "new".to_owned())]);
        let volume = tags(&[("velero.io/backup", "old"), ("team", "shop"), ("aws:cloudformation:stack-name", "s")]);
        assert_eq!(of_snapshot(&backup, &volume), tags(&[("velero.io/backup", "new"), ("team", "shop")]));
    }

    #[test]
    fn no_more_tags_are_asked_for_than_ec2_takes() {
        let backup = BTreeMap::from([("velero.io/backup".to_owned(), "b".to_owned())]);
        let volume: Vec<_> = (0..50).map(|number| Tag::new(&format!("tag-{number}"), "")).collect();
        let found = of_snapshot(&backup, &volume);
        assert_eq!((found.len(), found[0].key.as_str()), (50, "velero.io/backup"));
    }

    #[test]
    fn a_volume_belongs_to_the_cluster_that_restores_it() {
        let snapshot = tags(&[("kubernetes.io/cluster/old", "owned"), ("KubernetesCluster", "old"), ("team", "shop")]);
        assert_eq!(of_volume(&snapshot, None), snapshot);
        let expected = [("kubernetes.io/cluster/new", "owned"), ("KubernetesCluster", "new"), ("team", "shop")];
        assert_eq!(of_volume(&snapshot, Some("new")), tags(&expected));
    }
}
