//! Browsers without scripts, and people of different rights, for the tests of the page.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use velero_api::v1::{Backup, BackupPhase};
use velero_controllers::server::Settings;
use velero_testkit::TestCluster;

use crate::support::{Server, Workload, settings};

pub(crate) const EVIL: &str = "<script>alert(1)</script>";

/// A browser without scripts: it keeps cookies and fills forms in.
pub(crate) struct Browser {
    pub(crate) address: String,
    pub(crate) cookies: BTreeMap<String, String>,
    /// How it encrypts; nothing means not at all.
    tls: Option<Arc<ClientConfig>>,
    /// What a proxy adds to every request.
    added: Vec<(&'static str, &'static str)>,
}

/// What a browser gets.
pub(crate) struct Page {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Page {
    pub(crate) fn header(&self, wanted: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value).next()
    }

    pub(crate) fn form_token(&self) -> String {
        let (_, rest) = self.body.split_once("name=\"form-token\" value=\"").expect("a form");
        rest.split_once('"').unwrap().0.to_owned()
    }
}

pub(crate) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

impl Browser {
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), cookies: BTreeMap::new(), tls: None, added: Vec::new() }
    }

    pub(crate) async fn signed_in(address: &str, token: &str) -> Self {
        let mut browser = Self::new(address);
        let answer = browser.post("/sign-in", &[("token", token)]).await;
        assert_eq!((answer.code, answer.header("location")), (303, Some("/")), "{}", answer.body);
        browser
    }

    /// Speaks TLS, and adds headers to every request, as a proxy does.
    pub(crate) fn behind(mut self, tls: Arc<ClientConfig>, added: &[(&'static str, &'static str)]) -> Self {
        self.tls = Some(tls);
        self.added = added.to_vec();
        self
    }

    pub(crate) async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Page {
        self.try_send(method, path, headers, body).await.unwrap()
    }

    /// Sends a request; an error where there is no connection.
    pub(crate) async fn try_send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Page> {
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut request = format!("{method} {path} HTTP/1.0\r\nHost: {}\r\n", self.address);
        if !cookies.is_empty() {
            request += &format!("Cookie: {}\r\n", cookies.join("; "));
        }
        for (name, value) in headers.iter().chain(&self.added) {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let stream = tokio::net::TcpStream::connect(&self.address).await?;
        let asked = async {
            match &self.tls {
                None => ask(stream, &request).await,
                Some(tls) => {
                    let name = ServerName::try_from("localhost").unwrap();
                    ask(TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?, &request).await
                }
            }
        };
        let answer = tokio::time::timeout(Duration::from_secs(60), asked).await.expect("an answer")?;
        let text = String::from_utf8(answer).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        let page = Page { code, head: head.to_owned(), body: body.to_owned() };
        self.take_cookies(&page);
        Ok(page)
    }

    fn take_cookies(&mut self, page: &Page) {
        let set = page.head.lines().filter_map(|line| line.strip_prefix("set-cookie: "));
        for (name, value) in set.filter_map(|cookie| cookie.split(';').next()?.split_once('=')) {
            match value {
                "" => self.cookies.remove(name),
                value => self.cookies.insert(name.to_owned(), value.to_owned()),
            };
        }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Page {
        self.send("GET", path, &[], "").await
    }

    /// Sends a form, as a browser would from one of our pages.
    pub(crate) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let origin = format!("{scheme}://{}", self.address);
        let body: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let headers = [("Origin", origin.as_str()), ("Content-Type", "application/x-www-form-urlencoded")];
        self.send("POST", path, &headers, &body.join("&")).await
    }

    /// Fills in the form of a page and sends it.
    pub(crate) async fn fill_in(&mut self, page: &str, action: &str, fields: &[(&str, &str)]) -> Page {
        let token = self.get(page).await.form_token();
        let fields: Vec<(&str, &str)> =
            [("form-token", token.as_str())].into_iter().chain(fields.iter().copied()).collect();
        self.post(action, &fields).await
    }
}

/// What somebody who may only look sees.
const SEEN: [&str; 4] = ["backups", "restores", "schedules", "backupstoragelocations"];
/// What somebody who may do everything does it with.
const DONE: [&str; 8] = [
    "backups",
    "restores",
    "schedules",
    "backupstoragelocations",
    "downloadrequests",
    "deletebackuprequests",
    "podvolumebackups",
    "datauploads",
];
const RIGHTS: &str = "rbac.authorization.k8s.io";

/// Makes people of different rights; gives their tokens.
pub(crate) struct People {
    pub(crate) cluster: TestCluster,
    role: String,
}

impl People {
    pub(crate) fn make(cluster: &TestCluster) -> Self {
        let people = Self { cluster: cluster.clone(), role: format!("page-{}", cluster.namespace) };
        let seen = json!([{"apiGroups": ["velero.io"], "resources": SEEN, "verbs": ["get", "list"]}]);
        let verbs = ["get", "list", "create", "patch", "delete"];
        let done = json!([{"apiGroups": ["velero.io"], "resources": DONE, "verbs": verbs}]);
        // ServiceAccounts and Secrets are not among what the operator may list.
        let (core, apps) =
            (["namespaces", "persistentvolumeclaims", "configmaps"], ["deployments", "statefulsets", "daemonsets"]);
        let listed = json!([
            {"apiGroups": [""], "resources": core, "verbs": ["get", "list"]},
            {"apiGroups": ["apps"], "resources": apps, "verbs": ["get", "list"]},
        ]);
        let accounts = ["nobody", "viewer", "operator"];
        let mut objects: Vec<Value> = accounts.iter().map(|account| people.account(account)).collect();
        objects.extend(people.granted("Role", "viewer", "viewer", &seen));
        objects.extend(people.granted("Role", "operator", "operator", &done));
        objects.extend(people.granted("ClusterRole", &people.role, "operator", &listed));
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        cluster.test_box.machine().apply(&list.to_string()).unwrap();
        people
    }

    fn account(&self, name: &str) -> Value {
        let metadata = json!({"name": name, "namespace": self.cluster.namespace});
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    }

    /// A role of that kind, and its binding to an account.
    fn granted(&self, kind: &str, role: &str, account: &str, rules: &Value) -> [Value; 2] {
        let namespace = &self.cluster.namespace;
        let metadata = match kind {
            "Role" => json!({"name": role, "namespace": namespace}),
            _ => json!({"name": role}),
        };
        let version = format!("{RIGHTS}/v1");
        let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": namespace});
        [
            json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules}),
            json!({
                "apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata, "subjects": [subject],
                "roleRef": {"apiGroup": RIGHTS, "kind": kind, "name": role},
            }),
        ]
    }

    pub(crate) fn kubectl(&self, line: &str) -> String {
        let words: Vec<&str> = ["-n", &self.cluster.namespace].into_iter().chain(line.split(' ')).collect();
        self.cluster.test_box.machine().kubectl(&words).unwrap()
    }

    pub(crate) fn token(&self, account: &str) -> String {
        self.kubectl(&format!("create token {account}")).trim().to_owned()
    }

    pub(crate) fn remove(self) {
        for plural in ["clusterrolebindings", "clusterroles"] {
            let path = format!("/apis/{RIGHTS}/v1/{plural}/{}", self.role);
            self.cluster.test_box.machine().delete(&path).unwrap();
        }
    }
}

/// An address at which nobody listens.
pub(crate) fn free_address() -> String {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    format!("127.0.0.1:{port}")
}

/// A server with a page, and where that is.
pub(crate) async fn with_page(cluster: &TestCluster) -> (Server, String) {
    let address = free_address();
    let settings = Settings { web_address: address.clone(), ..settings(cluster) };
    (Server::start_with(cluster.clone(), settings).await, address)
}

/// Sends a request and reads all of the answer.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer).await {
        // Whoever ends a connection without saying so has said all it wanted to.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !answer.is_empty() => Ok(answer),
        read => read.map(|_| answer),
    }
}

/// What the tests of actions share: a server with a page, a namespace to save, and two people.
pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) workload: Workload,
    people: People,
    pub(crate) operator: Browser,
    pub(crate) viewer: Browser,
}

impl Scene {
    pub(crate) async fn begin(cluster: &TestCluster, directory: &Path) -> Self {
        let (server, address) = with_page(cluster).await;
        let workload = Workload::new(cluster, 1).await;
        server.directory_location("default", directory).await;
        let people = People::make(cluster);
        let operator = Browser::signed_in(&address, &people.token("operator")).await;
        let viewer = Browser::signed_in(&address, &people.token("viewer")).await;
        Self { server, workload, people, operator, viewer }
    }

    pub(crate) async fn end(self) {
        self.people.remove();
        self.workload.delete().await;
        self.server.stop().await;
    }

    pub(crate) async fn until_backed_up(&self, name: &str) {
        self.server.until(name, |backup: &Backup| *backup.status.phase() == BackupPhase::Completed).await;
    }
}
