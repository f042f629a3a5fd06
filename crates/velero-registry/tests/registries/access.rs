//! Who may do what, and how registries are told.

use velero_registry::{Access, Credentials, Options, copy};
use velero_testkit::registry::{ContainerRegistry, Guard, Layout, REGISTRY_PASSWORD, REGISTRY_USER, TokenRealm};

use crate::{failure, image, image_at, never_again, quick, raw};

fn source() -> ContainerRegistry {
    let registry = ContainerRegistry::start().unwrap();
    let mut layout = Layout::new().unwrap();
    let web = layout.image("amd64", &[100_000, 1_000, 2_000, 3_000]).unwrap();
    layout.push(&web, &registry, "shop/web:v1").unwrap();
    registry
}

fn account() -> Credentials {
    Credentials::service_account(REGISTRY_PASSWORD)
}

fn plain(credentials: Credentials) -> Access {
    Access { credentials, plain_http: true, ..Access::default() }
}

#[tokio::test]
async fn the_token_of_a_service_account_opens_a_registry_with_passwords() {
    let (source, guarded) = (source(), ContainerRegistry::start_with(Guard::Password, false).unwrap());
    let to = image_at(&guarded.host(), "shop/web:v1", plain(account()));
    let copied = copy(&image(&source, "shop/web:v1"), &to, &quick()).await.unwrap();
    let back = ContainerRegistry::start().unwrap();
    copy(&to, &image(&back, "shop/web:v1"), &quick()).await.unwrap();
    assert_eq!(raw(&back, "shop/web:v1"), raw(&source, "shop/web:v1"));
    assert!(copied.bytes > 100_000);
}

#[tokio::test]
async fn credentials_of_a_docker_config_are_used() {
    let (source, guarded) = (source(), ContainerRegistry::start_with(Guard::Password, false).unwrap());
    let host = guarded.host();
    let config = format!(
        r#"{{"auths":{{"http://{host}/v2/":{{"username":"{REGISTRY_USER}","password":"{REGISTRY_PASSWORD}"}}}}}}"#
    );
    let credentials = Credentials::from_docker_config(&config, &host).unwrap();
    copy(&image(&source, "shop/web:v1"), &image_at(&host, "x:1", plain(credentials)), &quick()).await.unwrap();
}

#[tokio::test]
async fn wrong_credentials_are_an_error_without_a_second_attempt() {
    let realm = TokenRealm::start(300).await.unwrap();
    let source = source();
    for guard in [Guard::Password, Guard::Token(&realm)] {
        let guarded = ContainerRegistry::start_with(guard, false).unwrap();
        for credentials in [Credentials::service_account("wrong"), Credentials::Anonymous] {
            let to = image_at(&guarded.host(), "shop/web:v1", plain(credentials.clone()));
            // One blob at a time: each would be refused for itself.
            let options = Options { parallel: 1, ..never_again() };
            let error = failure(&image(&source, "shop/web:v1"), &to, &options).await;
            let message = error.to_string();
            assert!(message.starts_with(&format!("image {}/shop/web:v1: ", guarded.host())), "{message}");
            assert!(message.contains("check the credentials") && !message.contains("wrong"), "{message}");
            assert!(!error.is_retriable(), "{message}");
        }
        let writes = guarded.requests().unwrap().into_iter().filter(|request| request.status < 300);
        assert!(writes.clone().all(|request| request.method != "POST"), "{:?}", writes.collect::<Vec<_>>());
        assert!(guarded.requests().unwrap().len() <= 8, "{:?}", guarded.requests().unwrap());
    }
}

#[tokio::test]
async fn tokens_are_fetched_from_the_realm_and_used_again() {
    let realm = TokenRealm::start(300).await.unwrap();
    let (source, guarded) = (source(), ContainerRegistry::start_with(Guard::Token(&realm), false).unwrap());
    let to = image_at(&guarded.host(), "shop/web:v1", plain(account()));
    copy(&image(&source, "shop/web:v1"), &to, &quick()).await.unwrap();
    assert_eq!(realm.served(), 1);
    let mounted = to.registry().image(&format!("{}/other/web:v1", guarded.host()).parse().unwrap()).unwrap();
    let copied = copy(&to, &mounted, &quick()).await.unwrap();
    assert_eq!(copied.bytes, 0, "a mount needs a token for both repositories");
    let (anybody, back) = (plain(Credentials::Anonymous), ContainerRegistry::start().unwrap());
    let from = image_at(&guarded.host(), "other/web:v1", anybody);
    copy(&from, &image(&back, "x:1"), &quick()).await.unwrap();
    assert_eq!(raw(&back, "x:1"), raw(&source, "shop/web:v1"));
}

#[tokio::test]
async fn tokens_that_do_not_live_long_are_renewed() {
    let realm = TokenRealm::start(1).await.unwrap();
    let (source, guarded) = (source(), ContainerRegistry::start_with(Guard::Token(&realm), false).unwrap());
    let to = image_at(&guarded.host(), "shop/web:v1", plain(account()));
    copy(&image(&source, "shop/web:v1"), &to, &quick()).await.unwrap();
    assert!(realm.served() > 5, "{} tokens", realm.served());
}

#[tokio::test]
async fn a_certificate_is_trusted_through_its_authority_or_not_checked_at_all() {
    let (source, secure) = (source(), ContainerRegistry::start_with(Guard::Open, true).unwrap());
    let (from, host) = (image(&source, "shop/web:v1"), secure.host());
    let error = failure(&from, &image_at(&host, "x:0", Access::default()), &never_again()).await;
    let message = error.to_string();
    assert!(message.contains("not trusted") && message.contains(&host) && !error.is_retriable(), "{message}");
    let authority = Some(secure.certificate_authority().unwrap());
    let trusting = Access { certificate_authorities: authority, ..Access::default() };
    copy(&from, &image_at(&host, "x:1", trusting), &quick()).await.unwrap();
    let careless = Access { insecure_tls: true, plain_http: true, ..Access::default() };
    let copied = copy(&from, &image_at(&host, "x:2", careless), &quick()).await.unwrap();
    assert_eq!(copied.bytes, 0);
}

#[tokio::test]
async fn plain_http_is_spoken_only_where_it_is_allowed() {
    let (source, destination) = (source(), ContainerRegistry::start().unwrap());
    let secure_only = image_at(&source.host(), "shop/web:v1", Access { insecure_tls: true, ..Access::default() });
    let error = failure(&secure_only, &image(&destination, "x:1"), &never_again()).await;
    assert!(error.to_string().contains("plain HTTP is not allowed") && !error.is_retriable(), "{error}");
}
