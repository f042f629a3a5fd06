//! Chromium inside a machine. It reaches what that machine reaches: the page, and no other host.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use velero_testkit::install::{self, CHROMEDRIVER, CHROMIUM};
use velero_testkit::machine::Machine;

use super::webdriver::{Element, Session};

const PORT: u16 = 9515;
const NAME: &str = "chromedriver";
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long an element that is looked for may take to be there: what was pressed leads to another page.
const APPEARING: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);
/// Root has no sandbox of its own, and the box is one. The rest keeps the browser from asking the world for things.
const FLAGS: [&str; 10] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-prefers-reduced-motion",
    "--window-size=1100,800",
];

/// What drives browsers in a machine.
pub struct Driver {
    machine: Machine,
}

/// Whether a browser runs scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scripts {
    /// As most do.
    On,
    /// As some do: by preference.
    Off,
}

/// A browser at work.
pub struct Browser {
    session: Session,
    page: String,
}

impl Driver {
    /// Starts the driver in a machine.
    pub fn start(machine: &Machine) -> Result<Self> {
        install::browser_packages()?;
        let folder = machine.folder("browser")?;
        let mut shell = machine.command("sh");
        shell.env("HOME", &folder).env("TMPDIR", &folder).env("XDG_RUNTIME_DIR", &folder);
        machine.start_command(
            NAME,
            shell,
            CHROMEDRIVER,
            [format!("--port={PORT}"), "--log-level=WARNING".to_owned()],
        )?;
        Ok(Self { machine: machine.clone() })
    }

    /// Ends the driver, and browsers with it.
    pub fn stop(&self) -> Result<()> {
        self.machine.stop(NAME)
    }

    /// Opens a browser for the page at an address. Whoever calls must be in the network of the machine.
    pub async fn browser(&self, page: &str, scripts: Scripts) -> Result<Browser> {
        let (begin, wishes) = (Instant::now(), wishes(scripts));
        loop {
            match Session::open(&format!("http://127.0.0.1:{PORT}"), &wishes).await {
                Ok(session) => return Ok(Browser { session, page: page.to_owned() }),
                Err(error) if begin.elapsed() > PATIENCE || !self.machine.is_running(NAME) => {
                    let log = self.machine.log(NAME);
                    return Err(error.context(format!("no browser opens, log: {}", log.display())));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

fn wishes(scripts: Scripts) -> Value {
    const FORBIDDEN: u8 = 2;
    let preferences = match scripts {
        Scripts::On => json!({}),
        Scripts::Off => json!({"profile.managed_default_content_settings.javascript": FORBIDDEN}),
    };
    let longest = PATIENCE.as_millis() as u64;
    json!({
        "goog:chromeOptions": {"binary": CHROMIUM, "args": FLAGS, "prefs": preferences},
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        "timeouts": {"pageLoad": longest, "script": longest, "implicit": APPEARING.as_millis() as u64},
    })
}

/// Where the field of that name is.
fn field(name: &str) -> String {
    format!("[name='{name}']:not([type='hidden'])")
}

impl Browser {
    /// Goes to a path of the page.
    pub async fn go(&self, path: &str) -> Result<()> {
        let address = format!("{}{path}", self.page);
        self.session
            .send("url", json!({"url": address}))
            .await
            .map(drop)
            .with_context(|| format!("cannot go to {path}"))
    }

    async fn path(&self) -> Result<String> {
        let address = self.session.ask("url").await?;
        let address = address.as_str().unwrap_or_default();
        Ok(address.strip_prefix(&self.page).unwrap_or(address).to_owned())
    }

    /// The heading of what is shown.
    pub async fn heading(&self) -> Result<String> {
        self.words("h1").await
    }

    /// All that is shown, in words.
    pub async fn text(&self) -> Result<String> {
        self.words("body").await
    }

    async fn words(&self, selector: &str) -> Result<String> {
        let begin = Instant::now();
        loop {
            let element = self.session.find("css selector", selector).await?;
            match self.session.ask(&element.path("text")).await {
                Ok(words) => return Ok(words.as_str().unwrap_or_default().to_owned()),
                // Another page, or another state of this one, has come in between.
                Err(_) if begin.elapsed() < APPEARING => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until the page has that heading.
    pub async fn until_headed(&self, heading: &str) -> Result<()> {
        let begin = Instant::now();
        loop {
            let found = self.heading().await?;
            if found == heading {
                return Ok(());
            }
            ensure!(begin.elapsed() < PATIENCE, "{found:?} is the heading and not {heading:?}: {}", self.text().await?);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits until it is at a path that begins so; gives all of it.
    pub async fn until_at(&self, beginning: &str) -> Result<String> {
        let begin = Instant::now();
        loop {
            let path = self.path().await?;
            if path.starts_with(beginning) {
                return Ok(path);
            }
            ensure!(begin.elapsed() < PATIENCE, "it is at {path} and not at {beginning}: {}", self.text().await?);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Presses the button, link or summary with those words.
    pub async fn press(&self, words: &str) -> Result<()> {
        self.press_in("", words).await
    }

    /// The same below the head of the page, where links to all pages are.
    pub async fn press_in_content(&self, words: &str) -> Result<()> {
        self.press_in("//main", words).await
    }

    /// Presses a button in the row of a table whose first cell has that name.
    pub async fn press_in_row(&self, row: &str, words: &str) -> Result<()> {
        self.press_in(&format!("//tr[td[1][normalize-space()='{row}']]"), words).await
    }

    async fn press_in(&self, place: &str, words: &str) -> Result<()> {
        let named = |kind: &str| format!("{place}//{kind}[normalize-space()='{words}']");
        let all = ["button", "a", "summary"].map(named).join(" | ");
        let Err(error) = self.session.find_and_send("xpath", &all, "click", APPEARING).await else { return Ok(()) };
        Err(error.context(format!("cannot press {words:?}: {}", self.text().await?)))
    }

    /// Puts text into a field, as one who pastes it.
    pub async fn fill(&self, field: &str, text: &str) -> Result<()> {
        self.with_field(field, "clear").await?;
        self.with_field(field, "click").await?;
        self.paste(text).await
    }

    /// Puts text where the cursor is.
    pub async fn paste(&self, text: &str) -> Result<()> {
        self.chromium("Input.insertText", json!({"text": text})).await.map(drop)
    }

    /// Ticks a box, or takes the tick away.
    pub async fn tick(&self, field: &str) -> Result<()> {
        self.with_field(field, "click").await
    }

    /// What is in a field.
    pub async fn value(&self, field: &str) -> Result<String> {
        let value = self.session.ask(&self.field(field).await?.path("property/value")).await?;
        Ok(value.as_str().unwrap_or_default().to_owned())
    }

    async fn field(&self, name: &str) -> Result<Element> {
        self.session.find("css selector", &field(name)).await.with_context(|| format!("there is no field {name:?}"))
    }

    async fn with_field(&self, name: &str, command: &str) -> Result<()> {
        let done = self.session.find_and_send("css selector", &field(name), command, APPEARING).await;
        done.with_context(|| format!("the field {name:?} does not take {command:?}"))
    }

    /// Presses a key that is no letter, where the cursor is.
    pub async fn key(&self, name: &str, code: u8) -> Result<()> {
        let text = if name == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": name, "code": name, "windowsVirtualKeyCode": code});
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.chromium("Input.dispatchKeyEvent", event).await?;
        }
        Ok(())
    }

    /// Waits until the page says something, without asking for it again.
    pub async fn until_said(&self, words: &str) -> Result<()> {
        self.until(words, false).await
    }

    /// Waits until the page says something, and asks for it again each time.
    pub async fn until_said_again(&self, words: &str) -> Result<()> {
        self.until(words, true).await
    }

    async fn until(&self, words: &str, again: bool) -> Result<()> {
        let begin = Instant::now();
        loop {
            // What is looked at may be exchanged meanwhile.
            let text = self.text().await.unwrap_or_default();
            if text.contains(words) {
                return Ok(());
            }
            ensure!(begin.elapsed() < PATIENCE, "{words:?} was waited for in vain: {text}");
            tokio::time::sleep(PAUSE).await;
            if again {
                self.session.send("refresh", json!({})).await?;
            }
        }
    }

    /// Runs a script of the test's own and gives what it returns; what it promises is waited for.
    pub async fn run(&self, script: &str) -> Result<Value> {
        self.session.send("execute/sync", json!({"script": script, "args": []})).await
    }

    /// Asks for one of Chromium's own commands.
    pub async fn chromium(&self, command: &str, parameters: Value) -> Result<Value> {
        let mut body = json!({"cmd": command});
        body["params"] = parameters;
        let answer = self.session.send("goog/cdp/execute", body).await;
        answer.with_context(|| format!("Chromium does not do {command}"))
    }

    /// What was logged of a kind since it was last asked for: `browser` or `performance`.
    pub async fn log(&self, kind: &str) -> Result<Vec<Value>> {
        let entries = self.session.send("se/log", json!({"type": kind})).await?;
        Ok(entries.as_array().cloned().unwrap_or_default())
    }

    /// Who is signed in, to be so again later.
    pub async fn session(&self) -> Result<Value> {
        Ok(self.chromium("Network.getCookies", json!({})).await?["cookies"].take())
    }

    /// Becomes who was signed in before.
    pub async fn become_again(&self, session: &Value) -> Result<()> {
        self.chromium("Network.clearBrowserCookies", json!({})).await?;
        self.chromium("Network.setCookies", json!({"cookies": session})).await.map(drop)
    }

    /// Likes light or dark colours.
    pub async fn like(&self, scheme: &str) -> Result<()> {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.chromium("Emulation.setEmulatedMedia", json!({"features": features})).await.map(drop)
    }

    /// Becomes that wide and high; a narrow one is a telephone.
    pub async fn size(&self, width: u32, height: u32) -> Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.chromium("Emulation.setDeviceMetricsOverride", size).await.map(drop)
    }

    /// What it looks like, as PNG.
    pub async fn picture(&self) -> Result<Vec<u8>> {
        let picture = self.session.ask("screenshot").await?;
        Ok(STANDARD.decode(picture.as_str().unwrap_or_default())?)
    }

    /// Closes it.
    pub async fn close(self) -> Result<()> {
        self.session.close().await
    }
}
