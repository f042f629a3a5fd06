//! What is held against a page: what axe finds, what a keyboard does not reach, what a person was told that is missing.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use velero_testkit::Tool;

use super::Browser;

/// What one can go to with the keyboard, as far as it is shown, and what each is called. An element may be exchanged for one that is
/// the same, so it is known by what it is and leads to, and never by what it is in memory. What a part says that can be scrolled changes with time.
const KEYBOARD: &str = r#"
const shown = element => element.checkVisibility({visibilityProperty: true});
const wanted = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
const called = element => [
    element.tagName, element.getAttribute("href") ?? element.getAttribute("name") ?? "", element.form?.getAttribute("action") ?? "",
    element.hasAttribute("tabindex") ? element.className : element.textContent.trim(),
].join(" ");
"#;
/// Ends what keeps the page current, as leaving it would: while somebody goes through it, nothing is to come or go.
const STANDSTILL: &str = "dispatchEvent(new Event('pagehide'));";
/// How often the tabulator is pressed at most.
const MOST_STEPS: u64 = 1000;

/// The tool that finds what hinders people in a page.
pub struct Axe {
    script: String,
}

impl Axe {
    /// Takes it from the cache.
    pub fn new() -> Result<Self> {
        let path = Tool::Axe.path()?;
        let script = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self { script })
    }

    /// What it finds in what a browser shows: a line a rule, with the elements.
    pub async fn findings(&self, browser: &Browser) -> Result<Vec<String>> {
        self.run(browser, "{}").await
    }

    /// What it finds by some of its rules alone.
    pub async fn findings_of(&self, browser: &Browser, rules: &[&str]) -> Result<Vec<String>> {
        self.run(browser, &format!("{{runOnly: {rules:?}}}")).await
    }

    async fn run(&self, browser: &Browser, options: &str) -> Result<Vec<String>> {
        let script = format!(
            "if (!window.axe) {{ {} }}\n\
             return axe.run(document, {options}).then(found => found.violations.map(rule => rule.id + \": \" + rule.help + \": \" \
             + rule.nodes.map(node => node.html + \" \" + node.any.concat(node.all).map(check => check.message).join(\"; \")).join(\" | \")));",
            self.script
        );
        let found = browser.run(&script).await.context("axe does not run")?;
        Ok(strings(&found))
    }
}

/// Goes through a page with the tabulator; gives what it does not reach, and what does not show that it is reached. The page follows no
/// changes any more afterwards.
pub async fn unreachable_by_keyboard(browser: &Browser) -> Result<Vec<String>> {
    const TABULATOR: u8 = 9;
    let begin = format!(
        "{STANDSTILL} {KEYBOARD}
        window.reached = []; window.unmarked = [];
        document.addEventListener('focusin', event => {{
            window.reached.push(called(event.target));
            const style = getComputedStyle(event.target);
            if (style.outlineStyle === 'none' || style.outlineWidth === '0px') window.unmarked.push(event.target.outerHTML);
        }});
        document.activeElement.blur();
        return [...document.querySelectorAll(wanted)].filter(shown).length;"
    );
    let count = browser.run(&begin).await?.as_u64().context("elements are counted")?;
    ensure!(count < MOST_STEPS, "{count} elements are too many to go through");
    for _ in 0..count + 2 {
        browser.key("Tab", TABULATOR).await?;
    }
    let end = format!(
        "{KEYBOARD}
        const isReached = element => {{
            const place = window.reached.indexOf(called(element));
            return place >= 0 && window.reached.splice(place, 1).length > 0;
        }};
        const missed = [...document.querySelectorAll(wanted)].filter(shown).filter(element => !isReached(element));
        return missed.map(element => 'not reached: ' + element.outerHTML)
            .concat(window.unmarked.map(text => 'not marked: ' + text));"
    );
    Ok(strings(&browser.run(&end).await?))
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// What somebody saw of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Everything.
    All,
    /// The page, without what these rights are needed for; they are named.
    Without(Vec<String>),
    /// That this right is missing, and nothing else.
    Nothing(String),
}

impl Seen {
    /// Reads what a browser shows to somebody.
    pub async fn by(browser: &Browser, account: &str) -> Result<Self> {
        let text = browser.text().await?;
        let missing =
            text.lines().filter_map(|line| line.split_once(&format!(":{account} may not "))).map(|(_, right)| {
                let words: Vec<&str> = right.split([' ', '.']).take(2).collect();
                words.join(" ")
            });
        let mut missing: Vec<String> = missing.collect();
        missing.dedup();
        Ok(match (browser.heading().await?.as_str(), missing.first()) {
            ("A right is missing", Some(right)) => Self::Nothing(right.clone()),
            (_, None) => Self::All,
            (_, Some(_)) => Self::Without(missing),
        })
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let named = |rights: &[String]| rights.iter().map(|right| format!("`{right}`")).collect::<Vec<_>>().join(", ");
        match self {
            Self::All => formatter.write_str("all"),
            Self::Without(rights) => write!(formatter, "but for {}", named(rights)),
            Self::Nothing(right) => write!(formatter, "needs `{right}`"),
        }
    }
}
