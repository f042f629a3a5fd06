//! The API server of a machine, asked from this process: starting a kubectl takes a tenth of a second of a core, and tests
//! that wait ask often.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow};
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::Certificates;
use crate::machine::Machine;

/// No answer takes this long, unless the API server hangs.
const LONGEST_ANSWER: Duration = Duration::from_secs(60);

type Answer = Result<String, kube::Error>;

/// A request, and where its answer goes.
struct Question {
    request: Request<Vec<u8>>,
    answer: mpsc::Sender<Answer>,
}

/// The way to a machine's API server, and the init process of the machine it was opened for.
struct Connection {
    init: u32,
    questions: UnboundedSender<Question>,
}

/// One for each machine this process has asked. The thread behind it is in the network of that machine; the threads of
/// tests are in others.
static CONNECTIONS: Mutex<BTreeMap<String, Connection>> = Mutex::new(BTreeMap::new());

impl Machine {
    /// What the API server has at a path, such as `/api/v1/namespaces/shop/pods`.
    pub fn read(&self, path: &str) -> Result<Value> {
        let text = self.ask(Request::get(path).body(Vec::new())?)?.map_err(|error| explained("GET", path, error))?;
        serde_json::from_str(&text).with_context(|| format!("GET {path} is answered with what is no JSON"))
    }

    /// What the API server has at a path; `None` where it says that there is nothing.
    pub fn read_if_there(&self, path: &str) -> Result<Option<Value>> {
        match self.ask(Request::get(path).body(Vec::new())?)? {
            Ok(text) => Ok(Some(serde_json::from_str(&text)?)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(explained("GET", path, error)),
        }
    }

    /// The objects of the list at a path.
    pub fn items(&self, path: &str) -> Result<Vec<Value>> {
        let mut list = self.read(path)?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Err(anyhow!("{path} is no list")),
        }
    }

    /// The names of the objects of the list at a path.
    pub fn names_at(&self, path: &str) -> Result<Vec<String>> {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(self.items(path)?.iter().map(name).collect())
    }

    /// Deletes the object at a path, or all objects of the list there, with what belongs to them. It does not wait for them
    /// to go.
    pub fn delete(&self, path: &str) -> Result<()> {
        self.delete_with(path, "propagationPolicy=Background")
    }

    /// Deletes the object at a path without giving it time to end, as one does with a pod whose node is lost.
    pub fn delete_at_once(&self, path: &str) -> Result<()> {
        self.delete_with(path, "gracePeriodSeconds=0")
    }

    fn delete_with(&self, path: &str, query: &str) -> Result<()> {
        let request = Request::delete(format!("{path}?{query}"));
        let deleted = self.ask(request.body(Vec::new())?)?;
        deleted.map(drop).map_err(|error| explained("DELETE", path, error))
    }

    /// Sends a request. The outer failure is that there is no answer.
    pub(super) fn ask(&self, request: Request<Vec<u8>>) -> Result<Answer> {
        let what = format!("{} {}", request.method(), request.uri());
        let (answer, answers) = mpsc::channel();
        let sent = self.questions()?.send(Question { request, answer });
        sent.ok().with_context(|| format!("{what}: the machine {} was taken down", self.name))?;
        answers.recv_timeout(LONGEST_ANSWER).with_context(|| {
            format!("{what}: the API server of {} does not answer in {} s", self.name, LONGEST_ANSWER.as_secs())
        })
    }

    fn questions(&self) -> Result<UnboundedSender<Question>> {
        let mut connections = CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = connections.get(&self.name).filter(|known| known.init == self.init());
        if let Some(known) = known.filter(|known| !known.questions.is_closed()) {
            return Ok(known.questions.clone());
        }
        let questions = self.connect().with_context(|| format!("cannot reach the API server of {}", self.name))?;
        connections.insert(self.name.clone(), Connection { init: self.init(), questions: questions.clone() });
        Ok(questions)
    }

    fn connect(&self) -> Result<UnboundedSender<Question>> {
        let (questions, asked) = unbounded_channel();
        let (ready, opened) = mpsc::channel();
        let machine = self.clone();
        let thread = thread::spawn(move || -> Result<()> {
            machine.enter_network()?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let client = client(&Certificates::kubeconfig(&machine)).await?;
                ready.send(())?;
                answer_all(&client, asked).await;
                Ok(())
            })
        });
        if opened.recv().is_err() {
            thread.join().map_err(|_| anyhow!("the thread that connects panicked"))??;
        }
        Ok(questions)
    }
}

/// Lets go of the machine of that name: a thread that is in its network would keep that network alive.
pub(crate) fn forget(name: &str) {
    CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
}

/// Answers until nobody can ask any more.
async fn answer_all(client: &Client, mut asked: UnboundedReceiver<Question>) {
    while let Some(Question { request, answer }) = asked.recv().await {
        let client = client.clone();
        tokio::spawn(async move {
            // Who asked may have given up waiting.
            let _ = answer.send(client.request_text(request).await);
        });
    }
}

/// What an API server refused, in its own words.
pub(super) fn explained(method: &str, path: &str, error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) => anyhow!("{method} {path} is answered with {}: {}", status.code, status.message),
        other => Error::new(other).context(format!("{method} {path}")),
    }
}

/// A client for that kubeconfig, without any limit of its own.
pub(crate) async fn client(kubeconfig: &Path) -> Result<Client> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
