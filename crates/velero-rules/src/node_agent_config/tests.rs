use super::*;

fn parse(text: &str) -> Result<NodeAgentConfig, ConfigError> {
    NodeAgentConfig::parse(&BTreeMap::from([("config.json".to_owned(), text.to_owned())]))
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn what_velero_documents_is_read() {
    let config = parse(
        r#"{
        "loadConcurrency": {"globalConfig": 2, "prepareQueueLength": 10, "perNodeConfig": [
            {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "n1"}}, "number": 3},
            {"nodeSelector": {"matchExpressions": [{"key": "cores", "operator": "In", "values": ["16"]}]}, "number": 5}]},
        "loadAffinity": [
            {"nodeSelector": {"matchLabels": {"zone": "a"}}, "storageClass": "fast"},
            {"nodeSelector": {"matchLabels": {"zone": "b"}}}],
        "backupPVC": {"fast": {"storageClass": "copy", "readOnly": true, "spcNoRelabeling": true,
            "annotations": {"a": "b"}, "secretNames": ["s"], "configMapNames": ["c"]}},
        "restorePVC": {"ignoreDelayBinding": true, "secretNames": ["s"]},
        "podResources": {"cpuRequest": "100m", "cpuLimit": "1", "memoryRequest": "0", "memoryLimit": "512Mi"},
        "priorityClassName": "low", "privilegedFsBackup": true,
        "cachePVC": {"storageClass": "fast", "residentThresholdInMB": 1024},
        "podAnnotations": {"x": "y"}, "podLabels": {"team": "storage"}, "later": 1}"#,
    )
    .unwrap();
    assert_eq!(config.load_concurrency.prepare_queue_length, 10);
    assert_eq!(config.backup_claim("fast").storage_class, "copy");
    assert!(config.backup_claim("fast").no_relabeling && config.restore_claims.ignore_delay_binding);
    assert_eq!(config.backup_claim("slow"), BackupClaim { storage_class: "slow".to_owned(), ..Default::default() });
    assert_eq!(config.pod_resources.requests, labels(&[("cpu", "100m")]));
    assert_eq!(config.pod_resources.limits, labels(&[("cpu", "1"), ("memory", "512Mi")]));
    assert!(config.privileged_fs_backup && config.priority_class_name == "low");
    assert_eq!((config.pod_labels, config.pod_annotations), (labels(&[("team", "storage")]), labels(&[("x", "y")])));
    assert_eq!(config.unknown, ["later"]);
    assert_eq!(parse("{}").unwrap(), NodeAgentConfig::default());
}

#[test]
fn a_misspelled_key_is_named_wherever_it_stands() {
    let config = parse(
        r#"{
        "loadConcurrency": {"globalConfg": 2, "perNodeConfig": [
            {"number": 1, "nodeSelector": {"matchLabels": {"any": "label"}}},
            {"number": 1, "selector": {}, "nodeSelector": {"matchLabel": {"zone": "a"}}}]},
        "loadAffinity": [{"nodeSelector": {}, "storageclass": "fast"}],
        "backupPVC": {"any-class": {"readonly": true, "annotations": {"any": "thing"}}},
        "restorePVC": {"ignoreDelayBind": true},
        "podResources": {"cpu": "1"},
        "cachePVC": {"storageClass": "fast", "residentThreshold": 1},
        "podLabels": {"any": "label"}, "podAnnotations": {"any": "thing"}, "loadconcurrency": {}}"#,
    )
    .unwrap();
    let expected = [
        "backupPVC.any-class.readonly",
        "cachePVC.residentThreshold",
        "loadAffinity[0].storageclass",
        "loadConcurrency.globalConfg",
        "loadConcurrency.perNodeConfig[1].nodeSelector.matchLabel",
        "loadConcurrency.perNodeConfig[1].selector",
        "loadconcurrency",
        "podResources.cpu",
        "restorePVC.ignoreDelayBind",
    ];
    let mut found = config.unknown;
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn nonsense_is_refused_and_named() {
    for (text, expected) in [
        ("", "config.json"),
        ("[]", "config.json"),
        ("{\"loadConcurrency\": 3}", "loadConcurrency"),
        ("{\"loadConcurrency\": {\"globalConfig\": -1}}", "loadConcurrency"),
        ("{\"loadConcurrency\": {\"perNodeConfig\": [{\"number\": 0}]}}", "loadConcurrency.perNodeConfig[0].number"),
        (
            "{\"loadConcurrency\": {\"perNodeConfig\": [{\"number\": 1, \"nodeSelector\": {\"matchExpressions\": \
             [{\"key\": \"a\", \"operator\": \"Near\"}]}}]}}",
            "loadConcurrency.perNodeConfig[0].nodeSelector",
        ),
        ("{\"loadAffinity\": {}}", "loadAffinity"),
        (
            "{\"loadAffinity\": [{\"nodeSelector\": {\"matchLabels\": {\"a b\": \"c\"}}}]}",
            "loadAffinity[0].nodeSelector",
        ),
        ("{\"backupPVC\": {\"fast\": {\"readOnly\": \"yes\"}}}", "backupPVC"),
        ("{\"podResources\": {\"cpuLimit\": \"many\"}}", "podResources.cpuLimit"),
        ("{\"podResources\": {\"memoryRequest\": \"-1\"}}", "podResources.memoryRequest"),
        ("{\"podResources\": {\"memoryRequest\": \"2Gi\", \"memoryLimit\": \"1Gi\"}}", "podResources.memoryRequest"),
        ("{\"podResources\": {\"ephemeralStorageLimit\": \"x\"}}", "podResources.ephemeralStorageLimit"),
        ("{\"cachePVC\": {}}", "cachePVC.storageClass"),
        ("{\"cachePVC\": {\"storageClass\": \"a\", \"residentThresholdInMB\": -5}}", "cachePVC.residentThresholdInMB"),
        ("{\"priorityClassName\": 1}", "priorityClassName"),
        ("{\"privilegedFsBackup\": \"true\"}", "privilegedFsBackup"),
        ("{\"podLabels\": {\"a\": \"b c\"}}", "podLabels"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    for keys in [0, 2] {
        let data = (0..keys).map(|key| (key.to_string(), "{}".to_owned())).collect();
        assert_eq!(NodeAgentConfig::parse(&data), Err(ConfigError::DataKeys { keys }));
    }
}

#[test]
fn the_smallest_number_of_the_rules_for_a_node_counts() {
    let rule = |selector: &str, number: usize| {
        format!("{{\"nodeSelector\": {{\"matchLabels\": {selector}}}, \"number\": {number}}}")
    };
    let (by_name, by_cores, all) = (rule("{\"name\": \"n1\"}", 3), rule("{\"cores\": \"16\"}", 2), rule("{}", 7));
    for (global, rules, node, expected) in [
        (0, vec![], vec![], 1),
        (4, vec![], vec![], 4),
        (4, vec![&by_name], vec![("name", "n2")], 4),
        (4, vec![&by_name], vec![("name", "n1")], 3),
        (1, vec![&by_name], vec![("name", "n1")], 3),
        (4, vec![&by_name, &by_cores], vec![("name", "n1"), ("cores", "16")], 2),
        (4, vec![&by_cores, &by_name], vec![("name", "n1"), ("cores", "16")], 2),
        (4, vec![&all], vec![], 7),
        (4, vec![&all, &by_name], vec![("name", "n1")], 3),
    ] {
        let rules: Vec<&str> = rules.into_iter().map(String::as_str).collect();
        let rules = rules.join(",");
        let config =
            parse(&format!("{{\"loadConcurrency\": {{\"globalConfig\": {global}, \"perNodeConfig\": [{rules}]}}}}"));
        assert_eq!(config.unwrap().concurrency(&labels(&node)), expected, "{global} {rules} {node:?}");
    }
}

#[test]
fn the_affinity_of_a_class_goes_before_that_of_all() {
    let config = parse(
        r#"{"loadAffinity": [{"nodeSelector": {"matchLabels": {"z": "first"}}},
        {"nodeSelector": {"matchLabels": {"z": "second"}}}, {"nodeSelector": {"matchLabels": {"z": "fast"}}, "storageClass": "fast"}]}"#,
    )
    .unwrap();
    let zone = |class: &str| config.affinity(class).unwrap().node_selector.match_labels.clone().unwrap();
    assert_eq!((zone("fast"), zone("slow")), (labels(&[("z", "fast")]), labels(&[("z", "first")])));
    assert!(NodeAgentConfig::default().affinity("fast").is_none());
}

#[test]
fn a_cache_is_as_large_as_its_limit_and_a_fifth() {
    let cache = CacheClaim { storage_class: "a".to_owned(), resident_threshold_in_mb: 1024 };
    for (snapshot, limit, expected) in [
        (0, 5000 << 20, Some(6 << 30)),
        (1 << 30, 5000 << 20, Some(6 << 30)),
        ((1 << 30) - 1, 5000 << 20, None),
        (1 << 40, 1 << 30, Some(2 << 30)),
    ] {
        assert_eq!(cache.size(snapshot, limit), expected, "{snapshot} {limit}");
    }
}
