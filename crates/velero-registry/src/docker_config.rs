//! Credentials from the files and secrets container engines keep them in.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use crate::{Credentials, Problem};

/// The names under which files keep the credentials of Docker Hub.
const DOCKER_HUB: &[&str] = &["docker.io", "index.docker.io", "registry-1.docker.io"];

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "lowercase")]
struct Entry {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
    registrytoken: String,
}

impl Credentials {
    /// The credentials for a registry from a `config.json` (also `.dockerconfigjson` and `auth.json`) or an old
    /// `.dockercfg`. A registry that is not in it gets anonymous ones.
    pub fn from_docker_config(text: &str, registry: &str) -> Result<Self, Problem> {
        let mut config: Value = serde_json::from_str(text).map_err(|_| invalid(registry, "it is no JSON"))?;
        let auths = config.get_mut("auths").map(Value::take).unwrap_or(config);
        let auths: BTreeMap<String, Entry> = serde_json::from_value(auths)
            .map_err(|_| invalid(registry, "it does not list registries as docker does"))?;
        let found = auths.iter().find(|(key, _)| same_registry(host_of(key), registry));
        found.map_or(Ok(Self::Anonymous), |(_, entry)| entry.credentials(registry))
    }
}

impl Entry {
    fn credentials(&self, registry: &str) -> Result<Credentials, Problem> {
        if !self.registrytoken.is_empty() {
            return Ok(Credentials::Bearer(self.registrytoken.clone()));
        }
        if !self.username.is_empty() {
            return Ok(Credentials::Basic { username: self.username.clone(), password: self.password.clone() });
        }
        if !self.auth.is_empty() {
            let decoded = STANDARD.decode(self.auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
            let (username, password) = pair.ok_or_else(|| invalid(registry, "auth is not base64 of user:password"))?;
            // Some tools pad the password with zero bytes.
            let password = password.trim_end_matches('\0');
            return Ok(Credentials::Basic { username: username.to_owned(), password: password.to_owned() });
        }
        if !self.identitytoken.is_empty() {
            return Err(invalid(registry, "an identitytoken is not supported: give a user and a password"));
        }
        Ok(Credentials::Anonymous)
    }
}

/// The host of a key, which may be a URL or have a path.
fn host_of(key: &str) -> &str {
    let key = key.trim_start_matches("https://").trim_start_matches("http://");
    key.split('/').next().unwrap_or_default()
}

fn same_registry(one: &str, other: &str) -> bool {
    one == other || (DOCKER_HUB.contains(&one) && DOCKER_HUB.contains(&other))
}

fn invalid(registry: &str, reason: &str) -> Problem {
    Problem::InvalidSetting { what: format!("the docker config for registry {registry}"), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_found_in_every_form_of_the_file() {
        let basic = |username: &str, password: &str| Credentials::Basic {
            username: username.into(),
            password: password.into(),
        };
        for (text, registry, expected) in [
            (r#"{"auths":{"r.io":{"auth":"dXNlcjpwYTpzcw=="}}}"#, "r.io", basic("user", "pa:ss")),
            (r#"{"auths":{"r.io":{"auth":"dXNlcjpwAAA="}}}"#, "r.io", basic("user", "p")),
            (r#"{"auths":{"https://r.io:5000/v2/":{"username":"u","password":"p"}}}"#, "r.io:5000", basic("u", "p")),
            (
                r#"{"r.svc:5000":{"username":"serviceaccount","password":"t","auth":"x"}}"#,
                "r.svc:5000",
                basic("serviceaccount", "t"),
            ),
            (r#"{"auths":{"https://index.docker.io/v1/":{"auth":"dTpw"}}}"#, "docker.io", basic("u", "p")),
            (r#"{"auths":{"r.io":{"registrytoken":"t"}}}"#, "r.io", Credentials::Bearer("t".into())),
            (r#"{"auths":{"other.io":{"auth":"dTpw"}},"credsStore":"desktop"}"#, "r.io", Credentials::Anonymous),
            (r#"{"auths":{"r.io":{}}}"#, "r.io", Credentials::Anonymous),
            (r#"{"auths":{}}"#, "r.io", Credentials::Anonymous),
        ] {
            assert_eq!(Credentials::from_docker_config(text, registry).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_config_that_cannot_be_used_is_refused_without_showing_it() {
        for text in
            ["hush", "[]", r#"{"auths":{"r.io":{"auth":"hush!"}}}"#, r#"{"auths":{"r.io":{"identitytoken":"hush"}}}"#]
        {
            let error = Credentials::from_docker_config(text, "r.io").unwrap_err().to_string();
            assert!(error.contains("r.io") && !error.contains("hush"), "{error}");
        }
    }
}
