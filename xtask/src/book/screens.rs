//! Pictures of the page, as somebody sees it who may do everything: of what really happened in a box.

use std::fs;
use std::sync::Arc;

use anyhow::{Result, ensure};
use velero_testkit::install::{self, repository_root};
use velero_testkit::{Edition, objects};
use velero_tests::page::{self, ADDRESS, Browser, Driver, Scene, Scripts};

use crate::output::out;

const BOX: &str = "screens";
const FOLDER: &str = "docs/page";
/// The largest picture, in bytes: they stay in the history for good.
const LARGEST: usize = 100 << 10;
const WIDTH: u32 = 1100;

/// Takes the pictures.
pub(super) fn take() -> Result<()> {
    Edition::Ours.install()?;
    install::browser_packages()?;
    page::run(BOX, |scene| async move { take_all(&scene).await })
}

async fn take_all(scene: &Arc<Scene>) -> Result<()> {
    let driver = Driver::start(scene.machine())?;
    let browser = driver.browser(ADDRESS, Scripts::On).await?;
    browser.like("light").await?;
    browser.go("/sign-in").await?;
    browser.fill("token", &scene.people.token("operator")?).await?;
    browser.press("Sign in").await?;
    browser.until_headed("Overview").await?;
    for (name, path, height, scheme) in [
        ("overview", "/", 860, "light"),
        ("overview-dark", "/", 860, "dark"),
        ("coverage", "/coverage", 540, "light"),
        ("backup", "/backups/billing-1", 760, "light"),
    ] {
        browser.like(scheme).await?;
        browser.go(path).await?;
        if name == "backup" {
            browser.press("2× A hook in a container failed").await?;
        }
        keep(&browser, name, height).await?;
    }
    browser.like("light").await?;
    look_at_a_restore(&browser, scene).await?;
    keep(&browser, "dry-run", 700).await?;
    browser.close().await?;
    driver.stop()
}

/// Somebody has changed one object of the shop, and another one is gone.
async fn look_at_a_restore(browser: &Browser, scene: &Scene) -> Result<()> {
    scene.apply(&objects::config_map("shop", "settings", "greeting", "go away"))?;
    scene.machine().delete("/api/v1/namespaces/shop/configmaps/shelf-3")?;
    browser.go("/new-restore?backup=shop-1").await?;
    browser.fill("name", "shop-again").await?;
    browser.fill("included-resources", "configmaps,services").await?;
    browser.tick("update").await?;
    browser.press("See what it would do").await?;
    browser.until_said("Start the restore").await?;
    browser.press("1 change").await
}

async fn keep(browser: &Browser, name: &str, height: u32) -> Result<()> {
    browser.size(WIDTH, height).await?;
    let picture = browser.picture().await?;
    ensure!(picture.len() <= LARGEST, "{name} has {} bytes, more than {LARGEST}", picture.len());
    let folder = repository_root().join(FOLDER);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("{name}.png")), &picture)?;
    out!("{FOLDER}/{name}.png: {} bytes", picture.len());
    Ok(())
}
