//! The page, asked over HTTP by people of different rights.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use velero_api::metadata;
use velero_api::v1::{
    Backup, BackupPhase, BackupSpec, DeleteBackupRequest, Restore, RestorePhase, RestoreSpec, Schedule, ScheduleSpec,
};
use velero_testkit::cluster_test;

use crate::support::{PATIENCE, Workload, assert_phase, delete_namespace};
use crate::web_support::{Browser, EVIL, People, Scene, encoded, with_page};

/// Asks for pages as each person, prints what each saw, and holds it against the codes and words that are expected.
async fn assert_table(people: &People, address: &str, rows: &[(&str, [u16; 3], &str)]) {
    println!("page | nobody | viewer | operator");
    let mut seen: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
    for (number, account) in ["nobody", "viewer", "operator"].into_iter().enumerate() {
        let mut browser = Browser::signed_in(address, &people.token(account)).await;
        let missing = format!("{}:{account} may not", people.cluster.namespace);
        for (path, codes, words) in rows {
            let page = browser.get(path).await;
            assert_eq!(page.code, codes[number], "{account} {path}\n{}", page.body);
            assert!(!page.body.contains(EVIL), "{account} {path}");
            match page.code {
                200 => assert!(page.body.contains(words), "{account} {path}\n{}", page.body),
                403 => assert!(page.body.contains(&missing), "{account} {path}\n{}", page.body),
                _ => {}
            }
            assert!(page.body.len() < 100 << 10, "{path}: {} bytes", page.body.len());
            seen.entry(*path).or_default().push(page.code);
        }
    }
    for (path, codes) in seen {
        println!("{path} | {} | {} | {}", codes[0], codes[1], codes[2]);
    }
}

#[test]
fn pages_show_each_person_what_that_person_may_see_and_say_what_is_missing() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let (server, address) = with_page(&cluster).await;
        let workload = Workload::new(&cluster, 2).await;
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("first", workload.spec()).await, &BackupPhase::Completed);
        let mut evil = Backup::new(&cluster.namespace, "evil", BackupSpec::default());
        evil.status.phase = Some(BackupPhase::Failed);
        evil.status.failure_reason = EVIL.to_owned();
        evil.spec.excluded_namespaces = vec![format!("\"'{EVIL}")];
        server.create(evil).await;
        let people = People::make(&cluster);

        let object = format!("/backups/first/object?kind=v1%2FNamespace&name={}", workload.namespace);
        let rows: [(&str, [u16; 3], &str); 18] = [
            ("/", [200, 200, 200], "Overview"),
            ("/coverage", [403, 403, 200], &workload.namespace),
            ("/backups", [403, 200, 200], "first"),
            ("/backups?search=none-like-that", [403, 200, 200], "No backup is like that"),
            ("/backups/first", [403, 200, 200], "Completed"),
            ("/backups/evil", [403, 200, 200], "&lt;script&gt;"),
            ("/backups/absent", [403, 404, 404], ""),
            ("/backups/first/log?search=LEVEL", [403, 403, 200], "level=info"),
            ("/backups/first/objects?search=configmap", [403, 403, 200], "v1/ConfigMap"),
            (&object, [403, 403, 200], "kind: Namespace"),
            ("/restores", [403, 200, 200], "Restores"),
            ("/schedules", [403, 200, 200], "There is no schedule"),
            ("/locations", [403, 200, 200], "Available"),
            ("/locations/default", [403, 200, 200], "velero backup-location create default"),
            ("/schedules/absent", [403, 404, 404], ""),
            ("/search?name=settings", [403, 403, 200], "1 of 2 backups hold it"),
            ("/backups/first/compare", [403, 403, 200], "Compare with the cluster"),
            ("/new-backup", [403, 403, 200], "Back up now"),
        ];
        assert_table(&people, &address, &rows).await;
        let mut nobody = Browser::signed_in(&address, &people.token("nobody")).await;
        let overview = nobody.get("/").await.body;
        assert_eq!(overview.matches("A right is missing").count(), 4, "{overview}");
        assert!(!overview.contains("first") && overview.contains("list backups.velero.io"), "{overview}");

        // The store goes away: the page says so and shows the rest.
        let mut operator = Browser::signed_in(&address, &people.token("operator")).await;
        drop(directory);
        let page = operator.get("/backups/first").await;
        assert_eq!(page.code, 200);
        assert!(page.body.contains("Completed") && page.body.contains("class=\"note\""), "{}", page.body);
        people.remove();
        workload.delete().await;
        server.stop().await;
    });
}

/// Asks for a page until it says something: what has changed reaches it a moment later.
async fn until_said(browser: &mut Browser, path: &str, words: &str) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let page = browser.get(path).await;
        if page.body.contains(words) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{path} does not say {words:?}\n{}", page.body);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn why_a_backup_could_not_be_deleted_is_told_on_its_page() {
    cluster_test(|cluster| async move {
        let (server, address) = with_page(&cluster).await;
        let people = People::make(&cluster);
        // It may own files in a location that is not there.
        let mut kept = Backup::new(&cluster.namespace, "kept", BackupSpec::default());
        kept.spec.storage_location = "gone".to_owned();
        kept.status.phase = Some(BackupPhase::Failed);
        let uid = metadata::uid(&server.create(kept).await).to_owned();
        let mut operator = Browser::signed_in(&address, &people.token("operator")).await;
        let place = "/backups/kept/delete";
        let deleted = operator.fill_in(place, place, &[("typed", "kept"), ("uid", &uid)]).await;
        assert_eq!(deleted.code, 303, "{}", deleted.body);
        until_said(&mut operator, "/backups/kept", "backup storage location gone not found").await;
        let page = operator.get("/backups/kept").await.body;
        assert!(page.contains("It could not be deleted") && page.contains("Processed"), "{page}");
        let mut viewer = Browser::signed_in(&address, &people.token("viewer")).await;
        let page = viewer.get("/backups/kept").await.body;
        assert!(page.contains("may not list deletebackuprequests.velero.io"), "{page}");
        assert!(!page.contains("gone not found"), "{page}");
        people.remove();
        server.stop().await;
    });
}

#[test]
fn the_overview_tells_of_failed_restores_and_of_schedules_that_failed_long_ago() {
    cluster_test(|cluster| async move {
        let (server, address) = with_page(&cluster).await;
        let people = People::make(&cluster);
        let mut viewer = Browser::signed_in(&address, &people.token("viewer")).await;
        let spec = RestoreSpec { backup_name: "absent".to_owned(), ..RestoreSpec::default() };
        server.restore("astray", spec).await;
        until_said(&mut viewer, "/", "href=\"/restores/astray\"").await;
        for name in ["weekly", "monthly"] {
            let failed = json!({
                "apiVersion": "velero.io/v1", "kind": "Backup",
                "metadata": {
                    "name": format!("{name}-1"), "namespace": cluster.namespace, "labels": {"velero.io/schedule-name": name},
                },
                "spec": {}, "status": {"phase": "Failed", "startTimestamp": "2026-01-01T00:00:00Z"},
            });
            cluster.test_box.machine().apply(&failed.to_string()).unwrap();
        }
        let spec = ScheduleSpec { schedule: "0 1 1 1 *".to_owned(), ..ScheduleSpec::default() };
        server.create(Schedule::new(&cluster.namespace, "weekly", spec)).await;
        until_said(&mut viewer, "/", "Schedules whose last backup is no good").await;
        let page = viewer.get("/").await.body;
        assert!(page.contains("href=\"/backups/weekly-1\""), "{page}");
        assert!(!page.contains("href=\"/schedules/monthly\""), "that schedule is gone\n{page}");
        people.remove();
        server.stop().await;
    });
}

#[test]
fn what_cannot_be_read_is_named_wherever_it_would_count() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let (server, address) = with_page(&cluster).await;
        server.directory_location("default", directory.path()).await;
        let people = People::make(&cluster);
        let metadata = json!({"name": "odd", "namespace": cluster.namespace});
        let ttl = json!({"ttl": "a month"});
        for (kind, spec) in [("Backup", ttl.clone()), ("Schedule", json!({"schedule": "@yearly", "template": ttl}))] {
            let odd = json!({"apiVersion": "velero.io/v1", "kind": kind, "metadata": metadata, "spec": spec});
            cluster.test_box.machine().apply(&odd.to_string()).unwrap();
        }
        let mut operator = Browser::signed_in(&address, &people.token("operator")).await;
        for path in ["/", "/backups", "/search?name=settings", "/coverage", "/locations/default"] {
            until_said(&mut operator, path, "href=\"/backups/odd\"").await;
        }
        for path in ["/", "/schedules", "/coverage"] {
            until_said(&mut operator, path, "href=\"/schedules/odd\"").await;
        }
        people.remove();
        server.stop().await;
    });
}

#[test]
fn nobody_comes_in_without_a_token_of_the_cluster() {
    cluster_test(|cluster| async move {
        let (server, address) = with_page(&cluster).await;
        let people = People::make(&cluster);
        let mut stranger = Browser::new(&address);
        for path in ["/", "/backups", "/coverage", "/live?kind=backups", "/previews/x", "/backups/x/delete"] {
            let page = stranger.get(path).await;
            assert_eq!((page.code, page.header("location")), (303, Some("/sign-in")), "{path}");
        }
        for token in ["wrong", "a.b.c", &format!("{}x", people.token("operator"))] {
            let page = stranger.post("/sign-in", &[("token", token)]).await;
            assert_eq!(page.code, 401, "{}", page.body);
            assert!(!page.body.contains(token) && stranger.cookies.is_empty());
        }
        let foreign = people.kubectl("create token operator --audience=https://elsewhere.example");
        assert_eq!(stranger.post("/sign-in", &[("token", foreign.trim())]).await.code, 401, "for another audience");
        for token in ["", "two words", &"x".repeat(11 << 10)] {
            assert_eq!(stranger.post("/sign-in", &[("token", token)]).await.code, 400);
        }
        for _ in 0..6 {
            stranger.post("/sign-in", &[("token", "wrong")]).await;
        }
        assert_eq!(stranger.post("/sign-in", &[("token", "wrong")]).await.code, 429, "it was tried often enough");
        people.remove();
        server.stop().await;
    });
}

#[test]
fn nothing_is_done_for_other_sites_nor_with_the_forms_of_other_sessions() {
    cluster_test(|cluster| async move {
        let (server, address) = with_page(&cluster).await;
        let people = People::make(&cluster);
        let token = people.token("operator");
        let mut operator = Browser::signed_in(&address, &token).await;
        let page = operator.get("/new-backup").await;
        for (name, part) in [
            ("content-security-policy", "default-src 'none'; script-src 'self'"),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("cache-control", "no-store"),
            ("referrer-policy", "same-origin"),
        ] {
            assert!(page.header(name).is_some_and(|value| value.contains(part)), "{name}\n{}", page.head);
        }
        assert!(!page.body.contains(&token) && !page.body.contains(" style=") && !page.body.contains(" onclick="));
        let body = format!("form-token={}&name=stolen&do=create", encoded(&page.form_token()));
        let form = ("Content-Type", "application/x-www-form-urlencoded");
        let own = format!("http://{address}");
        for (headers, code) in [
            (vec![form], 403),
            (vec![form, ("Origin", "http://evil.example")], 403),
            (vec![form, ("Origin", "null")], 403),
            (vec![form, ("Origin", &own), ("Sec-Fetch-Site", "cross-site")], 403),
            (vec![("Origin", &own)], 400),
        ] {
            assert_eq!(operator.send("POST", "/new-backup", &headers, &body).await.code, code, "{headers:?}");
        }
        assert_eq!(
            operator.post("/new-backup", &[("name", "stolen"), ("do", "create")]).await.code,
            403,
            "no form token"
        );
        let mut other = Browser::signed_in(&address, &people.token("operator")).await;
        let others = other.get("/new-backup").await.form_token();
        let page = operator.post("/new-backup", &[("form-token", &others), ("name", "stolen"), ("do", "create")]).await;
        assert_eq!(page.code, 403, "the form of another session");
        assert!(server.api::<Backup>().get_opt("stolen").await.unwrap().is_none());
        let large = "x".repeat(20 << 10);
        assert_eq!(operator.post("/new-backup", &[("form-token", &large)]).await.code, 400, "a field without end");

        operator.fill_in("/", "/sign-out", &[]).await;
        assert!(operator.cookies.is_empty());
        assert_eq!(operator.get("/backups").await.code, 303);
        people.remove();
        server.stop().await;
    });
}

#[test]
fn who_may_back_up_does_so_from_a_form_or_a_schedule_and_others_are_refused() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let mut scene = Scene::begin(&cluster, directory.path()).await;
        let namespace = scene.workload.namespace.clone();
        let mut fields = vec![("name", "now"), ("included-namespaces", namespace.as_str())];
        let preview = scene.operator.fill_in("/new-backup", "/new-backup", &fields).await;
        assert_eq!(preview.code, 200, "{}", preview.body);
        assert!(
            preview.body.contains("1 of ") && preview.body.contains("velero backup create now"),
            "{}",
            preview.body
        );
        assert!(scene.server.api::<Backup>().get_opt("now").await.unwrap().is_none(), "nothing was done yet");
        fields.push(("do", "create"));
        let refused = scene.viewer.fill_in("/", "/new-backup", &fields).await;
        assert_eq!(refused.code, 403);
        assert!(refused.body.contains("may not create backups.velero.io"), "{}", refused.body);
        let made = scene.operator.fill_in("/new-backup", "/new-backup", &fields).await;
        assert_eq!((made.code, made.header("location")), (303, Some("/backups/now")), "{}", made.body);
        scene.until_backed_up("now").await;
        assert_eq!(scene.operator.fill_in("/", "/backups/now/cancel", &[]).await.code, 422, "it has ended");

        let template = scene.workload.spec();
        let spec = ScheduleSpec { template, schedule: "0 1 1 1 *".to_owned(), ..ScheduleSpec::default() };
        scene.server.create(Schedule::new(&cluster.namespace, "yearly", spec)).await;
        for (verb, paused) in [("pause", true), ("resume", false)] {
            let address = format!("/schedules/yearly/{verb}");
            assert_eq!(scene.viewer.fill_in("/", &address, &[]).await.code, 403);
            let changed = scene.operator.fill_in("/", &address, &[]).await;
            assert_eq!((changed.code, changed.header("location")), (303, Some("/schedules/yearly")));
            let shown = scene.operator.get("/schedules/yearly").await.body;
            assert!(shown.contains(if paused { ">Resume<" } else { ">Pause<" }), "as it is now\n{shown}");
            assert_eq!(scene.server.api::<Schedule>().get("yearly").await.unwrap().spec.paused, paused);
        }
        let run = scene.operator.fill_in("/", "/schedules/yearly/run", &[]).await;
        let of_schedule = run.header("location").unwrap().rsplit_once('/').unwrap().1.to_owned();
        assert!(of_schedule.starts_with("yearly-"), "{of_schedule}");
        scene.until_backed_up(&of_schedule).await;
        scene.end().await;
    });
}

#[test]
fn a_restore_is_looked_at_before_it_is_started_and_a_backup_goes_once_its_name_is_typed() {
    cluster_test(|cluster| async move {
        let directory = tempfile::tempdir().unwrap();
        let mut scene = Scene::begin(&cluster, directory.path()).await;
        let namespace = scene.workload.namespace.clone();
        assert_phase(&scene.server.backup("now", scene.workload.spec()).await, &BackupPhase::Completed);
        let mapping = format!("{namespace}:{namespace}-copy");
        let wish = [("backup", "now"), ("name", "back"), ("mappings", mapping.as_str()), ("restore-volumes", "on")];
        let asked = scene.operator.fill_in("/new-restore?backup=now", "/new-restore", &wish).await;
        let place = asked.header("location").unwrap_or_else(|| panic!("{}", asked.body)).to_owned();
        let question = place.rsplit_once('/').unwrap().1.to_owned();
        let answered = |restore: &Restore| *restore.status.phase() == RestorePhase::Completed;
        scene.server.until(&question, answered).await;
        let shown = scene.operator.get(&place).await;
        assert!(shown.body.contains("Start the restore") && shown.body.contains("configmaps"), "{}", shown.body);
        assert!(scene.server.api::<Restore>().get_opt("back").await.unwrap().is_none(), "nothing was done yet");
        assert_eq!(scene.viewer.fill_in("/", &place, &[]).await.code, 403);
        let started = scene.operator.fill_in(&place, &place, &[]).await;
        assert_eq!(started.header("location"), Some("/restores/back"), "{}", started.body);
        let ended = scene.server.restore_ended("back").await;
        assert_eq!(*ended.status.phase(), RestorePhase::Completed, "{ended:?}");
        assert!(scene.operator.get("/restores/back").await.body.contains("Completed"));
        scene.server.until_gone::<Restore>(&question).await;

        let place = "/backups/now/delete";
        assert_eq!(scene.viewer.fill_in("/", place, &[("typed", "now")]).await.code, 403);
        assert_eq!(scene.operator.fill_in(place, place, &[("typed", "no")]).await.code, 400);
        let requests = scene.server.api::<DeleteBackupRequest>().list(&Default::default()).await.unwrap();
        assert!(requests.items.is_empty(), "nothing was deleted yet");
        let uid = metadata::uid(&scene.server.api::<Backup>().get("now").await.unwrap()).to_owned();
        assert!(scene.operator.get(place).await.body.contains(&format!("name=\"uid\" value=\"{uid}\"")));
        let other = [("typed", "now"), ("uid", "of-another-backup-of-this-name")];
        assert_eq!(scene.operator.fill_in(place, place, &other).await.code, 409);
        let requests = scene.server.api::<DeleteBackupRequest>().list(&Default::default()).await.unwrap();
        assert!(requests.items.is_empty(), "only the backup that was shown is deleted");
        let deleted = scene.operator.fill_in(place, place, &[("typed", "now"), ("uid", &uid)]).await;
        assert_eq!(deleted.code, 303, "{}", deleted.body);
        scene.server.until_gone::<Backup>("now").await;
        let gone = scene.operator.get("/backups/now").await;
        assert_eq!(gone.code, 404);
        assert!(gone.body.contains("does not exist, or not any more"), "{}", gone.body);
        delete_namespace(&cluster, &format!("{namespace}-copy")).await;
        scene.end().await;
    });
}
