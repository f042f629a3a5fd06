//! Broken locations on real servers, each taken for what it is.
//!
//! The servers are the S3 of the shared box, a stand-in for AWS that knows rights, lifecycles and locks, and the API server
//! of the box for a host that speaks TLS and is no store. Where no server here behaves like AWS, a proxy before a real one
//! gives the answer AWS gives.

use std::sync::OnceLock;

use object_store::ClientOptions;
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpConnector, HttpRequestBody, ReqwestConnector};
use velero_store::StoreConfig;
use velero_store::check::{Cause, Finding, Mode, Observation, Outcome, Severity, diagnose, observe};
use velero_testkit::TestBox;
use velero_testkit::faulty_proxy::{self, Action};
use velero_testkit::harness::{SHARED_BOX, unique_name};
use velero_testkit::parts::{ACCESS_KEY, Moto};
use velero_testkit::server::credentials_file;

use crate::shared_store::{self, location};

const BUCKET: &str = "check-tests";

fn endpoint() -> String {
    shared_store::endpoint(SHARED_BOX, BUCKET)
}

async fn findings(config: &StoreConfig) -> (Observation, Vec<Finding>) {
    let seen = observe(config, &unique_name("check"), Mode::ReadWrite).await;
    let findings = diagnose(&seen);
    (seen, findings)
}

/// Checks a location and that it is taken for this, and for nothing else that must be done.
async fn assert_is(config: &StoreConfig, cause: Cause, words: &[&str]) {
    let (seen, findings) = findings(config).await;
    let trouble: Vec<&Finding> = findings.iter().filter(|finding| finding.is_trouble()).collect();
    let [finding] = trouble[..] else { panic!("one finding is wanted: {findings:#?}\n{seen:#?}") };
    assert_eq!(finding.cause, cause, "{finding}\n{seen:#?}");
    for word in words {
        assert!(finding.to_string().contains(word), "{word:?} is missing in: {finding}");
    }
    assert!(!finding.remedy.is_empty(), "{finding}");
}

/// The store behind a proxy that answers every request like this.
async fn answering(answer: &'static str) -> StoreConfig {
    let url = faulty_proxy::start(&endpoint(), move |_| faulty_proxy::reply(answer)).await.unwrap();
    location(&url, BUCKET, &credentials_file())
}

/// An answer with its length, for as long as the test runs.
fn answer(status: &str, headers: &str, error: &str) -> &'static str {
    let body = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>{error}<RequestId>1</RequestId></Error>");
    let head = format!(
        "HTTP/1.1 {status}\r\nServer: AmazonS3\r\nx-amz-request-id: 1\r\nContent-Type: application/xml\r\n{headers}"
    );
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).leak()
}

#[tokio::test]
async fn a_good_location_has_no_findings_and_keeps_nothing_of_the_check() {
    let config = location(&endpoint(), BUCKET, &credentials_file());
    let prefix = unique_name("good");
    let seen = observe(&config, &prefix, Mode::ReadWrite).await;
    assert!(seen.steps.len() == 4 && seen.steps.iter().all(|step| step.outcome == Outcome::Done), "{seen:#?}");
    let trouble: Vec<_> = diagnose(&seen).into_iter().filter(Finding::is_trouble).collect();
    assert!(trouble.is_empty(), "{trouble:#?}");
    let left = config.open().await.unwrap().list_objects(&format!("{prefix}/")).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn the_backups_that_lie_in_a_location_are_seen() {
    let config = location(&endpoint(), BUCKET, &credentials_file());
    let prefix = unique_name("taken");
    let store = config.open().await.unwrap();
    for file in ["backups/one/velero-backup.json", "backups/two/velero-backup.json", "kopia/shop/kopia.repository"] {
        store.put(&format!("{prefix}/{file}"), "{}".into()).await.unwrap();
    }
    let seen = observe(&config, &prefix, Mode::ReadOnly).await;
    assert_eq!(seen.backups, ["one", "two"], "{seen:#?}");
    assert!(seen.foreign_folders.is_empty(), "{seen:#?}");
}

#[tokio::test]
async fn a_location_that_is_read_only_is_not_written_to() {
    let seen = observe(&location(&endpoint(), BUCKET, &credentials_file()), "read-only", Mode::ReadOnly).await;
    let done: Vec<bool> = seen.steps.iter().map(|step| step.outcome == Outcome::Done).collect();
    assert_eq!(done, [true, false, true, false], "{seen:#?}");
    assert!(!diagnose(&seen).iter().any(Finding::is_trouble));
}

#[tokio::test]
async fn expired_credentials_are_told() {
    let expired =
        answer("400 Bad Request", "", "<Code>ExpiredToken</Code><Message>The provided token has expired.</Message>");
    assert_is(&answering(expired).await, Cause::CredentialsExpired, &["expired (ExpiredToken)", "make new ones"]).await;
}

#[tokio::test]
async fn a_wrong_secret_and_an_unknown_key_are_told_apart() {
    let wrong = format!("[default]\naws_access_key_id={ACCESS_KEY}\naws_secret_access_key=wrong\n");
    assert_is(&location(&endpoint(), BUCKET, &wrong), Cause::CredentialsWrong, &["does not belong"]).await;
    let unknown = "[default]\naws_access_key_id=nobody\naws_secret_access_key=wrong\n";
    assert_is(&location(&endpoint(), BUCKET, unknown), Cause::CredentialsUnknown, &["does not know the access key"])
        .await;
}

#[tokio::test]
async fn keys_that_are_refused_where_they_take_their_role_are_told() {
    for (code, cause, words) in [
        ("ExpiredToken", Cause::CredentialsExpired, "expired (ExpiredToken)"),
        ("InvalidClientTokenId", Cause::CredentialsUnknown, "does not know the access key"),
    ] {
        let error = format!("<Code>{code}</Code><Message>The security token is refused.</Message>");
        let refusal = answer("403 Forbidden", "", &error);
        let url = faulty_proxy::start(&endpoint(), move |_| faulty_proxy::reply(refusal)).await.unwrap();
        let keys = credentials_file().replace("[default]", "[keys]");
        let role = "[default]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = keys";
        let profiles = format!("{keys}\n{role}\nregion = us-east-1\nendpoint_url = {url}\n");
        assert_is(&location(&endpoint(), BUCKET, &profiles), cause, &[words]).await;
    }
}

#[tokio::test]
async fn what_spoils_credentials_is_named() {
    let quoted =
        credentials_file().replace("aws_secret_access_key=", "aws_secret_access_key=\"").trim_end().to_owned() + "\"\n";
    assert_is(
        &location(&endpoint(), BUCKET, &quoted),
        Cause::CredentialsSpoiled,
        &["aws_secret_access_key is in quotes"],
    )
    .await;
    let written_out = credentials_file().trim_end().replace('\n', "\\n");
    assert_is(&location(&endpoint(), BUCKET, &written_out), Cause::CredentialsSpoiled, &["\\n", "--from-file"]).await;
    let newline = location(&endpoint(), BUCKET, &credentials_file()).with("region", "us-east-1\n");
    assert_is(&newline, Cause::CredentialsSpoiled, &["config region ends in a line break"]).await;
}

#[tokio::test]
async fn a_region_that_is_not_the_buckets_is_told_with_the_right_one() {
    let elsewhere = answer(
        "301 Moved Permanently",
        "x-amz-bucket-region: eu-central-1\r\n",
        "<Code>PermanentRedirect</Code><Message>The bucket must be addressed elsewhere.</Message><Bucket>check-tests</Bucket>",
    );
    let words = ["in region \"eu-central-1\"", "says \"us-east-1\"", "set config region to eu-central-1"];
    assert_is(&answering(elsewhere).await, Cause::WrongRegion, &words).await;
    let malformed = answer(
        "400 Bad Request",
        "",
        "<Code>AuthorizationHeaderMalformed</Code><Message>the region 'us-east-1' is wrong</Message><Region>eu-central-1</Region>",
    );
    assert_is(&answering(malformed).await, Cause::WrongRegion, &words).await;
}

#[tokio::test]
async fn a_bucket_that_is_not_there_is_told() {
    let config = location(&endpoint(), "no-such-bucket", &credentials_file());
    assert_is(&config, Cause::BucketMissing, &["bucket \"no-such-bucket\" does not exist", "create it"]).await;
}

#[tokio::test]
async fn a_clock_that_is_off_is_told_before_and_after_the_store_minds() {
    let skewed = answer(
        "403 Forbidden",
        "Date: Thu, 01 Jan 2015 00:00:00 GMT\r\n",
        "<Code>RequestTimeTooSkewed</Code><Message>The difference is too large.</Message>",
    );
    assert_is(&answering(skewed).await, Cause::ClockOff, &["days ahead", "NTP"]).await;
    // A store that takes the requests all the same.
    let url = faulty_proxy::start(&endpoint(), |_| Action::Redate("Thu, 01 Jan 2015 00:00:00 GMT")).await.unwrap();
    let (_, findings) = findings(&location(&url, BUCKET, &credentials_file())).await;
    let found: Vec<_> = findings.iter().filter(|finding| finding.is_trouble()).collect();
    assert!(
        matches!(found[..], [Finding { cause: Cause::ClockOff, severity: Severity::Warning, .. }]),
        "{findings:#?}"
    );
}

/// The address of the API server, and the certificate of its CA.
fn api_server() -> (String, Vec<u8>) {
    endpoint();
    let kubeconfig = TestBox::find(SHARED_BOX).unwrap().kubeconfig();
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let cluster = &document["clusters"][0]["cluster"];
    let url = cluster["server"].as_str().unwrap().to_owned();
    let certificate = std::fs::read(cluster["certificate-authority"].as_str().unwrap()).unwrap();
    (url, certificate)
}

#[tokio::test]
async fn a_ca_that_is_missing_is_told_and_behind_it_that_something_else_answers() {
    let (url, certificate) = api_server();
    let mut config = location(&url, BUCKET, &credentials_file());
    assert_is(&config, Cause::CertificateUntrusted, &["not trusted", "spec.objectStorage.caCert"]).await;
    config.ca_certificate = Some(certificate);
    assert_is(&config, Cause::NotAStore, &["no object store", "application/json", "s3Url"]).await;
}

#[tokio::test]
async fn who_hands_out_roles_is_trusted_by_the_certificates_of_the_location() {
    let (url, certificate) = api_server();
    let profiles = format!(
        "[keys]\naws_access_key_id = a\naws_secret_access_key = b\n\n[default]\nrole_arn = arn:aws:iam::1:role/r\n\
         source_profile = keys\nendpoint_url = {url}\n"
    );
    let mut config = location(&endpoint(), BUCKET, &profiles);
    assert_is(&config, Cause::CertificateUntrusted, &["not trusted"]).await;
    config.ca_certificate = Some(certificate);
    let (_, found) = findings(&config).await;
    let is_trusted = found.iter().all(|finding| finding.cause != Cause::CertificateUntrusted);
    assert!(is_trusted && found.iter().any(Finding::is_trouble), "{found:#?}");
}

#[tokio::test]
async fn a_page_in_place_of_a_store_is_told() {
    const PAGE: &str = "HTTP/1.1 200 OK\r\nServer: MinIO Console\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>";
    assert_is(&answering(PAGE).await, Cause::NotAStore, &["MinIO Console", "s3Url"]).await;
}

#[tokio::test]
async fn an_address_that_sends_on_to_https_is_told() {
    const ON: &str = "HTTP/1.1 308 Permanent Redirect\r\nLocation: https://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n";
    let words = ["sends everybody on to https://127.0.0.1:9/", "write https://"];
    assert_is(&answering(ON).await, Cause::WrongScheme, &words).await;
}

#[tokio::test]
async fn an_address_that_cannot_be_reached_is_told_by_why() {
    let https = endpoint().replace("http://", "https://");
    assert_is(&location(&https, BUCKET, &credentials_file()), Cause::WrongScheme, &["does not speak TLS"]).await;
    let nobody = location("http://127.0.0.1:9", BUCKET, &credentials_file());
    assert_is(&nobody, Cause::Unreachable, &["nothing listens at http://127.0.0.1:9"]).await;
    let unknown = location("http://store.invalid", BUCKET, &credentials_file());
    assert_is(&unknown, Cause::Unreachable, &["store.invalid", "is not known here"]).await;
}

/// A value of the account of the stand-in for AWS.
fn moto_key(name: &str) -> String {
    let all = Moto::credentials().unwrap();
    all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned)).unwrap()
}

/// Makes a bucket of it, or sets a part of one up: a path such as `bucket?lifecycle`.
async fn put(path: &str, header: Option<(&'static str, &'static str)>, body: &str) {
    let credential = AwsCredential {
        key_id: moto_key("aws_access_key_id"),
        secret_key: moto_key("aws_secret_access_key"),
        token: None,
    };
    let request = http::Request::put(format!("{}/{path}", Moto::url()));
    let request = header.into_iter().fold(request, |request, (name, value)| request.header(name, value));
    let mut request = request.body(HttpRequestBody::from(body.to_owned())).unwrap();
    AwsAuthorizer::new(&credential, "s3", "us-east-1").try_authorize(&mut request, None).unwrap();
    let client = ReqwestConnector::default().connect(&ClientOptions::new().with_allow_http(true)).unwrap();
    let status = client.execute(request).await.unwrap().status();
    assert!(status.is_success(), "PUT {path} answers {status}");
}

/// A bucket of the stand-in for AWS.
async fn moto_bucket(name: &str, header: Option<(&'static str, &'static str)>) -> String {
    static READY: OnceLock<()> = OnceLock::new();
    READY.get_or_init(|| {
        endpoint();
        TestBox::start_in_store(&Moto).unwrap();
    });
    let bucket = unique_name(name);
    put(&bucket, header, "").await;
    bucket
}

/// Who may do just this in a bucket.
fn user_who_may(actions: &[&str], bucket: &str) -> String {
    let policy = serde_json::json!({
        "Version": "2012-10-17",
        "Statement": [{
            "Effect": "Allow", "Action": actions,
            "Resource": [format!("arn:aws:s3:::{bucket}"), format!("arn:aws:s3:::{bucket}/*")],
        }],
    });
    Moto::make_user(&unique_name("user"), &policy.to_string()).unwrap()
}

#[tokio::test]
async fn the_right_that_is_missing_is_named_with_the_permission() {
    let bucket = moto_bucket("rights", None).await;
    let all = ["s3:ListBucket", "s3:PutObject", "s3:GetObject", "s3:DeleteObject"];
    for (missing, word) in all.iter().zip(["list", "put", "get", "delete"]) {
        let others: Vec<&str> = all.iter().copied().filter(|action| action != missing).collect();
        let config = location(&Moto::url(), &bucket, &user_who_may(&others, &bucket));
        assert_is(&config, Cause::RightMissing, &[&format!("may not {word} in"), &format!("permit {missing}")]).await;
    }
    let nothing = location(&Moto::url(), &bucket, &user_who_may(&["ec2:DescribeVolumes"], &bucket));
    assert_is(&nothing, Cause::RightMissing, &["may do nothing in"]).await;
}

#[tokio::test]
async fn a_lifecycle_rule_that_would_take_backups_is_told() {
    let bucket = moto_bucket("lifecycle", None).await;
    let rule = |id: &str, prefix: &str| {
        format!(
            "<Rule><ID>{id}</ID><Filter><Prefix>{prefix}</Prefix></Filter><Status>Enabled</Status><Expiration><Days>14</Days></Expiration></Rule>"
        )
    };
    let config = location(&Moto::url(), &bucket, &Moto::credentials().unwrap());
    let path = format!("{bucket}?lifecycle");
    let document = |rules: &str| format!("<LifecycleConfiguration>{rules}</LifecycleConfiguration>");
    put(&path, None, &document(&rule("logs", "logs/"))).await;
    let (_, harmless) = findings(&config).await;
    assert!(!harmless.iter().any(Finding::is_trouble), "{harmless:#?}");
    put(&path, None, &document(&(rule("logs", "logs/") + &rule("two-weeks", "")))).await;
    assert_is(&config, Cause::LifecycleRule, &["\"two-weeks\"", "removes objects 14 days after"]).await;
}

#[tokio::test]
async fn a_lock_that_keeps_what_is_deleted_is_told() {
    let bucket = moto_bucket("locked", Some(("x-amz-bucket-object-lock-enabled", "true"))).await;
    let lock = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention>\
                <Mode>GOVERNANCE</Mode><Days>30</Days></DefaultRetention></Rule></ObjectLockConfiguration>";
    put(&format!("{bucket}?object-lock"), None, lock).await;
    let config = location(&Moto::url(), &bucket, &Moto::credentials().unwrap());
    // This store wants a header beside the checksum that the client library does not send: that is told as well.
    let (seen, found) = findings(&config).await;
    let trouble: Vec<&Finding> = found.iter().filter(|finding| finding.is_trouble()).collect();
    assert!(trouble.iter().all(|finding| finding.cause == Cause::ObjectLock), "{found:#?}\n{seen:#?}");
    assert!(trouble.iter().any(|finding| finding.to_string().contains("30 days (governance)")), "{found:#?}");
}

#[tokio::test]
async fn a_profile_may_take_a_role_or_run_a_program() {
    let bucket = moto_bucket("roles", None).await;
    let role = unique_name("role");
    let policy = serde_json::json!({
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
    });
    let arn = Moto::make_role(&role, &policy.to_string()).unwrap();
    let keys = Moto::credentials().unwrap().replace("[default]", "[keys]");
    let profiles = format!(
        "{keys}\n[default]\nrole_arn = {arn}\nsource_profile = keys\nregion = us-east-1\nendpoint_url = {}\n",
        Moto::url()
    );
    let config = location(&Moto::url(), &bucket, &profiles);
    let (seen, found) = findings(&config).await;
    assert!(!found.iter().any(Finding::is_trouble), "{found:#?}\n{seen:#?}");

    let printed = serde_json::json!({
        "Version": 1, "AccessKeyId": moto_key("aws_access_key_id"), "SecretAccessKey": moto_key("aws_secret_access_key"),
    });
    let program = format!("[default]\ncredential_process = echo '{printed}'\n");
    let (seen, found) = findings(&location(&Moto::url(), &bucket, &program)).await;
    assert!(!found.iter().any(Finding::is_trouble), "{found:#?}\n{seen:#?}");
}
