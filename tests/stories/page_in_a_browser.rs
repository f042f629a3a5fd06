//! The page in a real browser that reaches nothing else: three people of different rights, with scripts and without, every page and
//! every action, by mouse and by keyboard, on a wide and on a narrow screen, in light and in dark.

use std::fmt::Write;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use velero_testkit::install::repository_root;
use velero_tests::backups;
use velero_tests::page::{self, ADDRESS, Axe, Browser, Driver, NAMESPACE, PEOPLE, Scene, Scripts, Seen};

const BOX: &str = "st-page";
const PATIENCE: Duration = Duration::from_secs(60);
/// Where what each person sees is written down for readers.
const DOCUMENTED: &str = "docs/web.md";
/// Markup that would do something if it were taken for markup.
const EVIL: &str = "<img src=x onerror=\"window.owned=1\"><script>window.owned=1</script>";

/// An object of two backups, which every person compares who may see files.
const COMPARED_OBJECT: &str =
    "/backups/shop-1/compare-object?resource=configmaps&namespace=shop&name=settings&with=shop-slow";
/// How often the tabulator is pressed until something is reached that is near.
const MOST_STEPS: usize = 50;

/// The pages, with what stands for a name, as the table in the book has them.
const PAGES: [(&str, &str); 23] = [
    ("/", "/"),
    ("/coverage", "/coverage"),
    ("/backups", "/backups"),
    ("/backups/NAME", "/backups/shop-1"),
    ("/backups/NAME/log", "/backups/shop-1/log"),
    ("/backups/NAME/objects", "/backups/shop-1/objects"),
    ("/backups/NAME/object", "/backups/shop-1/object?kind=v1%2FConfigMap&name=shop%2Fsettings"),
    ("/backups/NAME/compare", "/backups/shop-1/compare?with=billing-1"),
    ("/backups/NAME/compare-cluster", "/backups/shop-1/compare-cluster"),
    ("/backups/NAME/compare-object", COMPARED_OBJECT),
    ("/backups/NAME/delete", "/backups/shop-1/delete"),
    ("/new-backup", "/new-backup"),
    ("/restores", "/restores"),
    ("/restores/NAME", "/restores/shop-back"),
    ("/restores/NAME/log", "/restores/shop-back/log"),
    ("/restores/NAME/objects", "/restores/shop-back/objects"),
    ("/new-restore", "/new-restore?backup=shop-1"),
    ("/previews/NAME", "/previews/asked"),
    ("/schedules", "/schedules"),
    ("/schedules/NAME", "/schedules/shop-nightly"),
    ("/locations", "/locations"),
    ("/locations/NAME", "/locations/default"),
    ("/search", "/search?name=settings"),
];
/// What else there is to look at: errors by cause, a backup that was refused, and addresses at which nothing is.
const MORE: [&str; 4] = ["/backups/billing-1", "/backups/attic-1", "/backups/absent", "/nothing"];

/// A browser, and who has signed in with it, in the order of [`PEOPLE`].
struct Visitor {
    browser: Browser,
    scripts: Scripts,
    sessions: Vec<Value>,
}

impl Visitor {
    /// Tries tokens that are not taken, then signs everybody in.
    async fn come(driver: &Driver, scene: &Scene, scripts: Scripts) -> Result<Self> {
        let browser = driver.browser(ADDRESS, scripts).await?;
        browser.go("/backups").await?;
        browser.until_headed("Sign in").await?;
        for bad in [scene.people.expired_token()?, scene.people.foreign_token()?, "no-token".to_owned()] {
            sign_in(&browser, &bad).await?;
            browser.until_headed("Not signed in").await?;
            assert!(!browser.text().await?.contains(&bad), "a token is no text to show");
            browser.press("Sign in again").await?;
        }
        let mut sessions = Vec::new();
        for account in PEOPLE {
            sign_in(&browser, &scene.people.token(account)?).await?;
            browser.until_headed("Overview").await?;
            sessions.push(browser.session().await?);
            browser.press("Sign out").await?;
            browser.until_at("/sign-in").await?;
            browser.go("/").await?;
            browser.until_headed("Sign in").await?;
        }
        Ok(Self { browser, scripts, sessions })
    }

    async fn become_operator(&self) -> Result<&Browser> {
        self.browser.become_again(&self.sessions[2]).await?;
        Ok(&self.browser)
    }

    /// Waits until the page says something: by itself with scripts, loaded again without.
    async fn until_said(&self, words: &str) -> Result<()> {
        match self.scripts {
            Scripts::On => self.browser.until_said(words).await,
            Scripts::Off => self.browser.until_said_again(words).await,
        }
    }

    /// A name that differs between browsers.
    fn own(&self, name: &str) -> String {
        format!("{name}-{}", if self.scripts == Scripts::On { "scripted" } else { "plain" })
    }
}

async fn sign_in(browser: &Browser, token: &str) -> Result<()> {
    browser.go("/sign-in").await?;
    browser.fill("token", token).await?;
    browser.press("Sign in").await
}

#[test]
fn people_use_every_page_in_a_browser_with_scripts_and_without() {
    let story = async |scene: Arc<Scene>| {
        let driver = Driver::start(scene.machine())?;
        ask_for_a_dry_run(&scene)?;
        let scripted = Visitor::come(&driver, &scene, Scripts::On).await?;
        let plain = Visitor::come(&driver, &scene, Scripts::Off).await?;
        let left = somebody_leaves(&scripted.browser, &scene).await?;
        let table = table(&scripted).await?;
        assert_eq!(table, self::table(&plain).await?, "without scripts people see the same");
        println!("{table}");
        assert_documented(&table)?;
        every_page_can_be_read_by_everybody(&scripted).await?;
        a_keyboard_is_enough(&scripted, &scene).await?;
        changes_are_seen_without_loading_the_page_again(&scripted, &scene).await?;
        for visitor in [&scripted, &plain] {
            backups_are_made_and_deleted(visitor, &scene).await?;
            a_restore_is_looked_at_and_started(visitor).await?;
            schedules_are_paused_resumed_and_run(visitor, &scene).await?;
            what_runs_is_cancelled(visitor, &scene).await?;
        }
        what_goes_while_it_is_shown_is_told(&scripted, &plain, &scene).await?;
        scripted.browser.become_again(&left).await?;
        scripted.browser.go("/").await?;
        scripted.browser.until_said_again("Not signed in").await?;
        markup_of_others_is_text(&scripted, &scene).await?;
        nothing_was_asked_of_others_and_no_rule_was_broken(&scripted).await?;
        nothing_was_asked_of_others_and_no_rule_was_broken(&plain).await?;
        the_rules_hold_when_they_are_broken(&scripted).await?;
        driver.stop()
    };
    page::run(BOX, story).unwrap();
}

/// A dry run to look at, whoever asked for it.
fn ask_for_a_dry_run(scene: &Scene) -> Result<()> {
    let spec = json!({"backupName": "shop-1", "namespaceMapping": {"shop": "shop-asked"}});
    let mut wish: velero_api::v1::Restore =
        serde_json::from_value(velero_tests::restores::request(&scene.server, "wish", &spec))?;
    wish = velero_api::dry_run::ask(&wish, "asked");
    scene.apply(&serde_json::to_value(&wish)?)?;
    scene.until("restores", "asked", |asked| asked["status"]["phase"] == "Completed")
}

/// Signs somebody in who then leaves; gives the session.
async fn somebody_leaves(browser: &Browser, scene: &Scene) -> Result<Value> {
    sign_in(browser, &scene.people.leaving_token()?).await?;
    browser.until_headed("Overview").await?;
    let session = browser.session().await?;
    scene.people.leave()?;
    Ok(session)
}

/// What each person sees of each page, as a table.
async fn table(visitor: &Visitor) -> Result<String> {
    let mut rows: Vec<Vec<Seen>> = vec![Vec::new(); PAGES.len()];
    for (account, session) in PEOPLE.into_iter().zip(&visitor.sessions) {
        visitor.browser.become_again(session).await?;
        for ((_, path), row) in PAGES.iter().zip(&mut rows) {
            visitor.browser.go(path).await?;
            row.push(Seen::by(&visitor.browser, account).await.with_context(|| format!("{account} at {path}"))?);
        }
    }
    let mut table = format!("| page | {} |\n|---|---|---|---|\n", PEOPLE.join(" | "));
    for ((page, _), row) in PAGES.iter().zip(rows) {
        writeln!(table, "| `{page}` | {} | {} | {} |", row[0], row[1], row[2])?;
    }
    Ok(table)
}

fn assert_documented(table: &str) -> Result<()> {
    let text = fs::read_to_string(repository_root().join(DOCUMENTED))?;
    assert!(text.contains(table), "{DOCUMENTED} must have this table:\n{table}");
    Ok(())
}

/// Nothing axe finds, in light and in dark; no scrolling to the side on a narrow screen; the keyboard comes everywhere.
async fn every_page_can_be_read_by_everybody(visitor: &Visitor) -> Result<()> {
    let (axe, browser) = (Axe::new()?, visitor.become_operator().await?);
    let mut findings = Vec::new();
    let all = PAGES.iter().map(|(_, path)| *path).chain(MORE).chain(["/sign-in"]);
    for path in all {
        let mut note = |found: Vec<String>| findings.extend(found.into_iter().map(|text| format!("{path}: {text}")));
        browser.go(path).await?;
        let light = browser.run("return getComputedStyle(document.body).backgroundColor").await?;
        note(axe.findings(browser).await?);
        browser.like("dark").await?;
        let dark = browser.run("return getComputedStyle(document.body).backgroundColor").await?;
        ensure!(light != dark, "{path} is {light} in light and in dark");
        note(axe.findings_of(browser, &["color-contrast"]).await?);
        browser.like("light").await?;
        browser.size(320, 640).await?;
        let width = browser.run("return document.documentElement.scrollWidth").await?;
        if width.as_u64().is_none_or(|width| width > 320) {
            note(vec![format!("{width} wide on a screen of 320")]);
        }
        note(axe.findings_of(browser, &["scrollable-region-focusable", "target-size"]).await?);
        browser.size(1100, 800).await?;
        note(page::unreachable_by_keyboard(browser).await?);
    }
    ensure!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
    Ok(())
}

/// Signs in and goes to the content without a mouse.
async fn a_keyboard_is_enough(visitor: &Visitor, scene: &Scene) -> Result<()> {
    const TABULATOR: u8 = 9;
    const ENTER: u8 = 13;
    let browser = &visitor.browser;
    browser.become_again(&json!([])).await?;
    browser.go("/sign-in").await?;
    let focused = "return document.activeElement.name || document.activeElement.textContent";
    let mut steps = 0;
    while browser.run(focused).await? != "token" {
        ensure!(steps < MOST_STEPS, "the tabulator does not come to the token: {}", browser.text().await?);
        browser.key("Tab", TABULATOR).await?;
        steps += 1;
    }
    browser.paste(&scene.people.token("operator")?).await?;
    browser.key("Tab", TABULATOR).await?;
    browser.key("Enter", ENTER).await?;
    browser.until_headed("Overview").await?;
    browser.key("Tab", TABULATOR).await?;
    assert_eq!(browser.run(focused).await?, "To the content", "the first step leads past the menu");
    let place = browser.run("return document.activeElement.getBoundingClientRect().left").await?;
    assert!(place.as_f64().is_some_and(|left| left >= 0.0), "it is seen then: {place}");
    browser.key("Enter", ENTER).await?;
    assert_eq!(browser.run("return document.activeElement.id").await?, "content");
    Ok(())
}

async fn changes_are_seen_without_loading_the_page_again(visitor: &Visitor, scene: &Scene) -> Result<()> {
    let browser = visitor.become_operator().await?;
    for (path, name) in [("/", "live-1"), ("/backups", "live-2")] {
        browser.go(path).await?;
        browser.run("window.sameDocument = true").await?;
        let link = "document.querySelector('[data-live] a[href]')";
        browser.run(&format!("{link}.focus(); window.place = document.activeElement.getAttribute('href')")).await?;
        let begin = Instant::now();
        scene.apply(&failed(name, json!({}), "made for the eye"))?;
        browser.until_said(name).await?;
        println!("{path}: what changed was seen after {:?}", begin.elapsed());
        assert_eq!(browser.run("return window.sameDocument").await?, true, "{path} was loaded again");
        let is_there = "return document.activeElement.getAttribute('href') === window.place";
        assert_eq!(browser.run(is_there).await?, true, "{path}: who goes by keyboard stays where they are");
    }
    what_was_closed_stays_closed(browser, scene).await?;
    // The first page follows what it shows of locations too.
    browser.go("/").await?;
    scene.apply(&json!({
        "apiVersion": "velero.io/v1", "kind": "BackupStorageLocation", "metadata": {"name": "moved", "namespace": NAMESPACE},
        "spec": {"provider": "nobody-knows-it", "objectStorage": {"bucket": "moved"}},
    }))?;
    browser.until_said("Location moved is").await?;
    scene.machine().delete(&format!("{}/moved", scene.server.path("backupstoragelocations")))
}

async fn what_was_closed_stays_closed(browser: &Browser, scene: &Scene) -> Result<()> {
    browser.go("/backups/billing-1").await?;
    let close =
        "window.part = document.querySelector('#state'); window.part.querySelector('details.cause').open = false";
    browser.run(close).await?;
    // Something that the page shows: what looks the same is not exchanged.
    let change = r#"{"status":{"warnings":4711}}"#;
    scene.machine().kubectl(&[
        "-n",
        NAMESPACE,
        "patch",
        "backups.velero.io",
        "billing-1",
        "--type=merge",
        "-p",
        change,
    ])?;
    let begin = Instant::now();
    while browser.run("return document.querySelector('#state') === window.part").await? == true {
        ensure!(begin.elapsed() < PATIENCE, "the page does not follow its backup");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let open = browser.run("return document.querySelector('#state details.cause').open").await?;
    assert_eq!(open, false, "what was closed is open again");
    Ok(())
}

/// A backup that has failed, as objects of others may be.
fn failed(name: &str, spec: Value, reason: &str) -> Value {
    let mut backup = json!({
        "apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": name, "namespace": NAMESPACE},
        "status": {"phase": "Failed", "failureReason": reason},
    });
    backup["spec"] = spec;
    backup
}

async fn backups_are_made_and_deleted(visitor: &Visitor, scene: &Scene) -> Result<()> {
    let (browser, name) = (visitor.become_operator().await?, visitor.own("now"));
    browser.go("/backups").await?;
    browser.press("Back up now").await?;
    browser.fill("name", "No Name").await?;
    browser.press("Show what it would take").await?;
    browser.until_said("cannot be called \"No Name\"").await?;
    browser.fill("name", &name).await?;
    browser.fill("included-namespaces", "shop").await?;
    browser.press("Show what it would take").await?;
    browser.until_said(&format!("velero backup create {name}")).await?;
    browser.until_said("namespaces: shop").await?;
    browser.press("Back up").await?;
    browser.until_at(&format!("/backups/{name}")).await?;
    visitor.until_said("Completed").await?;
    browser.press("As a command").await?;
    browser.until_said("--include-namespaces").await?;
    browser.press("Log").await?;
    browser.fill("search", "configmaps").await?;
    browser.press_in_content("Search").await?;
    browser.until_said("configmaps").await?;

    let place = format!("/backups/{name}/delete");
    browser.go(&place).await?;
    browser.fill("typed", "something-else").await?;
    browser.press("Delete").await?;
    browser.until_said("nothing was deleted").await?;
    browser.go(&place).await?;
    browser.fill("typed", &name).await?;
    browser.press("Delete").await?;
    visitor.until_said("does not exist, or not any more").await?;
    assert!(scene.machine().read_if_there(&format!("{}/{name}", scene.server.path("backups")))?.is_none());
    Ok(())
}

async fn a_restore_is_looked_at_and_started(visitor: &Visitor) -> Result<()> {
    let (browser, name) = (visitor.become_operator().await?, visitor.own("back"));
    browser.go("/backups/shop-1").await?;
    browser.press("Restore").await?;
    browser.fill("name", &name).await?;
    browser.fill("mappings", "shop").await?;
    browser.press("See what it would do").await?;
    browser.until_said("old:new").await?;
    browser.fill("mappings", &format!("shop:{name}")).await?;
    browser.press("As YAML and as a command").await?;
    browser.until_said("velero restore create").await?;
    browser.press("See what it would do").await?;
    browser.until_at("/previews/").await?;
    visitor.until_said("Start the restore").await?;
    let text = browser.text().await?;
    assert!(text.contains(&format!("{name}/settings")) && text.contains("create"), "{text}");
    browser.press("Start the restore").await?;
    browser.until_at(&format!("/restores/{name}")).await?;
    visitor.until_said("Completed").await?;
    browser.press("Objects").await?;
    browser.until_said(&format!("{name}/settings")).await
}

async fn schedules_are_paused_resumed_and_run(visitor: &Visitor, scene: &Scene) -> Result<()> {
    let browser = visitor.become_operator().await?;
    browser.go("/schedules").await?;
    browser.press_in_row("billing-daily", "Pause").await?;
    // It leads to the schedule itself: in the list others are paused too.
    browser.until_at("/schedules/billing-daily").await?;
    browser.until_said("Paused").await?;
    scene.until("schedules", "billing-daily", |found| found["spec"]["paused"] == true)?;
    browser.press("Resume").await?;
    browser.until_said("Enabled").await?;
    scene.until("schedules", "billing-daily", |found| found["spec"]["paused"] != true)?;
    browser.go("/schedules").await?;
    browser.press_in_row("shop-nightly", "Back up now").await?;
    let path = browser.until_at("/backups/shop-nightly-").await?;
    visitor.until_said("Completed").await?;
    // Its name has the second it was made in: the next browser must not come in the same one.
    let name = path.trim_start_matches("/backups/").to_owned();
    backups::ended(&scene.server, &name, PATIENCE).map(drop)
}

/// A backup whose archive does not reach the store, and a restore whose archive does not come.
async fn what_runs_is_cancelled(visitor: &Visitor, scene: &Scene) -> Result<()> {
    let (browser, name) = (visitor.become_operator().await?, visitor.own("endless"));
    scene.hold(true);
    backups::create(&scene.server, &name, &json!({"includedNamespaces": ["shop"], "storageLocation": "slow"}))?;
    let wish = json!({"backupName": "shop-slow", "namespaceMapping": {"shop": name}});
    velero_tests::restores::create(&scene.server, &name, &wish)?;
    for kind in ["backups", "restores"] {
        scene.until(kind, &name, |found| found["status"]["phase"] == "InProgress")?;
        browser.go(&format!("/{kind}/{name}")).await?;
        browser.press("Cancel").await?;
        visitor.until_said("cancelled by request").await?;
        scene.until(kind, &name, |found| found["status"]["phase"] == "Failed")?;
    }
    scene.hold(false);
    Ok(())
}

async fn what_goes_while_it_is_shown_is_told(scripted: &Visitor, plain: &Visitor, scene: &Scene) -> Result<()> {
    for visitor in [scripted, plain] {
        let (browser, name) = (visitor.become_operator().await?, visitor.own("doomed"));
        scene.apply(&failed(&name, json!({}), "it goes soon"))?;
        browser.go(&format!("/backups/{name}")).await?;
        browser.until_said("it goes soon").await?;
        scene.machine().delete(&format!("{}/{name}", scene.server.path("backups")))?;
        if visitor.scripts == Scripts::Off {
            browser.press("Delete").await?;
        }
        browser.until_said("does not exist, or not any more").await?;
        assert_eq!(browser.heading().await?, "Not there");
    }
    Ok(())
}

/// Markup in everything that others can write, and in addresses.
async fn markup_of_others_is_text(visitor: &Visitor, scene: &Scene) -> Result<()> {
    let browser = visitor.become_operator().await?;
    scene.apply(&failed("evil", json!({"excludedNamespaces": [EVIL], "includedResources": [EVIL]}), EVIL))?;
    scene.apply(&velero_testkit::objects::config_map("blog", "evil", "page", EVIL))?;
    let spec = json!({"includedNamespaces": ["blog"], "hooks": {"resources": [{"name": EVIL}]}});
    backups::create(&scene.server, "of-evil", &spec)?;
    let ended = backups::ended(&scene.server, "of-evil", PATIENCE)?;
    assert_eq!(ended["status"]["phase"], "Completed", "{ended}");
    let template = json!({"includedNamespaces": [EVIL]});
    for (kind, name, spec) in [
        ("Schedule", "evil", json!({"schedule": EVIL, "template": template})),
        ("BackupStorageLocation", "evil", json!({"provider": EVIL, "objectStorage": {"bucket": EVIL, "prefix": EVIL}})),
        ("Restore", "evil", json!({"backupName": "of-evil", "namespaceMapping": {"blog": EVIL}})),
    ] {
        scene.apply(&json!({
            "apiVersion": "velero.io/v1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec,
        }))?;
    }
    scene.until("backupstoragelocations", "evil", |found| found["status"]["phase"].is_string())?;
    scene.until("restores", "evil", |found| found["status"]["phase"].is_string())?;
    let typed = "%3Cimg%20src%3Dx%20onerror%3D%22window.owned%3D1%22%3E%3Cscript%3Ewindow.owned%3D1%3C%2Fscript%3E";
    for path in [
        "/".to_owned(),
        "/backups/evil".to_owned(),
        "/restores/evil".to_owned(),
        "/schedules".to_owned(),
        "/locations".to_owned(),
        "/backups/of-evil/object?kind=v1%2FConfigMap&name=blog%2Fevil".to_owned(),
        format!("/backups?search={typed}"),
        format!("/backups?phase={typed}&schedule={typed}&page=1"),
        format!("/restores?search={typed}"),
        format!("/backups/of-evil/log?search={typed}"),
        format!("/backups/of-evil/objects?search={typed}"),
        format!("/backups/of-evil/object?kind={typed}&name={typed}"),
        format!("/backups/{typed}"),
        format!("/new-restore?backup={typed}"),
        format!("/live?kind={typed}"),
        format!("/{typed}"),
    ] {
        browser.go(&path).await?;
        let made = "return [document.scripts.length, document.images.length, window.owned === undefined,
                    document.querySelectorAll('[onerror], [onclick], [style]').length]";
        assert_eq!(browser.run(made).await?, json!([1, 0, true, 0]), "{path}");
    }
    browser.go("/backups/evil").await?;
    browser.press("As YAML").await?;
    browser.until_said(EVIL).await?;
    browser.go("/new-backup").await?;
    browser.fill("name", EVIL).await?;
    browser.press("Show what it would take").await?;
    browser.until_said("cannot be called").await?;
    assert_eq!(browser.value("name").await?, EVIL, "what was typed comes back as it was");
    Ok(())
}

/// What the browser itself wrote down: requests, and rules of the page that something broke.
async fn nothing_was_asked_of_others_and_no_rule_was_broken(visitor: &Visitor) -> Result<()> {
    let requests = requests(&visitor.browser).await?;
    assert!(requests.len() > 100, "{} requests were seen", requests.len());
    let elsewhere: Vec<_> = requests.iter().filter(|address| !address.starts_with(&format!("{ADDRESS}/"))).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:#?}");
    let is_followed = requests.iter().any(|address| address.starts_with(&format!("{ADDRESS}/live?")));
    assert_eq!(is_followed, visitor.scripts == Scripts::On, "the script of the page runs where scripts run");
    let broken = complaints(&visitor.browser).await?;
    assert!(broken.is_empty(), "{broken:#?}");
    println!("{:?}: {} requests, all of them to the page", visitor.scripts, requests.len());
    Ok(())
}

/// The addresses that were asked for since this was last looked at.
async fn requests(browser: &Browser) -> Result<Vec<String>> {
    let mut addresses = Vec::new();
    for entry in browser.log("performance").await? {
        let message: Value = serde_json::from_str(entry["message"].as_str().unwrap_or_default())?;
        if message["message"]["method"] == "Network.requestWillBeSent" {
            let address = message["message"]["params"]["request"]["url"].as_str().unwrap_or_default();
            addresses.push(address.to_owned());
        }
    }
    Ok(addresses)
}

/// What the browser complained of, but for answers that are no success: those are the page's own words.
async fn complaints(browser: &Browser) -> Result<Vec<String>> {
    let entries = browser.log("browser").await?;
    let texts = entries.iter().map(|entry| entry["message"].as_str().unwrap_or_default().to_owned());
    Ok(texts.filter(|text| !text.contains("the server responded with a status of")).collect())
}

/// Does by force what markup of others would: the browser refuses each, and says so. Otherwise what it did not complain of
/// above would mean nothing.
async fn the_rules_hold_when_they_are_broken(visitor: &Visitor) -> Result<()> {
    let browser = visitor.become_operator().await?;
    browser.go("/").await?;
    browser
        .run(
            "document.body.insertAdjacentHTML('beforeend', '<img src=\"http://elsewhere.example/x.png\" onerror=\"window.owned = 1\">');
             const script = document.createElement('script');
             script.textContent = 'window.owned = 1';
             document.body.append(script);
             const foreign = document.createElement('script');
             foreign.src = 'http://elsewhere.example/x.js';
             document.body.append(foreign);
             return fetch('http://elsewhere.example/').catch(() => null).then(() => null)",
        )
        .await?;
    assert_eq!(browser.run("return window.owned === undefined").await?, true);
    let broken = complaints(browser).await?;
    let refused = broken.iter().filter(|text| text.contains("Content Security Policy")).count();
    assert!(refused >= 4, "{broken:#?}");
    Ok(())
}
