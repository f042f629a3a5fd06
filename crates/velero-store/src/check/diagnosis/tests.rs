//! One table: what was seen, and the cause it must be taken for.

use std::time::{Duration, SystemTime};

use super::*;
use crate::check::bucket_settings::{BucketSettings, Expiration, Retention, Rule};
use crate::check::observation::{ClockReading, Outcome, Step};
use crate::flaws::Flaw;
use crate::recorder::{Answer, Exchange, Response};

fn place() -> Place {
    Place {
        provider: "aws".to_owned(),
        bucket: "backups".to_owned(),
        prefix: "cluster/".to_owned(),
        region: "us-east-1".to_owned(),
        has_credentials: true,
        ..Place::default()
    }
}

fn failed(right: Right, answer: Answer) -> Step {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let address = "https://s3.example.com/backups".to_owned();
    let exchange = Exchange { method: "GET".to_owned(), address, sent: now, received: now, answer };
    Step { right, outcome: Outcome::Failed(Failure { text: "it failed".to_owned(), exchange: Some(exchange) }) }
}

fn response(status: u16, code: &str, message: &str) -> Response {
    let (code, message) = (code.to_owned(), message.to_owned());
    Response { status, code, message, is_of_a_store: true, ..Response::default() }
}

fn refused(right: Right, status: u16, code: &str, message: &str) -> Step {
    failed(right, Answer::Response(Box::new(response(status, code, message))))
}

fn broken(text: &str) -> Step {
    failed(Right::List, Answer::Broken(text.to_owned()))
}

fn done(right: Right) -> Step {
    Step { right, outcome: Outcome::Done }
}

fn seen(steps: Vec<Step>) -> Observation {
    Observation { place: place(), steps, ..Observation::default() }
}

fn off_by(seconds: i64) -> Option<ClockReading> {
    let ours = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let by = Duration::from_secs(seconds.unsigned_abs());
    Some(ClockReading { ours, theirs: if seconds > 0 { ours - by } else { ours + by } })
}

/// The first finding: its cause, and words that must be in it.
fn assert_first(observation: &Observation, cause: Cause, words: &[&str]) {
    let findings = diagnose(observation);
    let first = findings.first().unwrap_or_else(|| panic!("nothing is found in {observation:?}"));
    assert_eq!(first.cause, cause, "{first}");
    for word in words {
        assert!(first.to_string().contains(word), "{word:?} is missing in: {first}");
    }
    assert!(
        first.cause == Cause::Other || first.cause == Cause::Config || !first.remedy.is_empty(),
        "no remedy: {first}"
    );
}

#[test]
fn a_refusal_of_the_store_is_taken_for_its_cause() {
    for (status, code, message, cause, words) in [
        (
            400,
            "ExpiredToken",
            "The provided token has expired.",
            Cause::CredentialsExpired,
            vec!["expired", "new ones"],
        ),
        (
            401,
            "InvalidAuthenticationInfo",
            "Lifetime validation failed. The token is expired.",
            Cause::CredentialsExpired,
            vec![],
        ),
        (
            401,
            "invalid_client",
            "AADSTS7000222: The provided client secret keys are expired",
            Cause::CredentialsExpired,
            vec![],
        ),
        (403, "InvalidAccessKeyId", "does not exist in our records", Cause::CredentialsUnknown, vec!["does not know"]),
        (403, "InvalidSecurity", "The provided security credentials are not valid.", Cause::CredentialsUnknown, vec![]),
        (403, "InvalidTokenId", "The security token is invalid", Cause::CredentialsUnknown, vec![]),
        (403, "SignatureDoesNotMatch", "", Cause::CredentialsWrong, vec!["does not belong"]),
        (403, "AuthenticationFailed", "Server failed to authenticate the request", Cause::CredentialsWrong, vec![]),
        (400, "invalid_grant", "Invalid JWT Signature.", Cause::CredentialsWrong, vec![]),
        (404, "NoSuchBucket", "", Cause::BucketMissing, vec!["\"backups\" does not exist", "create it"]),
        (404, "ContainerNotFound", "", Cause::BucketMissing, vec![]),
        (400, "InvalidBucketName", "", Cause::BucketMissing, vec!["no name"]),
        (403, "RequestTimeTooSkewed", "", Cause::ClockOff, vec!["clock", "15 minutes"]),
        (400, "IllegalLocationConstraintException", "incompatible", Cause::WrongRegion, vec!["set config region"]),
        (503, "SlowDown", "", Cause::StoreTrouble, vec!["503 SlowDown"]),
        (403, "AccessDenied", "", Cause::RightMissing, vec!["may not list", "s3:ListBucket on arn:aws:s3:::backups"]),
        (400, "KMS.NotFoundException", "key gone", Cause::EncryptionKey, vec!["kmsKeyId"]),
        (
            403,
            "AccessDenied",
            "User: u is not authorized to perform: kms:GenerateDataKey on resource: arn:aws:kms:x",
            Cause::EncryptionKey,
            vec!["permit kms:GenerateDataKey"],
        ),
        (400, "InvalidArgument", "Unsupported checksum header", Cause::ChecksumRefused, vec!["checksumAlgorithm"]),
        (
            400,
            "MissingUploadObjectWithObjectLockHeaders",
            "x-amz-sdk-checksum-algorithm header required to upload an object with a retention period configured using Object Lock",
            Cause::ObjectLock,
            vec!["does not take ours"],
        ),
        (418, "Teapot", "", Cause::Other, vec!["could not list"]),
    ] {
        assert_first(&seen(vec![refused(Right::List, status, code, message)]), cause, &words);
    }
}

#[test]
fn a_bucket_elsewhere_is_named_with_its_region() {
    for (status, code) in [(301, "PermanentRedirect"), (400, "AuthorizationHeaderMalformed"), (400, "")] {
        let answer = Response { region: "eu-west-1".to_owned(), ..response(status, code, "") };
        let step = failed(Right::List, Answer::Response(Box::new(answer)));
        assert_first(
            &seen(vec![step]),
            Cause::WrongRegion,
            &["in region \"eu-west-1\"", "says \"us-east-1\"", "to eu-west-1"],
        );
    }
}

#[test]
fn a_key_that_azure_does_not_take_is_no_right() {
    let unproven =
        "Server failed to authenticate the request. Make sure the value of the Authorization header is formed";
    for (code, message, words) in [
        ("AuthorizationFailure", unproven, &["does not belong"][..]),
        ("KeyBasedAuthenticationNotPermitted", "", &["takes no key", "useAAD"]),
    ] {
        let mut observation = seen(vec![refused(Right::List, 403, code, message)]);
        observation.place.provider = "azure".to_owned();
        assert_first(&observation, Cause::CredentialsWrong, words);
    }
}

#[test]
fn a_key_that_azure_does_not_look_up_is_no_right_to_the_container() {
    for (status, cause, words) in [
        (403, Cause::RightMissing, &["may not look up the key", "storageAccounts/listKeys/action", "useAAD"][..]),
        (404, Cause::BucketMissing, &["storage account is not in", "resourceGroup"]),
    ] {
        let mut step = refused(Right::List, status, "", "");
        if let Outcome::Failed(Failure { exchange: Some(exchange), .. }) = &mut step.outcome {
            exchange.address = "https://management.azure.com/subscriptions/s/storageAccounts/a/listKeys".to_owned();
        }
        assert_first(&seen(vec![step]), cause, words);
    }
}

#[test]
fn a_region_in_an_answer_about_credentials_explains_nothing() {
    let answer = Response { region: "eu-west-1".to_owned(), ..response(400, "ExpiredToken", "The token has expired.") };
    let mut observation = seen(vec![failed(Right::List, Answer::Response(Box::new(answer)))]);
    observation.place.region = String::new();
    assert_first(&observation, Cause::CredentialsExpired, &["new ones"]);
}

#[test]
fn an_address_that_says_more_than_where_the_store_is_explains_that_nothing_is_there() {
    let missing = || refused(Right::List, 404, "NoSuchBucket", "");
    let no_key = || refused(Right::List, 404, "NoSuchKey", "");
    let other_name = || broken("invalid peer certificate: certificate not valid for name \"a\"");
    let beside = "write the address of the store alone";
    for (address, step, cause, words) in [
        ("http://minio:9000/team", missing(), Cause::BucketMissing, vec!["has the path /team", beside]),
        ("http://minio:9000/backups/", no_key(), Cause::BucketMissing, vec!["has the path /backups", beside]),
        (
            "https://backups.s3.eu-west-1.amazonaws.com",
            other_name(),
            Cause::BucketMissing,
            vec!["has the bucket in front of its host", beside],
        ),
        ("http://minio:9000/", missing(), Cause::BucketMissing, vec!["does not exist"]),
        ("http://backups.minio.svc:9000", missing(), Cause::BucketMissing, vec!["does not exist"]),
        ("https://minio", other_name(), Cause::CertificateWrong, vec!["another name"]),
        ("https://minio/team", other_name(), Cause::CertificateWrong, vec!["another name"]),
        ("http://minio:9000/team", refused(Right::List, 503, "SlowDown", ""), Cause::StoreTrouble, vec!["503"]),
    ] {
        let mut observation = seen(vec![step]);
        observation.place.address = address.to_owned();
        assert_first(&observation, cause, &words);
    }
}

#[test]
fn a_proxy_is_named_where_it_may_be_the_one_who_answers() {
    let page = Response { content_type: "text/html".to_owned(), is_of_a_store: false, ..response(403, "", "") };
    for step in [
        broken("tcp connect error: Connection refused (os error 111)"),
        broken("invalid peer certificate: UnknownIssuer"),
        failed(Right::List, Answer::Response(Box::new(page))),
    ] {
        let mut observation = seen(vec![step]);
        let told = diagnose(&observation)[0].to_string();
        assert!(!told.contains("NO_PROXY"), "{told}");
        observation.place.proxy = "HTTPS_PROXY".to_owned();
        let told = diagnose(&observation)[0].to_string();
        assert!(told.contains("the proxy that HTTPS_PROXY names unless NO_PROXY"), "{told}");
    }
}

#[test]
fn who_is_sent_on_without_credentials_is_not_told_that_they_may_nothing() {
    let mut observation = seen(RIGHTS.map(|right| refused(right, 403, "AccessDenied", "")).to_vec());
    observation.sent_on_to = Some("https://s3.example.com/".to_owned());
    let words = ["sends everybody on to https://s3.example.com/", "write https://"];
    assert_first(&observation, Cause::WrongScheme, &words);
    assert_eq!(diagnose(&observation).len(), 1);
    observation.steps = RIGHTS.map(done).to_vec();
    assert!(diagnose(&observation).is_empty());
}

#[test]
fn a_connection_that_ends_without_an_answer_may_want_tls() {
    let mut step = broken("client error (SendRequest): connection closed before message completed");
    if let Outcome::Failed(Failure { exchange: Some(exchange), .. }) = &mut step.outcome {
        exchange.address = "http://minio:9000/backups".to_owned();
    }
    assert_first(&seen(vec![step]), Cause::Unreachable, &["ends the connection", "https://"]);
}

#[test]
fn a_connection_that_fails_is_taken_for_its_cause() {
    for (text, cause, words) in [
        (
            "HTTP error: client error (Connect): invalid peer certificate: UnknownIssuer",
            Cause::CertificateUntrusted,
            vec!["caCert"],
        ),
        (
            "invalid peer certificate: certificate expired: verification time 1",
            Cause::CertificateWrong,
            vec!["expired"],
        ),
        (
            "invalid peer certificate: certificate not valid for name \"a\"",
            Cause::CertificateWrong,
            vec!["another name"],
        ),
        ("received corrupt message of type InvalidContentType", Cause::WrongScheme, vec!["http://"]),
        (
            "client error (SendRequest): invalid HTTP version parsed",
            Cause::NotAStore,
            vec!["does not speak HTTP", "s3Url"],
        ),
        (
            "dns error: failed to lookup address information: Name or service not known",
            Cause::Unreachable,
            vec!["is not known here"],
        ),
        (
            "tcp connect error: Connection refused (os error 111)",
            Cause::Unreachable,
            vec!["nothing listens at https://s3.example.com"],
        ),
        ("operation timed out", Cause::Unreachable, vec!["firewall"]),
        ("connection closed before message completed", Cause::Unreachable, vec!["cannot be reached"]),
    ] {
        assert_first(&seen(vec![broken(text)]), cause, &words);
    }
}

#[test]
fn a_name_that_nobody_knows_is_put_down_to_what_it_is_made_from() {
    for (provider, location, host, words) in [
        ("aws", "", "https://backups.s3.minio.amazonaws.com", &["config region", "config s3Url"][..]),
        ("aws", "http://minio:9000", "http://minio:9000", &["URL of the location", "pod of the server"]),
        ("aws", "http://minio:9000", "http://backups.minio:9000", &["s3ForcePathStyle", "correct that name"]),
        ("azure", "", "https://misspelt.blob.core.windows.net", &["config storageAccount", "AZURE_CLOUD_NAME"]),
        ("azure", "", "https://login.microsoftonline.com", &["URL of the location"]),
    ] {
        let mut step = broken("dns error: failed to lookup address information: Name or service not known");
        if let Outcome::Failed(Failure { exchange: Some(exchange), .. }) = &mut step.outcome {
            exchange.address = format!("{host}/backups");
        }
        let place = Place { provider: provider.to_owned(), address: location.to_owned(), ..place() };
        assert_first(&Observation { place, ..seen(vec![step]) }, Cause::Unreachable, words);
    }
}

#[test]
fn another_server_is_not_taken_for_a_store() {
    let answer = |status, content_type: &str, server: &str, message: &str| Response {
        content_type: content_type.to_owned(),
        server: server.to_owned(),
        is_of_a_store: false,
        ..response(status, "", message)
    };
    for (answer, cause, words) in [
        (answer(404, "text/html", "nginx", "404"), Cause::NotAStore, vec!["https://s3.example.com", "nginx", "s3Url"]),
        (answer(200, "text/html; charset=utf-8", "", ""), Cause::NotAStore, vec!["answers 200"]),
        (answer(403, "application/json", "", "forbidden"), Cause::NotAStore, vec![]),
        (answer(400, "", "", "Client sent an HTTP request to an HTTPS server."), Cause::WrongScheme, vec!["https://"]),
        (answer(502, "text/plain", "", "bad gateway"), Cause::StoreTrouble, vec!["502"]),
    ] {
        let step = failed(Right::List, Answer::Response(Box::new(answer)));
        assert_first(&seen(vec![step]), cause, &words);
    }
}

#[test]
fn clocks_explain_a_refusal_and_are_told_before_they_do_harm() {
    let mut observation = seen(vec![refused(Right::List, 403, "AccessDenied", "")]);
    observation.clock = off_by(3600);
    assert_first(&observation, Cause::ClockOff, &["60 minutes ahead"]);
    observation.steps = vec![refused(Right::List, 403, "AuthenticationFailed", "")];
    observation.clock = off_by(-86_400 * 3);
    assert_first(&observation, Cause::ClockOff, &["3 days behind"]);
    observation.steps = vec![refused(Right::List, 400, "invalid_grant", "Invalid JWT: check your iat and exp values")];
    assert_first(&observation, Cause::ClockOff, &["3 days behind"]);
    observation.steps = vec![done(Right::List)];
    observation.clock = off_by(600);
    assert_first(&observation, Cause::ClockOff, &["10 minutes ahead"]);
    assert_eq!(diagnose(&observation)[0].severity, Severity::Warning);
    observation.clock = off_by(200);
    assert!(diagnose(&observation).is_empty());
}

#[test]
fn the_rights_that_are_missing_are_named_and_no_others() {
    let denied = |right| refused(right, 403, "AccessDenied", "");
    let observation = seen(vec![done(Right::List), denied(Right::Put), done(Right::Get), denied(Right::Delete)]);
    assert_first(
        &observation,
        Cause::RightMissing,
        &[
            "may not put, delete in bucket \"backups\"; the rest is permitted",
            "s3:PutObject, s3:DeleteObject on arn:aws:s3:::backups/cluster/*",
        ],
    );
    assert_first(&seen(RIGHTS.map(denied).to_vec()), Cause::RightMissing, &["may do nothing"]);
    let mut tagged = seen(vec![done(Right::List), denied(Right::Put)]);
    tagged.place.tagging = "team=backup".to_owned();
    assert_first(&tagged, Cause::RightMissing, &["s3:PutObject, s3:PutObjectTagging on"]);
    let mut azure = seen(vec![refused(Right::List, 403, "AuthorizationPermissionMismatch", "")]);
    azure.place.provider = "azure".to_owned();
    assert_first(&azure, Cause::RightMissing, &["container \"backups\"", "Storage Blob Data Contributor"]);
    azure.steps = vec![refused(Right::List, 403, "AuthorizationFailure", "This request is not authorized")];
    assert_first(&azure, Cause::RightMissing, &["permit this network in the firewall", "Data Contributor"]);
}

#[test]
fn a_right_to_read_is_not_missed_where_only_a_list_would_tell() {
    let denied = |right| refused(right, 403, "AccessDenied", "");
    let skipped = |right| Step { right, outcome: Outcome::Skipped("the location is ReadOnly") };
    let [list, get] = [Right::List, Right::Get].map(denied);
    let read_only = seen(vec![list.clone(), skipped(Right::Put), get.clone(), skipped(Right::Delete)]);
    let refused_put = seen(vec![list.clone(), denied(Right::Put), get.clone(), done(Right::Delete)]);
    for (observation, permission) in
        [(read_only, "permit s3:ListBucket on"), (refused_put, "s3:ListBucket, s3:PutObject on")]
    {
        assert_first(&observation, Cause::RightMissing, &[permission, "is seen once they may list"]);
    }
    let there = seen(vec![list, done(Right::Put), get, done(Right::Delete)]);
    assert_first(&there, Cause::RightMissing, &["s3:ListBucket, s3:GetObject on", "the rest is permitted"]);
}

#[test]
fn what_is_odd_about_a_text_explains_why_it_is_not_accepted() {
    let mut observation = seen(vec![refused(Right::List, 403, "SignatureDoesNotMatch", "")]);
    observation.flaws = vec![Flaw::Quoted { of: "aws_secret_access_key".to_owned() }];
    assert_first(&observation, Cause::CredentialsSpoiled, &["quotes"]);
    observation.steps = vec![done(Right::List)];
    assert!(diagnose(&observation).is_empty(), "what works is not odd");
    observation = Observation { refusal: Some("refused".to_owned()), place: place(), ..Observation::default() };
    assert_first(&observation, Cause::Config, &["refused"]);
    observation.flaws = vec![Flaw::TrailingNewline { of: "config region".to_owned() }];
    assert_first(&observation, Cause::CredentialsSpoiled, &["config region ends in a line break", "printf"]);
}

#[test]
fn no_credentials_at_all_are_told_from_wrong_ones() {
    let mut step = broken("client error (Connect): timed out");
    if let Outcome::Failed(Failure { exchange: Some(exchange), .. }) = &mut step.outcome {
        exchange.address = "http://169.254.169.254/latest/api/token".to_owned();
    }
    assert_first(&seen(vec![step]), Cause::CredentialsMissing, &["spec.credential"]);
}

#[test]
fn a_role_that_is_not_handed_out_is_no_right_to_the_bucket() {
    let words = ["not given its role", "trust policy", "system:serviceaccount:NAMESPACE:ACCOUNT"];
    let message = "Not authorized to perform sts:AssumeRoleWithWebIdentity";
    let role = Cause::RoleRefused;
    let observation = seen(vec![refused(Right::List, 403, "AccessDenied", message)]);
    assert_first(&observation, role, &[&words[..], &[message]].concat());

    let mut step = refused(Right::List, 403, "AccessDenied", "");
    if let Outcome::Failed(Failure { exchange: Some(exchange), .. }) = &mut step.outcome {
        exchange.address = "https://sts.eu-central-1.amazonaws.com/".to_owned();
    }
    assert_first(&seen(vec![step]), role, &words);

    let message = "User: arn:aws:iam::1:user/velero is not authorized to perform: sts:AssumeRole on resource: r";
    let text = format!("role_arn arn:aws:iam::1:role/r: 403: <ErrorResponse><Error><Message>{message}</Message>");
    let outcome = Outcome::Failed(Failure { text, exchange: None });
    let observation = seen(vec![Step { right: Right::List, outcome }]);
    assert_first(&observation, role, &words);
    assert_eq!(diagnose(&observation).len(), 1);
}

#[test]
fn keys_that_are_to_take_a_role_are_judged_by_themselves() {
    for (code, message, cause) in [
        ("ExpiredToken", "The security token included in the request is expired", Cause::CredentialsExpired),
        ("InvalidClientTokenId", "The security token included in the request is invalid.", Cause::CredentialsUnknown),
        ("SignatureDoesNotMatch", "The request signature does not match.", Cause::CredentialsWrong),
        ("AccessDenied", "", Cause::RoleRefused),
    ] {
        let mut step = refused(Right::List, 403, code, message);
        if let Outcome::Failed(Failure { exchange: Some(exchange), .. }) = &mut step.outcome {
            exchange.address = "https://sts.eu-central-1.amazonaws.com/".to_owned();
        }
        assert_first(&seen(vec![step]), cause, &[]);
    }
}

#[test]
fn what_a_bucket_does_by_itself_is_told_while_all_works() {
    let mut observation = seen(RIGHTS.map(done).to_vec());
    observation.settings = Some(BucketSettings::default());
    assert!(diagnose(&observation).is_empty());
    let expiration = Some(Expiration { days: Some(7), date: None });
    let rule = Rule { id: "tidy".to_owned(), status: "Enabled".to_owned(), expiration, ..Rule::default() };
    let lock = Retention { mode: "COMPLIANCE".to_owned(), days: Some(30), years: None };
    observation.settings = Some(BucketSettings { lifecycle: Look::Seen(vec![rule]), lock: Look::Seen(Some(lock)) });
    let findings = diagnose(&observation);
    assert_eq!(
        findings.iter().map(|finding| finding.cause).collect::<Vec<_>>(),
        [Cause::LifecycleRule, Cause::ObjectLock]
    );
    assert!(
        findings[0].to_string().contains("\"tidy\"") && findings[0].to_string().contains("7 days"),
        "{}",
        findings[0]
    );
    assert!(findings[1].to_string().contains("30 days (compliance)"), "{}", findings[1]);
    assert!(findings.iter().all(|finding| finding.severity == Severity::Warning));
    observation.settings =
        Some(BucketSettings { lifecycle: Look::Unseen("AccessDenied".to_owned()), lock: Look::default() });
    assert!(diagnose(&observation).iter().all(|finding| !finding.is_trouble()));
}

#[test]
fn backups_of_other_clusters_are_told_and_hinder_nobody() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let observation = Observation { backups: names(&["a", "b", "c", "d", "e"]), ..seen(vec![done(Right::List)]) };
    let told = |known: Option<&[&str]>| {
        let known: Option<BTreeSet<String>> = known.map(|known| names(known).into_iter().collect());
        unknown_backups(&observation, known.as_ref())
    };
    let finding = told(Some(&["a"])).unwrap();
    assert!(finding.cause == Cause::UnknownBackups && !finding.is_trouble(), "{finding}");
    let words = "4 backups lie there that are not of this cluster (b, c and others).";
    assert!(finding.problem.starts_with(words), "{finding}");
    assert!(told(Some(&["a", "b", "c"])).unwrap().problem.contains("(d, e)"));
    assert!(told(None).unwrap().problem.starts_with("5 backups lie there already, of this cluster or of another"));
    assert_eq!(told(Some(&["a", "b", "c", "d", "e", "f"])), None);
    assert!(diagnose(&observation).is_empty());
}

#[test]
fn folders_of_others_are_named() {
    let observation = Observation { foreign_folders: vec!["photos".to_owned()], ..seen(vec![done(Right::List)]) };
    assert_first(&observation, Cause::ForeignFolders, &["[photos]", "prefix \"cluster/\""]);
}
