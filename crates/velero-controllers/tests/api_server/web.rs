//! The page, asked over HTTP by people of different rights.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use velero_api::metadata;
use velero_api::v1::{
    Backup, BackupPhase, BackupSpec, DeleteBackupRequest, Restore, RestorePhase, Schedule, ScheduleSpec,
};
use velero_controllers::server::Settings;
use velero_testkit::{TestCluster, cluster_test};

use crate::support::{PATIENCE, Server, Workload, assert_phase, delete_namespace, settings};

const EVIL: &str = "<script>alert(1)</script>";

/// A browser without scripts: it keeps cookies and fills forms in.
struct Browser {
    address: String,
    cookies: BTreeMap<String, String>,
}

/// What a browser gets.
struct Page {
    code: u16,
    head: String,
    body: String,
}

impl Page {
    fn header(&self, wanted: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value).next()
    }

    fn form_token(&self) -> String {
        let (_, rest) = self.body.split_once("name=\"form-token\" value=\"").expect("a form");
        rest.split_once('"').unwrap().0.to_owned()
    }
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

impl Browser {
    fn new(address: &str) -> Self {
        Self { address: address.to_owned(), cookies: BTreeMap::new() }
    }

    async fn signed_in(address: &str, token: &str) -> Self {
        let mut browser = Self::new(address);
        let answer = browser.post("/sign-in", &[("token", token)]).await;
        assert_eq!((answer.code, answer.header("location")), (303, Some("/")), "{}", answer.body);
        browser
    }

    async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Page {
        let mut stream = tokio::net::TcpStream::connect(&self.address).await.unwrap();
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut request = format!("{method} {path} HTTP/1.0\r\nHost: {}\r\n", self.address);
        if !cookies.is_empty() {
            request += &format!("Cookie: {}\r\n", cookies.join("; "));
        }
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await;
        read.expect("an answer").unwrap();
        let text = String::from_utf8(answer).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        let page = Page { code, head: head.to_owned(), body: body.to_owned() };
        self.take_cookies(&page);
        page
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

    async fn get(&mut self, path: &str) -> Page {
        self.send("GET", path, &[], "").await
    }

    /// Sends a form, as a browser would from one of our pages.
    async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let origin = format!("http://{}", self.address);
        let body: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let headers = [("Origin", origin.as_str()), ("Content-Type", "application/x-www-form-urlencoded")];
        self.send("POST", path, &headers, &body.join("&")).await
    }

    /// Fills in the form of a page and sends it.
    async fn fill_in(&mut self, page: &str, action: &str, fields: &[(&str, &str)]) -> Page {
        let token = self.get(page).await.form_token();
        let fields: Vec<(&str, &str)> =
            [("form-token", token.as_str())].into_iter().chain(fields.iter().copied()).collect();
        self.post(action, &fields).await
    }
}

/// Makes people of different rights; gives their tokens.
struct People {
    cluster: TestCluster,
    role: String,
}

impl People {
    fn make(cluster: &TestCluster) -> Self {
        let people = Self { cluster: cluster.clone(), role: format!("page-{}", cluster.namespace) };
        let role = people.role.clone();
        for account in ["nobody", "viewer", "operator"] {
            people.kubectl(&format!("create serviceaccount {account}"));
        }
        people.kubectl(
            "create role viewer --verb=get,list --resource=backups.velero.io,restores.velero.io,schedules.velero.io,\
             backupstoragelocations.velero.io",
        );
        let all =
            ["backups", "restores", "schedules", "backupstoragelocations", "downloadrequests", "deletebackuprequests"];
        let all = all.map(|resource| format!("{resource}.velero.io")).join(",");
        people.kubectl(&format!("create role operator --verb=get,list,create,patch,delete --resource={all}"));
        for account in ["viewer", "operator"] {
            let user = format!("{}:{account}", cluster.namespace);
            people.kubectl(&format!("create rolebinding {account} --role={account} --serviceaccount={user}"));
        }
        people.kubectl(&format!("create clusterrole {role} --verb=list --resource=namespaces,persistentvolumeclaims"));
        let user = format!("{}:operator", cluster.namespace);
        people.kubectl(&format!("create clusterrolebinding {role} --clusterrole={role} --serviceaccount={user}"));
        people
    }

    fn kubectl(&self, line: &str) -> String {
        let words: Vec<&str> = ["-n", &self.cluster.namespace].into_iter().chain(line.split(' ')).collect();
        self.cluster.test_box.machine().kubectl(&words).unwrap()
    }

    fn token(&self, account: &str) -> String {
        self.kubectl(&format!("create token {account}")).trim().to_owned()
    }

    fn remove(self) {
        let role = &self.role;
        self.kubectl(&format!("delete clusterrolebinding {role}"));
        self.kubectl(&format!("delete clusterrole {role}"));
    }
}

/// A server with a page, and where that is.
async fn with_page(cluster: &TestCluster) -> (Server, String) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let settings = Settings { web_address: address.clone(), ..settings(cluster) };
    (Server::start_with(cluster.clone(), settings).await, address)
}

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
        let rows: [(&str, [u16; 3], &str); 14] = [
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
            ("/new-backup", [403, 403, 200], "Back up now"),
        ];
        assert_table(&people, &address, &rows).await;
        let mut nobody = Browser::signed_in(&address, &people.token("nobody")).await;
        let overview = nobody.get("/").await.body;
        assert_eq!(overview.matches("A right is missing").count(), 3, "{overview}");
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

/// What every answer carries, whatever it is.
const ALWAYS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];

#[test]
fn every_kind_of_answer_has_the_headers_that_keep_others_out() {
    cluster_test(|cluster| async move {
        let (server, address) = with_page(&cluster).await;
        let people = People::make(&cluster);
        let mut stranger = Browser::new(&address);
        let mut operator = Browser::signed_in(&address, &people.token("operator")).await;
        let mut viewer = Browser::signed_in(&address, &people.token("viewer")).await;
        let own = format!("http://{address}");
        let form = ("Content-Type", "application/x-www-form-urlencoded");
        let large = format!("token={}", "x".repeat(100 << 10));
        let answers = [
            (stranger.get("/").await, 303, "no-store"),
            (stranger.get("/sign-in").await, 200, "no-store"),
            (stranger.get("/style.css").await, 200, "private, max-age=300"),
            (stranger.get("/script.js").await, 200, "private, max-age=300"),
            (stranger.get("/nothing").await, 404, "no-store"),
            (stranger.post("/sign-in", &[("token", "wrong")]).await, 401, "no-store"),
            (stranger.send("POST", "/sign-in", &[form, ("Origin", &own)], &large).await, 400, "no-store"),
            (stranger.send("POST", "/sign-in", &[form], "token=x").await, 403, "no-store"),
            (stranger.send("DELETE", "/backups/x", &[("Origin", &own)], "").await, 405, "no-store"),
            (stranger.send("OPTIONS", "/", &[("Origin", "http://evil.example")], "").await, 403, "no-store"),
            (operator.get("/").await, 200, "no-store"),
            (operator.get("/backups/absent").await, 404, "no-store"),
            (operator.get("/backups/%2e%2e%2fsecrets").await, 404, "no-store"),
            (operator.get("/backups?page=none").await, 400, "no-store"),
            (operator.get("/new-restore").await, 400, "no-store"),
            (operator.get("/live?kind=secrets").await, 400, "no-store"),
            (operator.post("/new-backup", &[("name", "x")]).await, 403, "no-store"),
            (viewer.get("/coverage").await, 403, "no-store"),
        ];
        for (answer, code, kept) in answers {
            assert_eq!(answer.code, code, "{}\n{}", answer.head, answer.body);
            for (name, value) in ALWAYS.into_iter().chain([("cache-control", kept)]) {
                assert_eq!(answer.header(name), Some(value), "{name} of\n{}", answer.head);
            }
            assert_eq!(answer.header("server"), None);
            assert_eq!(answer.header("access-control-allow-origin"), None, "no other site may read it");
        }
        people.remove();
        server.stop().await;
    });
}

/// Asks for something and reads nothing of the answer but its first bytes.
async fn begun(browser: &Browser, path: &str) -> (tokio::net::TcpStream, String) {
    let cookies: Vec<String> = browser.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n", browser.address, cookies.join("; "));
    let mut stream = tokio::net::TcpStream::connect(&browser.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_exact(&mut first)).await;
    read.expect("an answer").unwrap();
    (stream, String::from_utf8(first.to_vec()).unwrap())
}

#[test]
fn hundreds_of_tabs_and_slow_readers_leave_room_for_others() {
    cluster_test(|cluster| async move {
        let (server, address) = with_page(&cluster).await;
        let people = People::make(&cluster);
        let mut viewer = Browser::signed_in(&address, &people.token("viewer")).await;
        let mut tabs = Vec::new();
        for _ in 0..256 {
            let (tab, answer) = begun(&viewer, "/live?kind=backups").await;
            assert_eq!(answer, "HTTP/1.1 200");
            tabs.push(tab);
        }
        let (_, answer) = begun(&viewer, "/live?kind=backups").await;
        assert_eq!(answer, "HTTP/1.1 502", "one tab more is not told of changes");
        let mut slow = Vec::new();
        for _ in 0..200 {
            slow.push(begun(&viewer, "/backups").await);
        }
        let mut silent = Vec::new();
        for _ in 0..40 {
            silent.push(tokio::net::TcpStream::connect(&address).await.unwrap());
        }
        let page = viewer.get("/").await;
        assert_eq!(page.code, 200, "a tab more shows what is there now\n{}", page.body);
        tabs.pop();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while begun(&viewer, "/live?kind=backups").await.1 != "HTTP/1.1 200" {
            assert!(tokio::time::Instant::now() < deadline, "the place of a tab that was closed is free");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        people.remove();
        server.stop().await;
    });
}

/// What the tests of actions share: a server with a page, a namespace to save, and two people.
struct Scene {
    server: Server,
    workload: Workload,
    people: People,
    operator: Browser,
    viewer: Browser,
}

impl Scene {
    async fn begin(cluster: &TestCluster, directory: &Path) -> Self {
        let (server, address) = with_page(cluster).await;
        let workload = Workload::new(cluster, 1).await;
        server.directory_location("default", directory).await;
        let people = People::make(cluster);
        let operator = Browser::signed_in(&address, &people.token("operator")).await;
        let viewer = Browser::signed_in(&address, &people.token("viewer")).await;
        Self { server, workload, people, operator, viewer }
    }

    async fn end(self) {
        self.people.remove();
        self.workload.delete().await;
        self.server.stop().await;
    }

    async fn until_backed_up(&self, name: &str) {
        self.server.until(name, |backup: &Backup| *backup.status.phase() == BackupPhase::Completed).await;
    }
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
            assert_eq!(scene.operator.fill_in("/", &address, &[]).await.code, 303);
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
        let ended = scene.server.until("back", |restore: &Restore| restore.status.phase().is_terminal()).await;
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
