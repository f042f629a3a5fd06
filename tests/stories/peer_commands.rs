//! Either command line drives either server, and both print the same.

use anyhow::Result;
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, TestCluster, VeleroServer, harness, load, objects};

const EDITIONS: [Edition; 2] = [Edition::Ours, Edition::Peer];
/// How often both are asked the same.
const TRIES: usize = 5;

fn start(cluster: &TestCluster, edition: Edition) -> VeleroServer {
    let namespace = format!("velero-{}", format!("{edition:?}").to_lowercase());
    let options = ServerOptions { prefix: harness::unique_name("commands"), namespace, ..ServerOptions::default() };
    VeleroServer::up(&cluster.test_box, edition, options).unwrap()
}

/// The life of a backup by one command line on one server.
fn whole_life(server: &VeleroServer, cli: Edition, name: &str) {
    let velero = |arguments: &[&str]| server.velero_of(cli, arguments).unwrap();
    let created = velero(&["backup", "create", name, "--include-namespaces", "shop", "--labels", "by=cli", "--wait"]);
    assert!(created.contains(&format!("Backup request \"{name}\" submitted successfully.")), "{created}");
    assert!(created.contains("Backup completed with status: Completed"), "{created}");
    let listed = velero(&["backup", "get", name]);
    assert!(listed.contains(name) && listed.contains("Completed"), "{listed}");
    let described = velero(&["backup", "describe", name, "--details"]);
    assert!(described.contains("Phase:  Completed") && described.contains("shop/stock"), "{described}");
    let logs = velero(&["backup", "logs", name]);
    assert!(logs.contains("level=info"), "{logs}");
    let file = server.machine().state().join(format!("{name}.tar.gz")).display().to_string();
    velero(&["backup", "download", name, "--output", &file, "--force"]);
    let listing = server.machine().run("tar", ["tzf", &file]).unwrap();
    assert!(listing.contains("resources/configmaps/namespaces/shop/stock.json"), "{listing}");
}

fn delete(server: &VeleroServer, cli: Edition, name: &str) {
    let deleted = server.velero_of(cli, &["backup", "delete", name, "--confirm"]).unwrap();
    assert!(deleted.contains(&format!("Request to delete backup \"{name}\" submitted successfully.")), "{deleted}");
    let gone = velero_testkit::machine::wait_until("the backup to go", std::time::Duration::from_secs(60), || {
        let left = server.machine().names_at(&server.path("backups"))?;
        anyhow::ensure!(!left.iter().any(|backup| backup == name), "still there: {left:?}");
        Ok(())
    });
    gone.unwrap();
}

/// What both command lines must print alike.
const COMMANDS: &[&[&str]] = &[
    &["backup", "get"],
    &["get", "backups", "--show-labels"],
    &["backup", "get", "by-ours", "-o", "json"],
    &["backup", "get", "-o", "yaml"],
    &["backup", "describe", "by-peer"],
    &["backup", "describe", "by-ours", "--details"],
    &["backup", "describe", "by-ours", "-o", "json"],
    &["describe", "backups", "by-peer", "--details"],
    &["backup", "logs", "by-peer"],
    &["schedule", "get", "daily"],
    &["schedule", "describe", "daily"],
    &["backup-location", "get"],
    &["backup-location", "get", "-o", "json"],
    &["snapshot-location", "get"],
    &["restore", "get"],
];

/// The text without the conditions of objects: the original's command line does not know them and leaves them out.
fn without_conditions(text: &str) -> String {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let mut kept: Vec<String> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let depth = indentation(line);
        match line.trim_start() {
            "\"conditions\": [" => {
                let end = lines.find(|line| indentation(line) == depth);
                // What was last is not any more.
                if let (Some("]"), Some(last)) = (end.map(str::trim), kept.last_mut()) {
                    *last = last.trim_end_matches(',').to_owned();
                }
            }
            "conditions:" => {
                let is_below = |line: &str| indentation(line) > depth || line.trim_start().starts_with("- ");
                while lines.next_if(|line| is_below(line)).is_some() {}
            }
            _ => kept.push(line.to_owned()),
        }
    }
    kept.join("\n")
}

#[test]
fn conditions_are_left_out_of_what_is_compared() {
    for (text, rest) in [
        ("{\n  \"a\": 1,\n  \"conditions\": [\n    {\n    }\n  ]\n}", "{\n  \"a\": 1\n}"),
        ("{\n  \"conditions\": [\n    {\n    }\n  ],\n  \"a\": 1\n}", "{\n  \"a\": 1\n}"),
        ("s:\n  conditions:\n  - a: 1\n    b: 2\n  - c: 3\n  phase: x", "s:\n  phase: x"),
        ("NAME\na", "NAME\na"),
    ] {
        assert_eq!(without_conditions(text), rest);
    }
}

#[test]
fn either_command_line_drives_either_server_and_both_print_the_same() {
    TestBox::down("commands").unwrap();
    harness::run("commands", BoxKind::ControlPlane, async |cluster| {
        let shop = [objects::namespace("shop"), objects::config_map("shop", "stock", "apples", "12")];
        load::create_all(&cluster.client, shop.into_iter()).await.unwrap();
        for server in EDITIONS.map(|edition| start(&cluster, edition)) {
            for cli in EDITIONS {
                whole_life(&server, cli, &format!("by-{}", format!("{cli:?}").to_lowercase()));
            }
            server
                .velero(&[
                    "schedule",
                    "create",
                    "daily",
                    "--schedule",
                    "@daily",
                    "--ttl",
                    "48h",
                    "--include-namespaces",
                    "shop",
                ])
                .unwrap();
            let mut wrong = Vec::new();
            for command in COMMANDS {
                // Whatever is written in the cluster between the two changes the version of a list: then both ask again.
                let ask = || EDITIONS.map(|cli| server.velero_of(cli, command).map(|text| without_conditions(&text)));
                let equal = |[ours, theirs]: &[Result<String>; 2]| matches!((ours, theirs), (Ok(a), Ok(b)) if a == b);
                let answers = (1..TRIES).map(|_| ask()).find(equal).unwrap_or_else(ask);
                let [ours, theirs] = answers;
                match (ours, theirs) {
                    (Ok(ours), Ok(theirs)) if ours == theirs => {}
                    (ours, theirs) => wrong.push(format!(
                        "velero {}\nours:\n{}\nthe peer's:\n{}",
                        command.join(" "),
                        ours.unwrap_or_else(|error| error.to_string()),
                        theirs.unwrap_or_else(|error| error.to_string())
                    )),
                }
            }
            assert!(wrong.is_empty(), "on {}:\n{}", server.namespace(), wrong.join("\n\n"));
            for cli in EDITIONS {
                delete(&server, cli, &format!("by-{}", format!("{cli:?}").to_lowercase()));
            }
        }
    });
    TestBox::down("commands").unwrap();
}
