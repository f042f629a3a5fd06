//! Credentials that are handed out for a while: by a program of the user's, or by AWS for a role.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use object_store::aws::{AwsAuthorizer, AwsCredential, AwsCredentialProvider};
use object_store::client::HttpRequestBody;
use object_store::{ClientOptions, CredentialProvider};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::sync::Mutex;
use velero_api::with_causes;

use crate::Recorder;
use crate::providers::plain_request;

/// How long before their end credentials are fetched anew.
const MARGIN: Duration = Duration::from_secs(300);
/// How long a program or AWS may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most that a program may print.
const LONGEST_ANSWER: usize = 1 << 20;

/// Where credentials of a while come from.
#[derive(Debug)]
pub(super) enum Source {
    /// A program that prints them.
    Process(String),
    /// A role that somebody else may take.
    Role {
        role: Role,
        by: AwsCredentialProvider,
        /// What writes down why AWS does not hand it out.
        recorder: Option<Recorder>,
        /// Whom to trust who hands it out.
        options: Box<ClientOptions>,
    },
}

/// A role, and how it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) arn: String,
    pub(super) session: String,
    pub(super) external_id: Option<String>,
    pub(super) region: String,
    /// Where the service is, if not at its usual address.
    pub(super) address: Option<String>,
}

/// Fetches credentials when there are none, or when theirs end.
#[derive(Debug)]
pub(super) struct Temporary {
    source: Source,
    held: Mutex<Option<(Arc<AwsCredential>, Option<SystemTime>)>>,
}

impl Temporary {
    pub(super) fn new(source: Source) -> Self {
        Self { source, held: Mutex::default() }
    }

    async fn fetch(&self) -> Result<Issued, String> {
        let fetched = async {
            match &self.source {
                Source::Process(command) => run(command).await,
                Source::Role { role, by, recorder, options } => {
                    let who = by.get_credential().await.map_err(|error| with_causes(&error))?;
                    assume(role, &who, recorder.as_ref(), options).await
                }
            }
        };
        match tokio::time::timeout(PATIENCE, fetched).await {
            Ok(issued) => issued,
            Err(_) => Err(format!("no answer within {} seconds", PATIENCE.as_secs())),
        }
    }
}

#[async_trait]
impl CredentialProvider for Temporary {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut held = self.held.lock().await;
        if let Some((credential, end)) = held.as_ref()
            && end.is_none_or(|end| end > SystemTime::now() + MARGIN)
        {
            return Ok(credential.clone());
        }
        let issued = self.fetch().await.and_then(|issued| Ok((issued.credential(), issued.end()?)));
        let (credential, end) = issued.map_err(|problem| {
            let what = match &self.source {
                Source::Process(_) => "credential_process".to_owned(),
                Source::Role { role, .. } => format!("role_arn {}", role.arn),
            };
            object_store::Error::Generic { store: "S3", source: format!("{what}: {problem}").into() }
        })?;
        let credential = Arc::new(credential);
        *held = Some((credential.clone(), end));
        Ok(credential)
    }
}

/// Credentials as a program prints them, and as AWS writes them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Issued {
    access_key_id: String,
    secret_access_key: String,
    #[serde(default)]
    session_token: Option<String>,
    #[serde(default)]
    expiration: Option<String>,
}

impl Issued {
    fn credential(&self) -> AwsCredential {
        AwsCredential {
            key_id: self.access_key_id.clone(),
            secret_key: self.secret_access_key.clone(),
            token: self.session_token.clone().filter(|token| !token.is_empty()),
        }
    }

    /// When they end; nothing where that is not said. Passed over in silence, an end that cannot be read would let them be used
    /// beyond it.
    fn end(&self) -> Result<Option<SystemTime>, String> {
        let Some(end) = &self.expiration else { return Ok(None) };
        // It is not told either: a program may have written a secret into the wrong field.
        let read = end.parse::<jiff::Timestamp>().map_err(|_| {
            "Expiration of its credentials is no time; write one such as 2030-01-31T12:00:00Z, or leave it out"
                .to_owned()
        })?;
        Ok(Some(read.into()))
    }
}

/// Runs the program as the tools of AWS do: by the shell.
async fn run(command: &str) -> Result<Issued, String> {
    let output = tokio::process::Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| {
            format!("it cannot be started: {error}; the image of the server has no shell, use one that has")
        })?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(format!("it ended with {}: {}", output.status, words.trim()));
    }
    if output.stdout.len() > LONGEST_ANSWER {
        return Err("it prints more than credentials".to_owned());
    }
    // What it printed is never told: it may be a secret.
    serde_json::from_slice(&output.stdout).map_err(|_| "it does not print credentials in JSON (Version 1)".to_owned())
}

#[derive(Deserialize)]
struct AssumeRoleResponse {
    #[serde(rename = "AssumeRoleResult")]
    result: AssumeRoleResult,
}

#[derive(Deserialize)]
struct AssumeRoleResult {
    #[serde(rename = "Credentials")]
    credentials: Issued,
}

async fn assume(
    role: &Role,
    who: &AwsCredential,
    recorder: Option<&Recorder>,
    options: &ClientOptions,
) -> Result<Issued, String> {
    let address =
        role.address.clone().unwrap_or_else(|| format!("https://sts.{}.{}", role.region, domain(&role.region)));
    let mut form = format!(
        "Action=AssumeRole&Version=2011-06-15&RoleArn={}&RoleSessionName={}",
        escaped(&role.arn),
        escaped(&role.session)
    );
    if let Some(external_id) = &role.external_id {
        form.push_str(&format!("&ExternalId={}", escaped(external_id)));
    }
    let failed = |error: &dyn std::error::Error| with_causes(error);
    let request = http::Request::post(format!("{}/", address.trim_end_matches('/')))
        .header("content-type", "application/x-www-form-urlencoded; charset=utf-8")
        .body(HttpRequestBody::from(form));
    let mut request = request.map_err(|error| failed(&error))?;
    let signer = AwsAuthorizer::new(who, "sts", &role.region);
    signer.try_authorize(&mut request, None).map_err(|error| failed(&error))?;
    let options = options.clone().with_allow_http(address.starts_with("http://"));
    let (status, text) = plain_request::send(&options, recorder, request).await.map_err(|error| error.to_string())?;
    if status != 200 {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        return Err(format!("{status}: {}", words.chars().take(500).collect::<String>()));
    }
    let answer: AssumeRoleResponse =
        quick_xml::de::from_str(&text).map_err(|error| format!("the answer cannot be read: {error}"))?;
    Ok(answer.result.credentials)
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The domain of AWS in a region.
pub(super) fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn of_process(command: &str) -> object_store::Result<Arc<AwsCredential>> {
        Temporary::new(Source::Process(command.to_owned())).get_credential().await
    }

    #[tokio::test]
    async fn a_program_hands_out_credentials_until_they_end() {
        let found = of_process(r#"echo '{"Version":1,"AccessKeyId":"a","SecretAccessKey":"b","SessionToken":"c"}'"#);
        let found = found.await.unwrap();
        assert_eq!((found.key_id.as_str(), found.secret_key.as_str(), found.token.as_deref()), ("a", "b", Some("c")));
        let folder = tempfile::tempdir().unwrap();
        let count = |end: &str| {
            let file = folder.path().join("count");
            let print = format!(r#"echo '{{"AccessKeyId":"a","SecretAccessKey":"b","Expiration":"{end}"}}'"#);
            (Temporary::new(Source::Process(format!("echo 1 >> {}; {print}", file.display()))), file)
        };
        for (end, runs) in [("2099-01-01T00:00:00Z", 1), ("2015-01-01T00:00:00Z", 3)] {
            let (provider, file) = count(end);
            for _ in 0..3 {
                provider.get_credential().await.unwrap();
            }
            assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), runs, "{end}");
            std::fs::remove_file(&file).unwrap();
        }
    }

    #[tokio::test]
    async fn a_program_that_fails_is_told_and_its_output_is_not() {
        let failed = of_process("echo vault is sealed >&2; exit 3").await.unwrap_err().to_string();
        assert!(failed.contains("credential_process") && failed.contains("vault is sealed"), "{failed}");
        let odd = of_process("echo hunter2").await.unwrap_err().to_string();
        assert!(odd.contains("credentials in JSON") && !odd.contains("hunter2"), "{odd}");
    }

    #[tokio::test]
    async fn an_end_that_cannot_be_read_is_told_by_its_field() {
        for (end, is_read) in [
            ("null", true),
            (r#""2099-01-01T00:00:00Z""#, true),
            (r#""2099-01-01T00:00:00+01:00""#, true),
            (r#""2099-01-01 00:00:00""#, false),
            (r#""tomorrow""#, false),
            (r#""""#, false),
        ] {
            let print = format!(r#"echo '{{"AccessKeyId":"a","SecretAccessKey":"hunter2","Expiration":{end}}}'"#);
            match of_process(&print).await {
                Ok(credential) => assert!(is_read && credential.key_id == "a", "{end}"),
                Err(error) => {
                    let told = error.to_string();
                    assert!(!is_read && told.contains("credential_process: Expiration"), "{told}");
                    assert!(told.contains("2030-01-31T12:00:00Z") && !told.contains("hunter2"), "{told}");
                }
            }
        }
    }
}
