//! The init container that holds a restored pod until its volumes are filled.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SecurityContext;
use serde_json::{Map, Value, json};

use super::copies::{is_wait_container, wait_containers};
use crate::quantity::Quantity;

/// What the container may use where nobody says something else.
const CPU: &str = "100m";
const MEMORY: &str = "128Mi";
/// The program that waits.
const COMMAND: &str = "/velero-restore-helper";
/// The user it runs as.
const USER: i64 = 1000;

/// What is wrong with the settings of the container.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("key {key} of its plugin config says {value:?}, which is {problem}")]
pub struct WaitContainerError {
    key: &'static str,
    value: String,
    problem: String,
}

/// What the container is made of.
pub struct WaitContainer<'a> {
    /// The image of the server.
    pub server_image: &'a str,
    /// The UID of the restore, for which it waits.
    pub restore_uid: &'a str,
    /// The volumes that are filled.
    pub volumes: Vec<&'a str>,
    /// The plugin config.
    pub config: &'a BTreeMap<String, String>,
}

impl WaitContainer<'_> {
    /// Puts the container before all other init containers of a pod. Those of earlier restores go.
    pub fn insert(&self, pod: &mut Value) -> Result<(), WaitContainerError> {
        let container = self.container(pod)?;
        remove_wait_containers(pod);
        // What comes out of an archive may have anything in place of a specification; the API server will say so.
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        let rest = match spec.remove("initContainers") {
            Some(Value::Array(containers)) => containers,
            _ => Vec::new(),
        };
        spec.insert("initContainers".to_owned(), std::iter::once(container).chain(rest).collect());
        Ok(())
    }

    fn container(&self, pod: &Value) -> Result<Value, WaitContainerError> {
        let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let mount = |volume: &&str| json!({"name": volume, "mountPath": format!("/restores/{volume}")});
        Ok(json!({
            "name": wait_containers()[0],
            "image": self.image(),
            "command": [self.says("command").unwrap_or(COMMAND)],
            "args": [self.restore_uid],
            "env": [field("POD_NAMESPACE", "metadata.namespace"), field("POD_NAME", "metadata.name")],
            "resources": self.resources()?,
            "securityContext": self.security_context(pod)?,
            "volumeMounts": self.volumes.iter().map(mount).collect::<Vec<_>>(),
        }))
    }

    fn says(&self, key: &str) -> Option<&str> {
        self.config.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The image that is asked for, with the tag of the server's where it has none; a name without a registry does not
    /// count.
    fn image(&self) -> String {
        let Some((registry, name)) = self.says("image").and_then(|image| image.rsplit_once('/')) else {
            return self.server_image.to_owned();
        };
        let own_name = self.server_image.rsplit('/').next().unwrap_or_default();
        let own_tag = own_name.split('@').next().and_then(|name| name.split_once(':')).map(|(_, tag)| tag);
        match own_tag.filter(|_| !name.contains(':')) {
            Some(tag) => format!("{registry}/{name}:{tag}"),
            None => format!("{registry}/{name}"),
        }
    }

    fn resources(&self) -> Result<Value, WaitContainerError> {
        let (mut requests, mut limits) = (Map::new(), Map::new());
        for (kind, request, limit, default) in
            [("cpu", "cpuRequest", "cpuLimit", CPU), ("memory", "memRequest", "memLimit", MEMORY)]
        {
            let (asked, parsed) = self.quantity(request, default)?;
            let (most, parsed_most) = self.quantity(limit, default)?;
            let zero = Quantity::default();
            if parsed_most != zero && parsed > parsed_most {
                let problem = format!("more than {limit}, {most}");
                return Err(WaitContainerError { key: request, value: asked.to_owned(), problem });
            }
            // Nothing means without bounds.
            for (list, text, parsed) in [(&mut requests, asked, parsed), (&mut limits, most, parsed_most)] {
                if parsed != zero {
                    list.insert(kind.to_owned(), text.into());
                }
            }
        }
        Ok(json!({"requests": requests, "limits": limits}))
    }

    fn quantity<'q>(&'q self, key: &'static str, default: &'q str) -> Result<(&'q str, Quantity), WaitContainerError> {
        let text = self.says(key).unwrap_or(default);
        let parsed = text.parse::<Quantity>();
        let parsed = parsed.map_err(|error| WaitContainerError {
            key,
            value: text.to_owned(),
            problem: format!("no quantity: {error}"),
        })?;
        Ok((text, parsed))
    }

    /// What the settings say, or else what the first container of the pod has, or else as little as possible.
    fn security_context(&self, pod: &Value) -> Result<Value, WaitContainerError> {
        let mut asked = Map::new();
        for (key, field) in [("secCtxRunAsUser", "runAsUser"), ("secCtxRunAsGroup", "runAsGroup")] {
            if let Some(number) = self.parsed::<i64>(key, "no number")? {
                asked.insert(field.to_owned(), number.into());
            }
        }
        if let Some(allowed) = self.parsed::<bool>("secCtxAllowPrivilegeEscalation", "neither true nor false")? {
            asked.insert("allowPrivilegeEscalation".to_owned(), allowed.into());
        }
        if let Some(text) = self.says("secCtx") {
            asked.extend(security_fields(text)?);
        }
        let first = &pod["spec"]["containers"][0]["securityContext"];
        // Who the pod runs as may look into its volumes; another may not, and would wait for ever.
        let user = pod["spec"]["securityContext"]["runAsUser"].as_i64().unwrap_or(USER);
        Ok(match (asked.is_empty(), first.is_object()) {
            (false, _) => Value::Object(asked),
            (true, true) => first.clone(),
            (true, false) => json!({
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "runAsNonRoot": user != 0,
                "runAsUser": user,
                "seccompProfile": {"type": "RuntimeDefault"},
            }),
        })
    }

    fn parsed<T: std::str::FromStr>(&self, key: &'static str, problem: &str) -> Result<Option<T>, WaitContainerError> {
        let wrong = |text: &str| WaitContainerError { key, value: text.to_owned(), problem: problem.to_owned() };
        self.says(key).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    }
}

/// The fields of a security context that is written as YAML; one that does not exist is an error.
fn security_fields(text: &str) -> Result<Map<String, Value>, WaitContainerError> {
    let wrong = |problem: String| WaitContainerError { key: "secCtx", value: text.to_owned(), problem };
    let asked: Map<String, Value> =
        serde_saphyr::from_str(text).map_err(|error| wrong(format!("no security context: {error}")))?;
    let read: SecurityContext = serde_json::from_value(Value::Object(asked.clone()))
        .map_err(|error| wrong(format!("no security context: {error}")))?;
    let known = serde_json::to_value(read).unwrap_or_default();
    match asked.iter().find(|(field, value)| !value.is_null() && known.get(field).is_none()) {
        Some((field, _)) => Err(wrong(format!("no security context: there is no field {field}"))),
        None => Ok(asked),
    }
}

/// Removes the init containers that earlier restores have put into a pod.
pub fn remove_wait_containers(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let Some(containers) = spec.get_mut("initContainers").and_then(Value::as_array_mut) else { return };
    let before = containers.len();
    containers.retain(|container| !is_wait_container(container));
    if containers.is_empty() && before > 0 {
        spec.remove("initContainers");
    }
}
