//! Where the internal registry of a cluster is.
//!
//! An image stream of the namespace `openshift` tells best. Clusters before OpenShift 4 have a service for it, later ones
//! say it in the configuration of their API server.

use serde_json::Value;
use velero_plugin::item::text;
use velero_plugin::{Error, Result};

use super::version::ServerVersion;

/// Where to look when image streams do not tell.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Service,
    Config,
}

/// Where a cluster of that version keeps the address.
pub(super) fn place(version: &ServerVersion) -> Result<Place> {
    match (version.major, version.minor) {
        (1, 7..=11) => Ok(Place::Service),
        (1, 12..) => Ok(Place::Config),
        _ => Err(Error::Failed(format!("server version {version} is not supported; 1.7 and later are"))),
    }
}

/// The registry that the first image stream names.
pub(super) fn of_image_streams(streams: &[Value]) -> Option<String> {
    let repository = text(streams.first()?, "/status/dockerImageRepository");
    (!repository.is_empty()).then(|| registry_of(repository).to_owned())
}

/// The registry part of an image name; empty when it has none.
pub(crate) fn registry_of(repository: &str) -> &str {
    let names_host = |part: &str| part.contains(['.', ':']) || part == "localhost";
    match repository.split_once('/') {
        Some((first, _)) if names_host(first) => first,
        None if repository.contains('.') || repository.starts_with("localhost") => repository,
        _ => "",
    }
}

/// The address of the registry's service.
pub(super) fn of_service(service: &Value) -> String {
    match service.pointer("/spec/ports/0/port").and_then(Value::as_i64) {
        Some(port) => format!("{}:{port}", text(service, "/spec/clusterIP")),
        None => String::new(),
    }
}

/// The address in the configuration of the API server; a cluster without it has no registry, unless it must have one.
pub(super) fn of_config(config: Option<&Value>, required: bool) -> Result<String> {
    let unreadable = |problem: &dyn std::fmt::Display| {
        Error::Failed(format!("ConfigMap openshift-apiserver/config, config.yaml: {problem}"))
    };
    let Some(config) = config else {
        return match required {
            true => Err(unreadable(&"the ConfigMap does not exist, so nothing says where the registry is")),
            false => Ok(String::new()),
        };
    };
    let content = config["data"]["config.yaml"].as_str().unwrap_or_default();
    let content: Value = serde_json::from_str(content).map_err(|error| unreadable(&error))?;
    Ok(text(&content, "/imagePolicyConfig/internalRegistryHostname").to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_image_stream_names_the_registry() {
        let stream = |repository: &str| json!({"status": {"dockerImageRepository": repository}});
        for (streams, expected) in [
            (vec![], None),
            (vec![json!({})], None),
            (vec![stream(""), stream("a.b:5000/openshift/x")], None),
            (vec![stream("image-registry.svc:5000/openshift/ruby")], Some("image-registry.svc:5000")),
            (vec![stream("172.30.1.1:5000/openshift/x"), stream("other:1/y")], Some("172.30.1.1:5000")),
            (vec![stream("localhost/openshift/x")], Some("localhost")),
            (vec![stream("openshift/x")], Some("")),
            (vec![stream("registry.example.com")], Some("registry.example.com")),
        ] {
            assert_eq!(of_image_streams(&streams).as_deref(), expected, "{streams:?}");
        }
    }

    #[test]
    fn the_version_says_where_else_to_look() {
        for (major, minor, expected) in [
            (1, 6, None),
            (1, 7, Some(Place::Service)),
            (1, 11, Some(Place::Service)),
            (1, 12, Some(Place::Config)),
            (1, 33, Some(Place::Config)),
            (2, 12, None),
        ] {
            assert_eq!(place(&ServerVersion { major, minor }).ok(), expected, "{major}.{minor}");
        }
    }

    #[test]
    fn a_service_and_a_config_name_the_registry() {
        let service = json!({"spec": {"clusterIP": "172.30.1.1", "ports": [{"port": 5000}, {"port": 80}]}});
        assert_eq!(of_service(&service), "172.30.1.1:5000");
        assert_eq!(of_service(&json!({"spec": {}})), "");
        let config = |content: &str| json!({"data": {"config.yaml": content}});
        let named = config(r#"{"imagePolicyConfig": {"internalRegistryHostname": "registry.svc:5000"}}"#);
        for (config, required, expected) in [
            (Some(named), false, Ok("registry.svc:5000")),
            (Some(config("{}")), false, Ok("")),
            (None, false, Ok("")),
            (None, true, Err("does not exist")),
            (Some(config("a: b")), false, Err("config.yaml")),
            (Some(json!({})), false, Err("config.yaml")),
        ] {
            match (of_config(config.as_ref(), required), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{config:?}"),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                (found, _) => panic!("{config:?}: {found:?}"),
            }
        }
    }
}
