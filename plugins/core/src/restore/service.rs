//! Services give up addresses and ports that the old cluster chose; those somebody asked for stay.
//!
//! A port was asked for when it stands in what `kubectl apply` noted down, or when somebody owns its field.

use async_trait::async_trait;
use serde_json::Value;
use velero_plugin::item::{annotation, describe, elements, elements_mut, object_mut, text};
use velero_plugin::{Error, ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Clears addresses and node ports that the old cluster chose.
pub struct RestoreAction;

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        "velero.io/service"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["services"]))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let mut service = input.item.clone();
        release_addresses(&mut service);
        let keeps_ports = input.restore.spec.preserve_node_ports == Some(true);
        if !keeps_ports && text(&service, "/spec/type") != "ExternalName" {
            release_ports(&mut service, input.item_from_backup)?;
        }
        Ok(RestoreItemOutcome::updated(input.item, service))
    }
}

fn release_addresses(service: &mut Value) {
    let is_headless = text(service, "/spec/clusterIP") == "None";
    if let Some(spec) = object_mut(service, "/spec").filter(|_| !is_headless) {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
}

/// Clears the ports nobody asked for. Who owns which field is looked up in the item of the backup.
fn release_ports(service: &mut Value, from_backup: &Value) -> Result<()> {
    let requested = Requested::read(service, from_backup)?;
    for port in elements_mut(service, "/spec/ports").filter(|port| !requested.node_port(port)) {
        if let Some(port) = port.as_object_mut() {
            port.remove("nodePort");
        }
    }
    let has_health_check =
        text(service, "/spec/type") == "LoadBalancer" && text(service, "/spec/externalTrafficPolicy") == "Local";
    if has_health_check && !requested.health_check_node_port() {
        object_mut(service, "/spec").and_then(|spec| spec.remove("healthCheckNodePort"));
    }
    Ok(())
}

/// The ports that were asked for.
struct Requested<'a> {
    applied: Option<Applied>,
    /// The fields each manager owns.
    owned: Vec<&'a Value>,
}

/// What `kubectl apply` noted down.
struct Applied {
    /// Names, empty for none, and node ports.
    node_ports: Vec<(String, i64)>,
    health_check_node_port: i64,
}

impl<'a> Requested<'a> {
    fn read(service: &Value, from_backup: &'a Value) -> Result<Self> {
        let applied = annotation(service, LAST_APPLIED);
        let applied = applied.map(Applied::parse).transpose().map_err(|reason| {
            Error::Item(format!(
                "{}: annotation {LAST_APPLIED} {reason}; remove it, or restore with preserveNodePorts",
                describe(service)
            ))
        })?;
        let managers = elements(from_backup, "/metadata/managedFields");
        let owned = managers.filter_map(|manager| manager.get("fieldsV1")).collect();
        Ok(Self { applied, owned })
    }

    /// Whether a port's node port was asked for. What was applied decides alone, where it is known.
    fn node_port(&self, port: &Value) -> bool {
        let Some(applied) = &self.applied else {
            let key = format!(r#"k:{{"port":{},"protocol":"{}"}}"#, port["port"], text(port, "/protocol"));
            let ports = self.owned.iter().filter_map(|fields| fields.pointer("/f:spec/f:ports")?.get(&key));
            return ports.into_iter().any(|fields| fields.get("f:nodePort").is_some());
        };
        let (name, number) = (text(port, "/name"), port["nodePort"].as_i64());
        // A port without a name is known by its number alone.
        let is_same = |(other, node_port): &(String, i64)| {
            *node_port > 0 && other == name && (!name.is_empty() || Some(*node_port) == number)
        };
        applied.node_ports.iter().any(is_same)
    }

    fn health_check_node_port(&self) -> bool {
        let applied = self.applied.as_ref().is_some_and(|applied| applied.health_check_node_port != 0);
        applied || self.owned.iter().any(|fields| fields.pointer("/f:spec/f:healthCheckNodePort").is_some())
    }
}

impl Applied {
    fn parse(document: &str) -> std::result::Result<Self, String> {
        let service: Value = serde_json::from_str(document).map_err(|error| format!("is not JSON ({error})"))?;
        let node_port = |port: &Value| Ok((text(port, "/name").to_owned(), number(&port["nodePort"])?));
        Ok(Self {
            node_ports: elements(&service, "/spec/ports").map(node_port).collect::<std::result::Result<_, String>>()?,
            health_check_node_port: service.pointer("/spec/healthCheckNodePort").map_or(Ok(0), number)?,
        })
    }
}

/// A port as people write it: a number or a text; zero when there is none.
fn number(port: &Value) -> std::result::Result<i64, String> {
    match port {
        Value::Number(number) => Ok(number.as_i64().unwrap_or_default()),
        Value::String(text) => text.parse().map_err(|_| format!("holds the port {text:?}, which is not a number")),
        _ => Ok(0),
    }
}

#[cfg(test)]
mod tests;
