//! WebDriver, what drivers of browsers speak: JSON over HTTP.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use reqwest::{Client, Method};
use serde_json::{Value, json};

/// What an element is called in JSON.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// No command takes this long, unless the driver hangs: pages and scripts have deadlines of their own.
const DEADLINE: Duration = Duration::from_secs(120);

/// A browser of a driver.
pub(super) struct Session {
    client: Client,
    address: String,
}

/// Something in a page.
pub(super) struct Element(String);

/// What the driver says of an element that the page has exchanged since it was found.
const EXCHANGED: &str = "stale element reference";

impl Element {
    /// Where a command about it goes.
    pub(super) fn path(&self, command: &str) -> String {
        format!("element/{}/{command}", self.0)
    }
}

impl Session {
    /// Has a driver open a browser that is as wished.
    pub(super) async fn open(driver: &str, wishes: &Value) -> Result<Self> {
        let client = Client::builder().no_proxy().timeout(DEADLINE).build()?;
        let session = Self { client, address: format!("{driver}/session") };
        let opened = session.command(Method::POST, "", Some(json!({"capabilities": {"alwaysMatch": wishes}}))).await?;
        let id = opened["sessionId"].as_str().context("a session has a name")?;
        Ok(Self { address: format!("{}/{id}", session.address), ..session })
    }

    /// Asks for something.
    pub(super) async fn ask(&self, path: &str) -> Result<Value> {
        self.command(Method::GET, path, None).await
    }

    /// Has something done.
    pub(super) async fn send(&self, path: &str, body: Value) -> Result<Value> {
        self.command(Method::POST, path, Some(body)).await
    }

    /// The first element that is so.
    pub(super) async fn find(&self, way: &str, value: &str) -> Result<Element> {
        let found = self.send("element", json!({"using": way, "value": value})).await?;
        Ok(Element(found[ELEMENT].as_str().context("an element has a name")?.to_owned()))
    }

    /// Finds an element and has something done with it. A page that follows changes may exchange the element between the two, which no person
    /// would notice: then it is found again. Nothing was done with the one that is gone.
    pub(super) async fn find_and_send(&self, way: &str, value: &str, command: &str, longest: Duration) -> Result<()> {
        let begin = Instant::now();
        loop {
            let element = self.find(way, value).await?;
            match self.send(&element.path(command), json!({})).await {
                Err(error) if error.to_string().starts_with(EXCHANGED) && begin.elapsed() < longest => {}
                done => return done.map(drop),
            }
        }
    }

    /// Closes the browser.
    pub(super) async fn close(self) -> Result<()> {
        self.command(Method::DELETE, "", None).await.map(drop)
    }

    async fn command(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value> {
        let address = format!("{}/{path}", self.address);
        let mut request = self.client.request(method, address.trim_end_matches('/'));
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json").body(body.to_string());
        }
        let text = request.send().await.context("the driver of the browser does not answer")?.text().await?;
        let mut answer: Value = serde_json::from_str(&text).with_context(|| format!("the driver says {text:?}"))?;
        match answer["value"]["error"].as_str() {
            Some(error) => bail!("{error}: {}", answer["value"]["message"].as_str().unwrap_or_default()),
            None => Ok(answer["value"].take()),
        }
    }
}
