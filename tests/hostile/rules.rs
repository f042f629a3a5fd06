//! What users write into objects, ConfigMaps and flags, and what rules make of items from an archive.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use velero_api::GoDuration;
use velero_rules::cron::CronSchedule;
use velero_rules::hooks::parse_command;
use velero_rules::node_agent_config::NodeAgentConfig;
use velero_rules::quantity::Quantity;
use velero_rules::repository_config::{self, JobConfig};
use velero_rules::resource_modifiers::ResourceModifiers;
use velero_rules::resource_policies::{ResourcePolicies, VolumeData};
use velero_rules::selector::Selector;
use velero_rules::strategic_merge::strategic_merge;
use velero_rules::wildcard::{self, Wildcard};
use velero_rules::{names, pairs};
use velero_testkit::hostile::Parser;

fn parsers() -> Vec<Parser> {
    vec![
        Parser::of("policies", read_policies),
        Parser::of("modifiers", read_modifiers),
        Parser::of("cron", read_cron),
        Parser::of("selectors", read_selectors),
        Parser::of("wildcards", read_wildcards),
        Parser::of("node-agent-configuration", read_node_agent),
        Parser::of("maintenance-configuration", read_maintenance),
        // Durations, quantities, pairs, names.
        Parser::of("words", read_small),
        Parser::of("strategic-merge", read_merge),
    ]
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn config_map(bytes: &[u8]) -> BTreeMap<String, String> {
    BTreeMap::from([("config".to_owned(), text(bytes))])
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web-a", "namespace": "shop", "labels": {"app": "web", "x/y": "z"}, "annotations": {"foo": "1"}},
        "spec": {"replicas": 3, "template": {
            "metadata": {}, "spec": {"containers": [{"name": "web", "image": "i"}, {"name": "gone"}, {"name": "side"}]},
        }},
    })
}

fn read_policies(bytes: &[u8]) {
    let Ok(policies) = ResourcePolicies::from_config_map(&config_map(bytes)) else { return };
    let volume = json!({"spec": {"capacity": {"storage": "10Gi"}, "storageClassName": "gp2", "csi": {"driver": "d"}}});
    let _ = policies.volume_action(&VolumeData::of_persistent_volume(&volume));
    let _ = policies.validate_for_restore();
}

fn read_modifiers(bytes: &[u8]) {
    let Ok(modifiers) = ResourceModifiers::from_config_map(&config_map(bytes)) else { return };
    let mut object = deployment();
    modifiers.apply(&mut object, "deployments.apps");
    assert!(object.to_string().len() < 32 << 20, "the object has grown without end");
}

fn read_cron(bytes: &[u8]) {
    let Ok(schedule) = CronSchedule::parse(&text(bytes)) else { return };
    for zone in [TimeZone::UTC, TimeZone::get("Pacific/Apia").unwrap()] {
        let mut time = Timestamp::from_second(1_325_000_000).unwrap();
        for _ in 0..3 {
            let Some(next) = schedule.next(time, &zone) else { break };
            assert!(next > time, "time goes backwards");
            time = next;
        }
        let _ = schedule.next(Timestamp::MAX, &zone);
    }
}

fn read_selectors(bytes: &[u8]) {
    let Ok(selector) = text(bytes).parse::<Selector>() else { return };
    let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
    let written = selector.to_string();
    let again: Selector = written.parse().unwrap_or_else(|error| panic!("{written:?} cannot be read: {error}"));
    assert_eq!(again.matches(&labels), selector.matches(&labels), "{written:?}");
}

fn read_wildcards(bytes: &[u8]) {
    let pattern = text(bytes);
    let _ = wildcard::validate_namespace_pattern(&pattern);
    for compiled in [Wildcard::compile(&pattern), Wildcard::compile_with_separator(&pattern, '.')].into_iter().flatten()
    {
        let _ = compiled.matches("deployments.apps");
        let _ = compiled.matches(&"a".repeat(100));
    }
}

fn read_node_agent(bytes: &[u8]) {
    let Ok(config) = NodeAgentConfig::parse(&config_map(bytes)) else { return };
    let labels = BTreeMap::from([("kubernetes.io/hostname".to_owned(), "n1".to_owned())]);
    let _ = (config.concurrency(&labels), config.affinity("fast").is_some(), config.backup_claim("fast"));
}

fn read_maintenance(bytes: &[u8]) {
    let data = BTreeMap::from([("global".to_owned(), text(bytes)), ("kopia".to_owned(), text(bytes))]);
    if let Ok(config) = JobConfig::read(&data, "shop-default-kopia") {
        let _ = (config.resources().is_ok(), config.affinity());
    }
    if let Ok(settings) = repository_config::repository_settings(&data) {
        let _ = repository_config::full_maintenance_interval(&settings.settings);
    }
}

fn read_small(bytes: &[u8]) {
    let text = text(bytes);
    if let Ok(duration) = text.parse::<GoDuration>() {
        let written = duration.to_string();
        assert_eq!(written.parse::<GoDuration>().unwrap().to_string(), written);
        let _ = duration.to_std();
    }
    if let Ok(quantity) = text.parse::<Quantity>() {
        let _ = (quantity.is_zero(), quantity.whole());
    }
    let _ = pairs::parse(&text, '=');
    let _ = (names::namespace_problems(&text), names::is_label_key(&text), names::is_label_value(&text));
    let _ = parse_command(&text);
}

fn read_merge(bytes: &[u8]) {
    let Ok(patch) = serde_json::from_slice::<Value>(bytes) else { return };
    let mut object = deployment();
    let _ = strategic_merge(&mut object, &patch);
    let mut hostile = patch.clone();
    let _ = strategic_merge(&mut hostile, &deployment());
}

velero_testkit::strike_all!(parsers);
