//! Applying objects: what `kubectl apply --server-side --force-conflicts` does, from this process.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, anyhow, ensure};
use http::Request;
use serde_json::Value;

use super::api_client::explained;
use crate::machine::{Machine, wait_until};

/// What kubectl asks for. The name of the owner makes the API server treat what kubectl remembers in an annotation alike.
const QUERY: &str = "fieldManager=kubectl&force=true&fieldValidation=Strict";
/// How servers ask for all types at once. A type is there a little later than in the answers about its group alone.
const ALL_TYPES: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// How long a type that was just defined may take to be served.
const UNTIL_SERVED: Duration = Duration::from_secs(15);
/// How long a definition may take to be in force.
const UNTIL_IN_FORCE: Duration = Duration::from_secs(30);

/// Why an object was not applied.
enum Trouble {
    /// Its type is not served, maybe not yet.
    Unserved(Error),
    Other(Error),
}

impl Machine {
    /// Applies manifests given as text: an object or a list in JSON, or whatever kubectl reads.
    pub fn apply(&self, manifests: &str) -> Result<()> {
        match serde_json::from_str::<Value>(manifests) {
            Ok(list) if list["kind"] == "List" => {
                list["items"].as_array().into_iter().flatten().try_for_each(|object| self.apply_object(object))
            }
            Ok(object) => self.apply_object(&object),
            Err(_) => self.apply_with_kubectl(manifests),
        }
    }

    /// Waits until a custom resource definition is in force, and servers that ask for all types learn of its type.
    pub fn wait_for_definition(&self, name: &str) -> Result<()> {
        self.wait_for_definitions(&[name])
    }

    /// The same of several definitions.
    pub fn wait_for_definitions(&self, names: &[&str]) -> Result<()> {
        for name in names {
            wait_until(&format!("the definition {name}"), UNTIL_IN_FORCE, || self.check_established(name))?;
        }
        // All types are a long answer: once for all of them.
        wait_until("the types of definitions", UNTIL_IN_FORCE, || {
            let served = self.served_types()?;
            let missing: Vec<&str> = names.iter().copied().filter(|name| !served.contains(*name)).collect();
            ensure!(missing.is_empty(), "{missing:?} are not among the types of the API server");
            Ok(())
        })
    }

    fn check_established(&self, name: &str) -> Result<()> {
        let definition = self.read(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"))?;
        let conditions = &definition["status"]["conditions"];
        let established = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
        let is_in_force = conditions.as_array().is_some_and(|all| all.iter().any(established));
        ensure!(is_in_force, "{name} is not established: {conditions}");
        Ok(())
    }

    /// Whether a type, given as `plural.group`, is among those that servers learn of.
    pub fn discovers(&self, name: &str) -> Result<bool> {
        Ok(self.served_types()?.contains(name))
    }

    /// The types that servers learn of, but for those of the core group, as `plural.group`.
    fn served_types(&self) -> Result<BTreeSet<String>> {
        let request = Request::get("/apis").header("Accept", ALL_TYPES).body(Vec::new())?;
        let text = self.ask(request)?.map_err(|error| explained("GET", "/apis", error))?;
        let groups: Value = serde_json::from_str(&text)?;
        let mut types = BTreeSet::new();
        for group in list(&groups, "items") {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            let resources = list(group, "versions").flat_map(|version| list(version, "resources"));
            let plurals = resources.filter_map(|resource| resource["resource"].as_str());
            types.extend(plurals.map(|plural| format!("{plural}.{name}")));
        }
        Ok(types)
    }

    fn apply_object(&self, object: &Value) -> Result<()> {
        let start = Instant::now();
        loop {
            match self.try_to_apply(object) {
                Ok(()) => return Ok(()),
                Err(Trouble::Unserved(_)) if start.elapsed() < UNTIL_SERVED => sleep(Duration::from_millis(100)),
                Err(Trouble::Unserved(error) | Trouble::Other(error)) => return Err(error),
            }
        }
    }

    fn try_to_apply(&self, object: &Value) -> Result<(), Trouble> {
        let path = self.path_of(object)?;
        let request = Request::patch(format!("{path}?{QUERY}")).header("Content-Type", "application/apply-patch+yaml");
        let request = request.body(body(object).into_bytes()).map_err(|error| Trouble::Other(error.into()))?;
        match self.ask(request).map_err(Trouble::Other)? {
            Ok(_) => Ok(()),
            Err(error) => Err(refused("PATCH", &path, error)),
        }
    }

    /// The path of an object, by what the API server says about its type.
    fn path_of(&self, object: &Value) -> Result<String, Trouble> {
        let part = |pointer: &str| {
            let missing = || Trouble::Other(anyhow!("an object to apply has no {pointer}: {object}"));
            object.pointer(pointer).and_then(Value::as_str).ok_or_else(missing)
        };
        let (version, kind, name) = (part("/apiVersion")?, part("/kind")?, part("/metadata/name")?);
        let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        let request = Request::get(&root).body(Vec::new()).map_err(|error| Trouble::Other(error.into()))?;
        let types = self.ask(request).map_err(Trouble::Other)?.map_err(|error| refused("GET", &root, error))?;
        let types: Value = serde_json::from_str(&types).map_err(|error| Trouble::Other(error.into()))?;
        // What has a slash in its name is a part of a type, such as its status.
        let is_its_type = |found: &&Value| {
            found["kind"] == kind && found["name"].as_str().is_some_and(|plural| !plural.contains('/'))
        };
        let found = types["resources"].as_array().into_iter().flatten().find(is_its_type);
        let found = found.ok_or_else(|| Trouble::Unserved(anyhow!("{version} has no kind {kind}")))?;
        let plural = found["name"].as_str().unwrap_or_default();
        if found["namespaced"] == true {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
            return Ok(format!("{root}/namespaces/{namespace}/{plural}/{name}"));
        }
        Ok(format!("{root}/{plural}/{name}"))
    }
}

/// The values of a list in an object; none where there is no such list.
fn list<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object[field].as_array().into_iter().flatten()
}

/// JSON that is YAML too, as which the API server reads it: in YAML these two end a line wherever they stand.
fn body(object: &Value) -> String {
    object.to_string().replace('\u{2028}', r"\u2028").replace('\u{2029}', r"\u2029")
}

/// An object that is applied need not be there: what is not found is its type, or its namespace.
fn refused(method: &str, path: &str, error: kube::Error) -> Trouble {
    let unserved = match &error {
        kube::Error::Api(status) => status.code == 404 && !status.message.starts_with("namespaces "),
        _ => false,
    };
    let error = explained(method, path, error);
    if unserved { Trouble::Unserved(error) } else { Trouble::Other(error) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_ends_a_line_in_yaml_is_written_as_an_escape() {
        let object = json!({"data": {"a": "<b>&\u{2028}\u{2029}ü\n"}});
        assert_eq!(body(&object), r#"{"data":{"a":"<b>&\u2028\u2029ü\n"}}"#);
        assert_eq!(serde_json::from_str::<Value>(&body(&object)).unwrap(), object);
    }
}
