//! Registries that lack something, damage it, break off or are down.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use velero_registry::{Access, Image, Options, Problem, Retry, copy};
use velero_testkit::faulty_proxy::{self, Action, Request};
use velero_testkit::registry::{ContainerRegistry, Layout};

use crate::{blobs, failure, image, image_at, never_again, quick, raw, try_raw};

/// A registry that has `shop/web:v1` with one layer of that size.
fn source(layer: usize) -> ContainerRegistry {
    let registry = ContainerRegistry::start().unwrap();
    let mut layout = Layout::new().unwrap();
    let web = layout.image("amd64", &[layer]).unwrap();
    layout.push(&web, &registry, "shop/web:v1").unwrap();
    registry
}

/// An image behind a proxy with that rule.
async fn behind(
    registry: &ContainerRegistry,
    name: &str,
    rule: impl Fn(&Request) -> Action + Send + Sync + 'static,
) -> Image {
    let url = faulty_proxy::start(&registry.host(), rule).await.unwrap();
    image_at(url.trim_start_matches("http://"), name, Access { plain_http: true, ..Access::default() })
}

fn layer(registry: &ContainerRegistry) -> String {
    blobs(&raw(registry, "shop/web:v1")).last().unwrap().0.clone()
}

#[tokio::test]
async fn a_blob_the_source_lacks_is_named_and_nothing_refers_to_it() {
    let (source, destination) = (source(100_000), ContainerRegistry::start().unwrap());
    let digest = layer(&source);
    std::fs::remove_file(source.blob_file(&digest).unwrap()).unwrap();
    let error = failure(&image(&source, "shop/web:v1"), &image(&destination, "x:1"), &never_again()).await;
    let message = error.to_string();
    assert!(matches!(error.problem, Problem::NotFound { .. }), "{message}");
    assert!(message.contains(&digest) && message.contains(&format!("{}/shop/web:v1", source.host())), "{message}");
    assert!(try_raw(&destination, "x:1").is_err());
}

#[tokio::test]
async fn a_tag_that_is_not_there_is_named() {
    let (source, destination) = (source(10), ContainerRegistry::start().unwrap());
    let error = failure(&image(&source, "shop/web:v9"), &image(&destination, "x:1"), &never_again()).await;
    assert!(error.to_string().contains("shop/web:v9") && !error.is_retriable(), "{error}");
}

#[tokio::test]
async fn a_damaged_blob_is_noticed_and_does_not_arrive() {
    let (source, destination) = (source(1_000_000), ContainerRegistry::start().unwrap());
    let digest = layer(&source);
    let file = source.blob_file(&digest).unwrap();
    let mut content = std::fs::read(&file).unwrap();
    content[500_000] ^= 1;
    std::fs::write(&file, content).unwrap();
    let error = failure(&image(&source, "shop/web:v1"), &image(&destination, "x:1"), &never_again()).await;
    assert!(matches!(error.problem, Problem::Damaged { .. }), "{error}");
    assert!(error.to_string().contains(&digest), "{error}");
    assert!(!destination.blob_file(&digest).unwrap().exists() && try_raw(&destination, "x:1").is_err());
}

#[tokio::test]
async fn a_blob_shorter_than_promised_is_noticed() {
    let (source, destination) = (source(1_000_000), ContainerRegistry::start().unwrap());
    let file = source.blob_file(&layer(&source)).unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_len(700_000).unwrap();
    let error = failure(&image(&source, "shop/web:v1"), &image(&destination, "x:1"), &never_again()).await;
    assert!(error.to_string().contains("700000"), "{error}");
}

#[tokio::test]
async fn a_registry_that_is_down_is_tried_again_and_then_named() {
    let (source, mut destination) = (source(10), ContainerRegistry::start().unwrap());
    destination.stop();
    let error = failure(&image(&source, "shop/web:v1"), &image(&destination, "x:1"), &quick()).await;
    assert!(matches!(error.problem, Problem::Unreachable { .. }) && error.is_retriable(), "{error}");
    assert!(error.to_string().contains(&format!("registry {}", destination.host())), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_comes_back_gets_the_image() {
    let (source, mut destination) = (source(3_000_000), ContainerRegistry::start().unwrap());
    destination.stop();
    let (from, to) = (image(&source, "shop/web:v1"), image(&destination, "x:1"));
    let retry = Retry { pauses: vec![Duration::from_millis(200); 300] };
    let copying = tokio::spawn(async move { copy(&from, &to, &Options { retry, ..Options::default() }).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    destination.resume().unwrap();
    copying.await.unwrap().unwrap();
    assert_eq!(raw(&destination, "x:1"), raw(&source, "shop/web:v1"));
}

#[tokio::test]
async fn a_source_that_breaks_off_is_read_on_where_it_broke() {
    let (source, destination) = (source(8_000_000), ContainerRegistry::start().unwrap());
    let seen = AtomicUsize::new(0);
    let from = behind(&source, "shop/web:v1", move |request| {
        let chosen = request.method == "GET" && request.path.contains("/blobs/");
        if chosen && seen.fetch_add(1, Ordering::SeqCst) < 3 { Action::CutAnswer(2_000_000) } else { Action::Forward }
    })
    .await;
    let copied = copy(&from, &image(&destination, "x:1"), &quick()).await.unwrap();
    assert_eq!(raw(&destination, "x:1"), raw(&source, "shop/web:v1"));
    assert!(copied.bytes >= 8_000_000);
    let resumed = source.requests().unwrap().iter().filter(|request| request.status == 206).count();
    assert!(resumed >= 2, "{:?}", source.requests().unwrap());
    assert_eq!(destination.count("PUT", "/blobs/uploads/").unwrap(), 2, "the upload was not disturbed");
}

#[tokio::test]
async fn an_upload_that_breaks_off_is_begun_anew() {
    let (source, destination) = (source(3_000_000), ContainerRegistry::start().unwrap());
    let to = behind(&destination, "x:1", faulty_proxy::first_uploads(2, Action::Cut(500_000))).await;
    copy(&image(&source, "shop/web:v1"), &to, &quick()).await.unwrap();
    assert_eq!(raw(&destination, "x:1"), raw(&source, "shop/web:v1"));
}

#[tokio::test]
async fn a_changed_byte_on_the_way_is_noticed_by_the_destination() {
    let (source, destination) = (source(1_000_000), ContainerRegistry::start().unwrap());
    let digest = layer(&source);
    let to = behind(&destination, "x:1", faulty_proxy::first_uploads(9, Action::Flip(400_000))).await;
    let error = failure(&image(&source, "shop/web:v1"), &to, &quick()).await;
    assert!(error.to_string().contains("DIGEST_INVALID") && !error.is_retriable(), "{error}");
    assert!(!destination.blob_file(&digest).unwrap().exists());
}

#[tokio::test]
async fn a_registry_that_is_busy_is_asked_again_as_often_as_told() {
    let (source, destination) = (source(1_000), ContainerRegistry::start().unwrap());
    for (busy, arrives) in [(3, true), (usize::MAX, false)] {
        let counter = Arc::new(AtomicUsize::new(0));
        let seen = counter.clone();
        let to = behind(&destination, "x:1", move |request| {
            let manifest = request.method == "PUT" && request.path.contains("/manifests/");
            if manifest && seen.fetch_add(1, Ordering::SeqCst) < busy { Action::Unavailable } else { Action::Forward }
        })
        .await;
        let outcome = copy(&image(&source, "shop/web:v1"), &to, &quick()).await;
        assert_eq!(outcome.is_ok(), arrives, "{outcome:?}");
        assert_eq!(counter.load(Ordering::SeqCst), 4);
        if let Err(error) = outcome {
            assert!(error.is_retriable() && error.to_string().contains("503"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_source_that_stands_still_is_asked_again() {
    let (source, destination) = (source(4_000_000), ContainerRegistry::start().unwrap());
    let seen = AtomicUsize::new(0);
    let from = behind(&source, "shop/web:v1", move |request| {
        let chosen = request.method == "GET" && request.path.contains("/blobs/");
        if chosen && seen.fetch_add(1, Ordering::SeqCst) < 2 { Action::HoldAnswer(100_000) } else { Action::Forward }
    })
    .await;
    let options = Options { stall: Duration::from_millis(500), ..quick() };
    copy(&from, &image(&destination, "x:1"), &options).await.unwrap();
    assert_eq!(raw(&destination, "x:1"), raw(&source, "shop/web:v1"));
}
