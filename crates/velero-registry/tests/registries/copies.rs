//! What arrives, and what does not have to move.

use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use velero_registry::{Digest, Options, Platforms, Progress, copy};
use velero_testkit::registry::{ContainerRegistry, Layout, skopeo};

use crate::{blobs, failure, image, never_again, quick, raw, size, text, try_raw};

/// Two registries; the first has `shop/web:v1`, of three layers.
fn with_image() -> (ContainerRegistry, ContainerRegistry) {
    let registries = (ContainerRegistry::start().unwrap(), ContainerRegistry::start().unwrap());
    let mut layout = Layout::new().unwrap();
    let web = layout.image("amd64", &[3_000_000, 20_000, 0]).unwrap();
    layout.push(&web, &registries.0, "shop/web:v1").unwrap();
    registries
}

/// Two registries; the first has `shop/web:all` for two platforms. The descriptors are those of the platforms.
fn with_index() -> (ContainerRegistry, ContainerRegistry, [Value; 2]) {
    let (source, destination) = (ContainerRegistry::start().unwrap(), ContainerRegistry::start().unwrap());
    let mut layout = Layout::new().unwrap();
    let images = ["amd64", "arm64"].map(|architecture| layout.image(architecture, &[200_000, 1_000]).unwrap());
    let index = layout.index(&images).unwrap();
    layout.push(&index, &source, "shop/web:all").unwrap();
    (source, destination, images)
}

#[tokio::test]
async fn an_image_arrives_as_it_was() {
    let (source, destination) = with_image();
    let copied = copy(&image(&source, "shop/web:v1"), &image(&destination, "a/b/c:v2"), &quick()).await.unwrap();
    let manifest = raw(&source, "shop/web:v1");
    assert_eq!(raw(&destination, "a/b/c:v2"), manifest);
    assert_eq!((copied.digest, copied.bytes, copied.skipped), (Digest::of(&manifest), size(&manifest), 0));
    let folder = tempfile::tempdir().unwrap();
    let pulled = format!("dir:{}", folder.path().display());
    skopeo(["copy", "--src-tls-verify=false", &format!("docker://{}/a/b/c:v2", destination.host()), &pulled]).unwrap();
    for (digest, _) in blobs(&manifest) {
        let content = std::fs::read(folder.path().join(digest.trim_start_matches("sha256:"))).unwrap();
        assert_eq!(Digest::of(&content).as_str(), digest);
    }
}

#[tokio::test]
async fn all_platforms_arrive_as_skopeo_copies_them() {
    let (source, destination, images) = with_index();
    let reference = ContainerRegistry::start().unwrap();
    let copied = copy(&image(&source, "shop/web:all"), &image(&destination, "shop/web:all"), &quick()).await.unwrap();
    let from = format!("docker://{}/shop/web:all", source.host());
    let to = format!("docker://{}/shop/web:all", reference.host());
    skopeo(["copy", "--all", "--src-tls-verify=false", "--dest-tls-verify=false", &from, &to]).unwrap();
    assert_eq!(raw(&destination, "shop/web:all"), raw(&reference, "shop/web:all"));
    assert_eq!(copied.digest, Digest::of(&raw(&reference, "shop/web:all")));
    for platform in &images {
        let name = format!("shop/web@{}", text(platform, "/digest"));
        assert_eq!(raw(&destination, &name), raw(&reference, &name));
    }
}

#[tokio::test]
async fn lists_and_manifests_of_docker_stay_what_they_are() {
    let (source, destination, _) = with_index();
    let name = |tag: &str| format!("docker://{}/shop/web:{tag}", source.host());
    let flags = ["copy", "--all", "--format=v2s2", "--src-tls-verify=false", "--dest-tls-verify=false"];
    skopeo(flags.into_iter().map(String::from).chain([name("all"), name("docker")])).unwrap();
    let list = raw(&source, "shop/web:docker");
    assert!(String::from_utf8_lossy(&list).contains("vnd.docker.distribution.manifest.list.v2+json"));
    copy(&image(&source, "shop/web:docker"), &image(&destination, "x:docker"), &quick()).await.unwrap();
    assert_eq!(raw(&destination, "x:docker"), list);
}

#[tokio::test]
async fn one_platform_comes_alone_with_its_own_digest() {
    let (source, destination, [amd64, arm64]) = with_index();
    let options = Options { platforms: Platforms::One("linux/arm64".parse().unwrap()), ..quick() };
    let copied = copy(&image(&source, "shop/web:all"), &image(&destination, "shop/web:arm"), &options).await.unwrap();
    assert_eq!(copied.digest.as_str(), text(&arm64, "/digest"));
    assert_eq!(raw(&destination, "shop/web:arm"), raw(&source, &format!("shop/web@{}", copied.digest)));
    assert!(try_raw(&destination, &format!("shop/web@{}", text(&amd64, "/digest"))).is_err());
    assert_eq!(destination.count("PUT", "/blobs/uploads/").unwrap(), 3);
}

#[tokio::test]
async fn a_platform_that_is_not_there_is_an_error_before_anything_moves() {
    let (source, destination, _) = with_index();
    let options = Options { platforms: Platforms::One("windows/amd64".parse().unwrap()), ..never_again() };
    let error = failure(&image(&source, "shop/web:all"), &image(&destination, "shop/web:w"), &options).await;
    let message = error.to_string();
    assert!(message.contains("shop/web:all") && message.contains("linux/arm64") && !error.is_retriable(), "{message}");
    assert_eq!(destination.requests().unwrap(), []);
}

#[tokio::test]
async fn an_image_without_a_tag_is_written_under_its_digest_alone() {
    let (source, destination) = with_image();
    let digest = Digest::of(&raw(&source, "shop/web:v1"));
    let from = image(&source, &format!("shop/web@{digest}"));
    copy(&from, &image(&destination, "shop/web"), &quick()).await.unwrap();
    assert_eq!(raw(&destination, &format!("shop/web@{digest}")), raw(&source, "shop/web:v1"));
    assert!(try_raw(&destination, "shop/web:latest").is_err());
}

#[tokio::test]
async fn a_destination_with_another_digest_is_refused_before_anything_moves() {
    let (source, destination) = with_image();
    let wanted = Digest::of(b"something else");
    let to = image(&destination, &format!("shop/web@{wanted}"));
    let message = failure(&image(&source, "shop/web:v1"), &to, &never_again()).await.to_string();
    assert!(message.contains(wanted.as_str()), "{message}");
    assert_eq!(destination.requests().unwrap(), []);
}

#[tokio::test]
async fn what_is_there_is_not_sent_again() {
    let (source, destination) = with_image();
    let (from, to) = (image(&source, "shop/web:v1"), image(&destination, "shop/web:v1"));
    let first = copy(&from, &to, &quick()).await.unwrap();
    let reads = source.count("GET", "/blobs/").unwrap();
    let second = copy(&from, &image(&destination, "shop/web:v2"), &quick()).await.unwrap();
    assert_eq!((second.bytes, second.skipped), (0, first.bytes));
    assert_eq!(source.count("GET", "/blobs/").unwrap(), reads);
    assert_eq!(raw(&destination, "shop/web:v2"), raw(&source, "shop/web:v1"));
}

#[tokio::test]
async fn inside_one_registry_blobs_are_mounted() {
    let (registry, _) = with_image();
    let before = registry.requests().unwrap().len();
    let from = image(&registry, "shop/web:v1");
    let to = from.registry().image(&format!("{}/other/web:v1", registry.host()).parse().unwrap()).unwrap();
    let copied = copy(&from, &to, &quick()).await.unwrap();
    assert_eq!((copied.bytes, copied.skipped), (0, size(&raw(&registry, "shop/web:v1"))));
    let sent = registry.requests().unwrap().split_off(before);
    assert_eq!(sent.iter().filter(|request| request.path.contains("mount=") && request.status == 201).count(), 4);
    assert!(!sent.iter().any(|request| request.method == "GET" && request.path.contains("/blobs/")), "{sent:?}");
    assert_eq!(raw(&registry, "other/web:v1"), raw(&registry, "shop/web:v1"));
}

#[tokio::test]
async fn progress_grows_to_the_total() {
    let (source, destination) = with_image();
    let options = quick();
    let mut progress = options.progress.subscribe();
    let watched = tokio::spawn(async move {
        let mut seen: Vec<Progress> = Vec::new();
        while progress.changed().await.is_ok() {
            seen.push(*progress.borrow_and_update());
        }
        seen
    });
    let copied = copy(&image(&source, "shop/web:v1"), &image(&destination, "shop/web:v1"), &options).await.unwrap();
    drop(options);
    let seen = watched.await.unwrap();
    assert!(seen.is_sorted_by_key(|progress| progress.bytes_done), "{seen:?}");
    assert!(seen.iter().all(|progress| progress.bytes_total == copied.bytes), "{seen:?}");
    assert_eq!(seen.last().unwrap().bytes_done, copied.bytes);
}

#[tokio::test]
async fn layers_that_must_not_be_distributed_stay_where_they_are() {
    let (source, destination) = with_image();
    let foreign = json!({
        "mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        "digest": Digest::of(b"far away").as_str(), "size": 8, "urls": ["https://far.example/layer"],
    });
    let media_type = "application/vnd.docker.distribution.manifest.v2+json";
    let mut manifest: Value = serde_json::from_slice(&raw(&source, "shop/web:v1")).unwrap();
    manifest["mediaType"] = json!(media_type);
    manifest["layers"].as_array_mut().unwrap().push(foreign);
    let url = format!("http://{}/v2/shop/web/manifests/foreign", source.host());
    let request = reqwest::Client::new().put(url).header(CONTENT_TYPE, media_type).body(manifest.to_string());
    request.send().await.unwrap().error_for_status().unwrap();
    copy(&image(&source, "shop/web:foreign"), &image(&destination, "x:foreign"), &quick()).await.unwrap();
    assert_eq!(raw(&destination, "x:foreign"), manifest.to_string().into_bytes());
}
