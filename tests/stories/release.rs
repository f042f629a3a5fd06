//! What a release consists of: made twice it is the same, and what is in it needs nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use flate2::read::GzDecoder;
use serde_json::Value;
use velero_testkit::install::{our_binary, package_binary, repository_root};
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::parts::{BUCKET, Images};
use velero_testkit::registry::skopeo;
use velero_testkit::server::credentials_file;
use velero_testkit::{BoxKind, TestBox, Tool, harness, install, load, objects};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes parts of a release.
fn make(folder: &Path, flags: &[&str]) {
    let mut command = Command::new(package_binary("xtask", "xtask", "dev").unwrap());
    command.args(["release", "--allow-dirty", "--output"]).arg(folder).args(flags).current_dir(repository_root());
    succeed(&mut command);
}

fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(status.success(), "{command:?}: {stdout}{stderr}");
    stdout
}

/// The files of a folder, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

fn unpack(archive: &Path, folder: &Path) {
    tar::Archive::new(GzDecoder::new(fs::File::open(archive).unwrap())).unpack(folder).unwrap();
}

/// The archive of the client, unpacked; gives the program.
fn unpack_client(release: &Path, folder: &Path) -> PathBuf {
    let name = format!("velero-v{VERSION}-linux-{}", if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" });
    unpack(&release.join(format!("{name}.tar.gz")), folder);
    let mut held: Vec<String> = files(&folder.join(&name)).into_keys().collect();
    held.sort();
    let expected = ["CHANGELOG.md", "LICENSE", "README.md", "THIRD-PARTY-LICENSES.txt", "releases.md", "velero"];
    assert_eq!(held, expected);
    folder.join(name).join("velero")
}

/// The client says what it is without a cluster, a home, a path or a variable; and so it does as a plugin of kubectl.
fn the_client_knows_what_it_is(client: &Path, folder: &Path) {
    let said = succeed(Command::new(client).args(["version", "--client-only"]).env_clear().current_dir(folder));
    assert!(said.contains(&format!("Version: v{VERSION}\n")), "{said}");
    let commit = said.lines().find_map(|line| line.trim().strip_prefix("Git commit: ")).unwrap();
    assert!(commit.ends_with("-dev") || commit == "unknown (built without git)", "{commit}");

    let path = folder.join("path");
    fs::create_dir(&path).unwrap();
    symlink(client, path.join("kubectl-velero")).unwrap();
    let kubectl = install::kubernetes().unwrap().join("kubectl");
    let mut command = Command::new(kubectl);
    command.args(["velero", "version", "--client-only"]).env_clear().env("PATH", &path).current_dir(folder);
    assert_eq!(succeed(&mut command), said);
}

/// Helm makes the same of the package as of the folder, definitions included.
fn the_chart_is_whole(release: &Path, folder: &Path) {
    let render = |chart: &Path| {
        let mut command = Command::new(Tool::Helm.path().unwrap());
        command.args(["template", "velero", "--include-crds", "--namespace", "velero"]).arg(chart).env("HOME", folder);
        succeed(&mut command)
    };
    let packed = render(&release.join(format!("velero-{VERSION}.tgz")));
    assert_eq!(packed, render(&repository_root().join("deploy/chart/velero")));
    assert_eq!(packed.matches("kind: CustomResourceDefinition\n").count(), velero_api::crd::all().len());
}

/// kubectl makes the same of the package as of the base in the repository.
fn the_base_is_whole(release: &Path, folder: &Path) {
    let render = |base: &Path| {
        let kubectl = install::kubernetes().unwrap().join("kubectl");
        succeed(Command::new(kubectl).arg("kustomize").arg(base).env("HOME", folder))
    };
    let name = format!("velero-v{VERSION}-kustomize");
    unpack(&release.join(format!("{name}.tar.gz")), folder);
    let packed = render(&folder.join(name));
    assert_eq!(packed, render(&repository_root().join("deploy/kustomize")));
    let image = format!("image: {}/velero:v{VERSION}\n", velero_api::IMAGE_REGISTRY);
    assert!(packed.contains(&image) && packed.contains("kind: Deployment\n"), "{packed}");
    assert_eq!(packed.matches("kind: CustomResourceDefinition\n").count(), velero_api::crd::all().len());
    // What has just been defined cannot be made in the same go.
    assert!(!packed.contains("apiVersion: velero.io/"), "{packed}");
}

/// What the programs are made of: names, licences and checksums of all that comes from elsewhere.
fn the_bill_is_whole(release: &Path) {
    let (_, text) = files(release).into_iter().find(|(name, _)| name.ends_with(".cdx.json")).unwrap();
    let bill: Value = serde_json::from_slice(&text).unwrap();
    let components = bill["components"].as_array().unwrap();
    let find = |name: &str| components.iter().find(|component| component["name"] == name);
    let tokio = find("tokio").unwrap();
    assert_eq!(tokio["licenses"][0]["expression"], "MIT");
    assert_eq!(tokio["hashes"][0]["content"].as_str().unwrap().len(), 64);
    assert!(find("velero-engine").is_some() && find("velero-testkit").is_none() && find("proptest").is_none());
    let unlicensed: Vec<&Value> = components.iter().filter(|component| component["licenses"].is_null()).collect();
    assert!(unlicensed.is_empty(), "{unlicensed:?}");
}

#[test]
fn a_release_is_whole_the_same_every_time_and_its_client_needs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let programs = our_binary("dev").unwrap().parent().unwrap().display().to_string();
    let parts = "--only=chart,definitions,bill-of-materials";
    make(&second, &[parts]);
    make(&first, &[parts]);
    assert_eq!(files(&first), files(&second));

    make(&first, &["--only=client,plugin-manifest", "--binaries", &programs]);
    succeed(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&first));
    let sums = fs::read_to_string(first.join("SHA256SUMS")).unwrap();
    assert_eq!(sums.lines().count(), 7, "{sums}");
    let manifest = fs::read_to_string(first.join(format!("velero-v{VERSION}-krew.yaml"))).unwrap();
    let client_sum = sums.lines().find(|line| line.ends_with("64.tar.gz")).unwrap().split(' ').next().unwrap();
    assert!(manifest.contains(&format!("sha256: {client_sum}\n")), "{manifest}{sums}");

    let client = unpack_client(&first, &folder.path().join("client"));
    let elsewhere = tempfile::tempdir().unwrap();
    the_client_knows_what_it_is(&client, elsewhere.path());
    the_chart_is_whole(&first, elsewhere.path());
    the_base_is_whole(&first, elsewhere.path());
    the_bill_is_whole(&first);
}

/// Who wants releases compared says here how they are built; what is published is built with `release`.
const PROFILE: &str = "VELERO_RELEASE_PROFILE";

/// A checkout of the commit that is tested, in a folder of its own.
fn check_out(folder: &Path) {
    let commit = succeed(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(repository_root()));
    succeed(Command::new("git").args(["clone", "--quiet", "--no-checkout"]).arg(repository_root()).arg(folder));
    let mut command = Command::new("git");
    succeed(command.args(["checkout", "--quiet", "--detach", commit.trim()]).current_dir(folder));
}

#[test]
#[ignore = "compiles everything twice, as a release is compiled, where VELERO_RELEASE_PROFILE says how"]
fn a_commit_released_in_two_folders_gives_equal_checksums() {
    let Ok(profile) = std::env::var(PROFILE) else {
        eprintln!("not compared: {PROFILE} is not set");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let made = ["one", "another/with-a-longer-name"].map(|name| {
        let [source, output] = ["source", "release"].map(|folder| place.path().join(name).join(folder));
        fs::create_dir_all(place.path().join(name)).unwrap();
        check_out(&source);
        let mut command = Command::new("cargo");
        command.args(["xtask", "release", "--profile", &profile, "--output"]).arg(&output);
        // The command itself needs not be compiled from nothing twice; what it builds it builds below the source.
        command.env("CARGO_TARGET_DIR", place.path().join("xtask"));
        succeed(command.current_dir(&source));
        // Gigabytes.
        fs::remove_dir_all(source.join("target")).unwrap();
        fs::read_to_string(output.join("SHA256SUMS")).unwrap()
    });
    assert_eq!(made[0].lines().count(), 12, "{}", made[0]);
    assert_eq!(made[0], made[1]);
    eprintln!("{}", made[0]);
}

/// A program in a root of its own: nothing is there but it and what it is handed.
struct Alone<'a> {
    machine: &'a Machine,
    root: PathBuf,
    program: String,
}

impl Alone<'_> {
    fn velero(&self, arguments: &[&str]) -> String {
        let mut command = self.machine.command("chroot");
        command.arg(&self.root).arg(&self.program).args(arguments).env("KUBECONFIG", "/kubeconfig").env("HOME", "/");
        succeed(&mut command)
    }
}

/// The client of a release, unpacked where nothing else is.
fn alone<'a>(machine: &'a Machine, release: &Path) -> Alone<'a> {
    let root = machine.folder("empty-root").unwrap();
    let client = unpack_client(release, &root);
    // With the certificate in it: the file that the box's own names is not there.
    let kubeconfig = machine.kubectl(&["config", "view", "--raw", "--flatten"]).unwrap();
    fs::write(root.join("kubeconfig"), kubeconfig).unwrap();
    fs::write(root.join("keys"), credentials_file()).unwrap();
    let program = format!("/{}", client.strip_prefix(&root).unwrap().display());
    Alone { machine, root, program }
}

#[test]
#[ignore = "compiles everything once more, as a release is compiled"]
fn the_client_of_a_release_unpacked_where_nothing_else_is_installs_and_backs_up_a_box() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &["--only=client,images", "--profile=dev"]);
    // Before the box is entered: inside of it skopeo could not be got where it is missing.
    let names = ["velero", "velero-plugin-aws", "velero-plugin-openshift", "velero-plugin-vsphere"];
    let [image, ..] = names.map(|name| readable_image(folder.path(), name));
    TestBox::down("in-release").unwrap();
    harness::run("in-release", BoxKind::Whole, async move |cluster| {
        let machine = cluster.test_box.machine();
        let shop = [objects::namespace("shop"), objects::config_map("shop", "stock", "apples", "12")];
        load::create_all(&cluster.client, shop.into_iter()).await.unwrap();
        Images::load(machine, &image).unwrap();
        let client = alone(machine, folder.path());
        installs_and_backs_up(&client);
    });
    TestBox::down("in-release").unwrap();
}

/// The archive of an image, which skopeo can read: it says what it is.
fn readable_image(release: &Path, name: &str) -> PathBuf {
    let beginning = format!("{name}-image-v{VERSION}-linux-");
    let file = fs::read_dir(release).unwrap().map(|entry| entry.unwrap().path());
    let file =
        file.into_iter().find(|file| file.file_name().unwrap().to_string_lossy().starts_with(&beginning)).unwrap();
    let archive = format!("oci-archive:{}", file.display());
    let said = skopeo(["inspect", archive.as_str()]).unwrap();
    let said: Value = serde_json::from_slice(&said).unwrap();
    assert_eq!(said["Labels"]["org.opencontainers.image.title"], name, "{said}");
    assert_eq!(said["Labels"]["org.opencontainers.image.version"], format!("v{VERSION}"), "{said}");
    file
}

fn installs_and_backs_up(client: &Alone<'_>) {
    let config = format!("region=us-east-1,s3ForcePathStyle=true,s3Url={}", TestBox::store_url_for_pods());
    let [bucket, prefix, config] = [
        format!("--bucket={BUCKET}"),
        format!("--prefix={}", harness::unique_name("release")),
        format!("--backup-location-config={config}"),
    ];
    let told =
        client.velero(&["install", "--provider=aws", &bucket, &prefix, "--secret-file=/keys", &config, "--wait"]);
    assert!(told.contains("Velero is installed!"), "{told}");
    wait_until("the location", Duration::from_secs(60), || {
        let path = "/apis/velero.io/v1/namespaces/velero/backupstoragelocations/default";
        let phase = &client.machine.read(path)?["status"]["phase"];
        anyhow::ensure!(phase == "Available", "the location is {phase}");
        Ok(())
    })
    .unwrap();
    let told = client.velero(&["backup", "create", "first", "--include-namespaces=shop", "--wait"]);
    assert!(told.contains("Backup completed with status: Completed"), "{told}");
    client.machine.kubectl(&["delete", "namespace", "shop"]).unwrap();
    let told = client.velero(&["restore", "create", "first", "--from-backup=first", "--wait"]);
    assert!(told.contains("Restore completed with status: Completed"), "{told}");
    client.machine.kubectl(&["-n", "shop", "get", "configmap/stock"]).unwrap();
    let said = client.velero(&["version"]);
    assert_eq!(said.matches(&format!("Version: v{VERSION}")).count(), 2, "{said}");
    let commit = said.lines().find_map(|line| line.trim().strip_prefix("Git commit: ")).unwrap();
    assert!(!commit.ends_with("-dev") && !commit.starts_with("unknown"), "{said}");
}
