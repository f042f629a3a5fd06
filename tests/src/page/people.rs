//! People of different rights, and their tokens: good ones, one for somebody else, one whose time is over.

use std::fs;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use velero_testkit::machine::Machine;
use velero_testkit::parts::Certificates;

/// Those who may nothing, who may look at Velero's objects, and who may do all that the page does.
pub const PEOPLE: [&str; 3] = ["nobody", "viewer", "operator"];

/// One who has left: a token that was good.
const LEAVER: &str = "leaver";
const SEEN: [&str; 4] = ["backups", "restores", "schedules", "backupstoragelocations"];
const DONE: [&str; 2] = ["downloadrequests", "deletebackuprequests"];
/// What moves the data of volumes: how much there is, and what is on its way.
const MOVING: [&str; 4] = ["podvolumebackups", "podvolumerestores", "datauploads", "datadownloads"];

/// Signs a token with the key of the cluster: its head and its body, and the key, are given as files. What openssl writes
/// of a signature is turned into the two numbers that a token has.
const SIGN: &str = r#"
set -e
cd "$1"
openssl dgst -sha256 -sign "$2" -out signature.der unsigned
openssl asn1parse -inform DER -in signature.der | sed -n 's/.*INTEGER *://p'
"#;

/// The people of a cluster.
pub struct People {
    machine: Machine,
    namespace: String,
}

impl People {
    /// Makes them, in the namespace of a server.
    pub fn make(machine: &Machine, namespace: &str) -> Result<Self> {
        let people = Self { machine: machine.clone(), namespace: namespace.to_owned() };
        let all: Vec<&str> = SEEN.into_iter().chain(DONE).collect();
        let seen = json!([{"apiGroups": ["velero.io"], "resources": SEEN, "verbs": ["get", "list"]}]);
        let done = json!([
            {"apiGroups": ["velero.io"], "resources": all, "verbs": ["get", "list", "create", "patch", "delete"]},
            {"apiGroups": ["velero.io"], "resources": MOVING, "verbs": ["list"]},
        ]);
        let cluster = json!([
            {"apiGroups": [""], "resources": ["namespaces", "persistentvolumeclaims"], "verbs": ["list"]},
            {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets", "daemonsets"], "verbs": ["list"]},
        ]);
        for account in PEOPLE.into_iter().chain([LEAVER]) {
            people.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": people.named(account)}))?;
        }
        for (account, role, rules, kind) in [
            ("viewer", "viewer", seen, "Role"),
            ("operator", "operator", done, "Role"),
            ("operator", "page-operator", cluster, "ClusterRole"),
        ] {
            people.grant(account, role, &rules, kind)?;
        }
        Ok(people)
    }

    fn named(&self, name: &str) -> Value {
        json!({"name": name, "namespace": self.namespace})
    }

    fn apply(&self, object: &Value) -> Result<()> {
        self.machine.apply(&object.to_string())
    }

    fn grant(&self, account: &str, role: &str, rules: &Value, kind: &str) -> Result<()> {
        let api = "rbac.authorization.k8s.io";
        let version = format!("{api}/v1");
        let metadata = if kind == "Role" { self.named(role) } else { json!({"name": role}) };
        let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": self.namespace});
        self.apply(&json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules}))?;
        self.apply(&json!({
            "apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata, "subjects": [subject],
            "roleRef": {"apiGroup": api, "kind": kind, "name": role},
        }))
    }

    /// A token that the cluster takes.
    pub fn token(&self, account: &str) -> Result<String> {
        self.create_token(account, "--duration=1h")
    }

    /// A token that this cluster made for somebody else.
    pub fn foreign_token(&self) -> Result<String> {
        self.create_token("operator", "--audience=https://elsewhere.example")
    }

    /// A token of one who then leaves: it is good for some seconds more.
    pub fn leaving_token(&self) -> Result<String> {
        self.token(LEAVER)
    }

    /// The one with that token leaves.
    pub fn leave(&self) -> Result<()> {
        self.machine.delete(&format!("/api/v1/namespaces/{}/serviceaccounts/{LEAVER}", self.namespace))
    }

    fn create_token(&self, account: &str, flag: &str) -> Result<String> {
        let token = self.machine.kubectl(&["-n", &self.namespace, "create", "token", account, flag])?;
        Ok(token.trim().to_owned())
    }

    /// A token with all rights whose time is over, signed by the cluster's own key.
    pub fn expired_token(&self) -> Result<String> {
        let good = self.token("operator")?;
        let parts: Vec<&str> = good.split('.').collect();
        let [head, body, _] = parts[..] else { anyhow::bail!("a token has three parts") };
        let mut claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body)?)?;
        let now = claims["iat"].as_i64().context("a token says when it was made")?;
        for (claim, ago) in [("exp", 60), ("iat", 3660), ("nbf", 3660)] {
            claims[claim] = json!(now - ago);
        }
        let unsigned = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let folder = self.machine.folder("expired-token")?;
        fs::write(folder.join("unsigned"), &unsigned)?;
        let key = Certificates::folder(&self.machine).join("accounts.key").display().to_string();
        let numbers = self.machine.run("sh", ["-c", SIGN, "sh", &folder.display().to_string(), &key])?;
        let signature: String = numbers.split_whitespace().map(|number| format!("{number:0>64}")).collect();
        Ok(format!("{unsigned}.{}", URL_SAFE_NO_PAD.encode(from_hex(&signature)?)))
    }
}

fn from_hex(text: &str) -> Result<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2).map(std::str::from_utf8);
    pairs.map(|pair| Ok(u8::from_str_radix(pair?, 16)?)).collect()
}
