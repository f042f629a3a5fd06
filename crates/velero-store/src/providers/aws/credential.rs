//! The credentials file of AWS, and who we are to the store.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use object_store::ClientOptions;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};

use super::PROVIDER;
use super::session::{Role, Source, Temporary};
use crate::flaws;
use crate::location::invalid;
use crate::providers::rejected;
use crate::{Error, Recorder, Result, StoreConfig};

/// Who makes the requests.
pub(super) enum Identity {
    /// A profile of a credentials file.
    Profile(Box<Profile>),
    /// Whoever the environment says: variables, web identity, pod identity or the instance.
    Environment,
}

impl Identity {
    /// The identity of a location.
    ///
    /// A credentials file rules out the environment, so that a location's own account is never mixed with the pod's.
    pub(super) async fn of(config: &StoreConfig) -> Result<Self> {
        let explicit = config.credentials_text(PROVIDER, "AWS_SHARED_CREDENTIALS_FILE").await?;
        let text = match explicit {
            Some(text) => Some(text),
            None => home_file().await,
        };
        let Some(text) = text else {
            check_variables()?;
            return Ok(Self::Environment);
        };
        let variable = || std::env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty());
        let name = config.get("profile").map(str::to_owned).or_else(variable).unwrap_or_else(|| "default".to_owned());
        Ok(Self::Profile(Box::new(Profile::find(&text, &name)?)))
    }

    /// The profile, if there is one.
    pub(super) fn profile(&self) -> Option<&Profile> {
        match self {
            Self::Profile(profile) => Some(profile),
            Self::Environment => None,
        }
    }

    /// A client builder that acts as this identity. Those who hand out roles are asked with the options, which say whom to trust, and the
    /// recorder writes down what they say.
    pub(super) fn builder(&self, recorder: Option<&Recorder>, options: &ClientOptions) -> Result<AmazonS3Builder> {
        match self {
            Self::Environment => Ok(AmazonS3Builder::from_env()),
            Self::Profile(profile) => profile.builder(recorder, options),
        }
    }
}

/// The file in the home directory, which only counts when the environment names no account.
async fn home_file() -> Option<String> {
    const ACCOUNTS: [&str; 3] =
        ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"];
    if ACCOUNTS.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty())) {
        return None;
    }
    let path = PathBuf::from(std::env::var_os("HOME")?).join(".aws/credentials");
    tokio::fs::read_to_string(path).await.ok()
}

/// Refuses variables that hold what cannot be meant: a key that ends in a line break cannot even be sent.
fn check_variables() -> Result<()> {
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"]
    {
        let value = std::env::var(name).unwrap_or_default();
        if let Some(flaw) = flaws::of_value(&format!("the variable {name}"), &value) {
            return Err(Error::Spoiled { flaw });
        }
    }
    Ok(())
}

/// One profile of a credentials file.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Profile {
    /// The region the profile names.
    pub(super) region: Option<String>,
    account: Account,
}

#[derive(Clone, PartialEq, Eq)]
enum Account {
    Keys {
        id: String,
        secret: String,
        token: Option<String>,
    },
    WebIdentity {
        role: String,
        token_file: String,
        session: Option<String>,
    },
    /// A program prints the keys.
    Process {
        command: String,
    },
    /// A role that another account, or the environment, takes.
    Role {
        role: Role,
        by: Option<Box<Self>>,
    },
}

/// How many profiles may refer to each other.
const LONGEST_CHAIN: usize = 5;
/// The name of a session that has none.
const SESSION: &str = "velero";
/// Settings of a profile that say where requests go and whom to trust, and how to say it here.
const NOT_FOLLOWED: [(&str, &str); 4] = [
    ("use_fips_endpoint", "name the address in config s3Url, or ec2Url for snapshots"),
    ("use_dualstack_endpoint", "name the address in config s3Url, or ec2Url for snapshots"),
    ("services", "name the address in config s3Url, or ec2Url for snapshots"),
    ("ca_bundle", "put the certificates into spec.objectStorage.caCert of the location"),
];

impl Profile {
    fn find(text: &str, name: &str) -> Result<Self> {
        let profiles = parse(text);
        refuse_what_is_not_followed(&profiles, name)?;
        let region = profiles.get(name).and_then(|values| values.get("region").cloned());
        let account = Account::find(&profiles, name, &[])?;
        Ok(Self { region, account })
    }

    fn builder(&self, recorder: Option<&Recorder>, options: &ClientOptions) -> Result<AmazonS3Builder> {
        self.account.builder(recorder, options)
    }
}

type Profiles = BTreeMap<String, BTreeMap<String, String>>;

/// Refuses what cannot be followed: passed over in silence, requests would go elsewhere than their owner thinks.
fn refuse_what_is_not_followed(profiles: &Profiles, name: &str) -> Result<()> {
    let Some(values) = profiles.get(name) else { return Ok(()) };
    let is_set = |key: &str| values.get(key).is_some_and(|value| !value.eq_ignore_ascii_case("false"));
    match NOT_FOLLOWED.into_iter().find(|(key, _)| is_set(key)) {
        None => Ok(()),
        Some((key, remedy)) => {
            let problem = format!("profile {name:?} has {key}, which is not followed here; remove it, and {remedy}");
            Err(invalid(PROVIDER, "credentials", problem))
        }
    }
}

impl Account {
    /// The account of a profile; `chain` are those that refer to it.
    fn find(profiles: &Profiles, name: &str, chain: &[&str]) -> Result<Self> {
        let Some(values) = profiles.get(name) else {
            let known: Vec<_> = profiles.keys().map(String::as_str).collect();
            let problem = format!("the credentials have no profile {name:?}; they have [{}]", known.join(" "));
            return Err(invalid(PROVIDER, "profile", problem));
        };
        let wrong = |problem: String| Err(invalid(PROVIDER, "credentials", problem));
        if let Some(key) = ["mfa_serial", "sso_start_url", "sso_session"].iter().find(|key| values.contains_key(**key))
        {
            return wrong(format!(
                "profile {name:?} has {key}, which needs a person and is not supported; use keys, a role or credential_process"
            ));
        }
        let value = |key: &str| values.get(key).cloned();
        // A role comes before keys of the same profile, which may be those that take it.
        match (value("role_arn"), value("web_identity_token_file")) {
            (Some(role), Some(token_file)) => {
                return Ok(Self::WebIdentity { role, token_file, session: value("role_session_name") });
            }
            (Some(role), None) => return Self::role(profiles, name, chain, role),
            (None, _) => {}
        }
        match (value("aws_access_key_id"), value("aws_secret_access_key"), value("credential_process")) {
            (Some(id), Some(secret), _) => Ok(Self::Keys { id, secret, token: value("aws_session_token") }),
            (None, None, Some(command)) => Ok(Self::Process { command }),
            (None, None, None) => {
                wrong(format!("profile {name:?} has neither access keys nor role_arn nor credential_process"))
            }
            _ => wrong(format!("profile {name:?} needs both aws_access_key_id and aws_secret_access_key")),
        }
    }

    fn role(profiles: &Profiles, name: &str, chain: &[&str], arn: String) -> Result<Self> {
        let value = |key: &str| profiles.get(name).and_then(|values| values.get(key).cloned());
        let wrong = |problem: String| Err(invalid(PROVIDER, "credentials", problem));
        let chain = [chain, &[name]].concat();
        let by = match (value("source_profile"), value("credential_source")) {
            (Some(source), None) if source == name => Some(Self::keys_of(profiles, name)?),
            (Some(source), None) if chain.contains(&source.as_str()) || chain.len() >= LONGEST_CHAIN => {
                return wrong(format!("source_profile of profile {name:?} leads back to {source:?} or too far"));
            }
            (Some(source), None) => Some(Self::find(profiles, &source, &chain)?),
            (None, Some(_)) => None,
            (Some(_), Some(_)) => {
                return wrong(format!("profile {name:?} has both source_profile and credential_source; write one"));
            }
            (None, None) => {
                return wrong(format!(
                    "profile {name:?} has role_arn and does not say who takes the role; write source_profile, \
                     credential_source or web_identity_token_file"
                ));
            }
        };
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let region = value("region").or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"));
        let role = Role {
            arn,
            session: value("role_session_name").unwrap_or_else(|| SESSION.to_owned()),
            external_id: value("external_id"),
            region: region.unwrap_or_else(|| "us-east-1".to_owned()),
            address: value("endpoint_url").or_else(|| variable("AWS_ENDPOINT_URL_STS")),
        };
        Ok(Self::Role { role, by: by.map(Box::new) })
    }

    /// The keys of a profile that takes a role with them.
    fn keys_of(profiles: &Profiles, name: &str) -> Result<Self> {
        let value = |key: &str| profiles.get(name).and_then(|values| values.get(key).cloned());
        match (value("aws_access_key_id"), value("aws_secret_access_key")) {
            (Some(id), Some(secret)) => Ok(Self::Keys { id, secret, token: value("aws_session_token") }),
            _ => Err(invalid(
                PROVIDER,
                "credentials",
                format!("profile {name:?} is its own source_profile and has no keys"),
            )),
        }
    }

    fn builder(&self, recorder: Option<&Recorder>, options: &ClientOptions) -> Result<AmazonS3Builder> {
        let builder = AmazonS3Builder::new();
        Ok(match self {
            Self::Keys { id, secret, token } => {
                let builder = builder.with_access_key_id(id).with_secret_access_key(secret);
                match token {
                    Some(token) => builder.with_token(token),
                    None => builder,
                }
            }
            Self::WebIdentity { role, token_file, session } => {
                let builder = builder
                    .with_config(AmazonS3ConfigKey::RoleArn, role)
                    .with_config(AmazonS3ConfigKey::WebIdentityTokenFile, token_file);
                match session {
                    Some(session) => builder.with_config(AmazonS3ConfigKey::RoleSessionName, session),
                    None => builder,
                }
            }
            Self::Process { command } => {
                builder.with_credentials(Arc::new(Temporary::new(Source::Process(command.clone()))))
            }
            Self::Role { role, by } => {
                let by = match by {
                    Some(by) => by.builder(recorder, options)?,
                    None => AmazonS3Builder::from_env(),
                };
                let by = match recorder {
                    Some(recorder) => by.with_http_connector(recorder.clone()),
                    None => by,
                };
                // The client is never used, and cannot be built without a bucket.
                let by = by.with_bucket_name("unused").with_region(&role.region).build().map_err(rejected(PROVIDER))?;
                let (by, recorder) = (by.credentials().clone(), recorder.cloned());
                let source = Source::Role { role: role.clone(), by, recorder, options: Box::new(options.clone()) };
                builder.with_credentials(Arc::new(Temporary::new(source)))
            }
        })
    }
}

/// Reads the profiles of a credentials or config file; a section is `[name]` or `[profile name]`.
fn parse(text: &str) -> Profiles {
    let mut profiles: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut current = None;
    for line in text.trim_start_matches('\u{feff}').lines() {
        // An indented line continues a nested setting such as `s3 =`, none of which concern us.
        if line.starts_with([' ', '\t']) && current.is_some() && !line.trim_start().starts_with("aws_") {
            continue;
        }
        let line = without_comment(line.trim());
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let section = section.trim();
            let name = section.strip_prefix("profile ").map_or(section, str::trim).to_owned();
            profiles.entry(name.clone()).or_default();
            current = Some(name);
        } else if let (Some(name), Some((key, value))) = (&current, line.split_once('=')) {
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            if !value.is_empty() {
                profiles.entry(name.clone()).or_default().insert(key, value.to_owned());
            }
        }
    }
    profiles
}

fn without_comment(line: &str) -> &str {
    if line.starts_with(['#', ';']) {
        return "";
    }
    let end = [" #", " ;", "\t#", "\t;"].iter().filter_map(|mark| line.find(mark)).min();
    end.map_or(line, |end| line[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# comment
[default]
aws_access_key_id=AKIA1
aws_secret_access_key = se/cr+et==   # inline
; another comment
region = eu-central-1

[profile other]
AWS_ACCESS_KEY_ID = AKIA2
aws_secret_access_key = two
aws_session_token = token
s3 =
  max_concurrent_requests = 20

[irsa]
role_arn = arn:aws:iam::1:role/velero
web_identity_token_file = /var/run/token

[broken]
aws_access_key_id = AKIA3

[sso]
sso_start_url = https://example.com

[process]
credential_process = /bin/keys --for velero

[taken]
role_arn = arn:aws:iam::1:role/backups
source_profile = default
external_id = e
role_session_name = nightly

[own]
role_arn = arn:aws:iam::1:role/backups
source_profile = own
aws_access_key_id = AKIA4
aws_secret_access_key = four

[machine]
role_arn = arn:aws:iam::1:role/backups
credential_source = Ec2InstanceMetadata

[circle]
role_arn = arn:aws:iam::1:role/a
source_profile = circle-2

[circle-2]
role_arn = arn:aws:iam::1:role/b
source_profile = circle

[nobody]
role_arn = arn:aws:iam::1:role/a
";

    #[test]
    fn keys_region_and_token_are_found() {
        let default = Profile::find(FILE, "default").unwrap();
        assert_eq!(default.region.as_deref(), Some("eu-central-1"));
        let keys = |id: &str, secret: &str, token: Option<&str>| Account::Keys {
            id: id.to_owned(),
            secret: secret.to_owned(),
            token: token.map(str::to_owned),
        };
        assert!(default.account == keys("AKIA1", "se/cr+et==", None));
        assert!(Profile::find(FILE, "other").unwrap().account == keys("AKIA2", "two", Some("token")));
    }

    #[test]
    fn a_role_with_a_token_file_is_a_web_identity() {
        assert!(matches!(Profile::find(FILE, "irsa").unwrap().account, Account::WebIdentity { .. }));
    }

    #[test]
    fn a_profile_that_is_missing_or_incomplete_is_named() {
        let text = |name| Profile::find(FILE, name).err().unwrap().to_string();
        assert!(
            text("absent").contains(
                "\"absent\"; they have [broken circle circle-2 default irsa machine nobody other own process sso taken]"
            ),
            "{}",
            text("absent")
        );
        assert!(text("broken").contains("needs both"));
        assert!(text("sso").contains("not supported"));
        assert!(!text("broken").contains("AKIA3"));
    }

    #[test]
    fn a_profile_may_name_a_program_or_a_role_and_who_takes_it() {
        let account = |name| Profile::find(FILE, name).unwrap().account;
        assert!(matches!(account("process"), Account::Process { command } if command == "/bin/keys --for velero"));
        let Account::Role { role, by: Some(by) } = account("taken") else { panic!("a role is taken by a profile") };
        assert_eq!((role.arn.as_str(), role.session.as_str()), ("arn:aws:iam::1:role/backups", "nightly"));
        assert_eq!(role.external_id.as_deref(), Some("e"));
        assert!(matches!(*by, Account::Keys { id, .. } if id == "AKIA1"));
        assert!(
            matches!(account("own"), Account::Role { by: Some(by), .. } if matches!(&*by, Account::Keys { id, .. } if id == "AKIA4"))
        );
        assert!(matches!(account("machine"), Account::Role { by: None, .. }));
        for (name, part) in [("circle", "leads back"), ("nobody", "does not say who takes the role")] {
            let error = Profile::find(FILE, name).err().unwrap().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn what_would_send_requests_elsewhere_is_refused_and_not_passed_over() {
        let keys = "aws_access_key_id = a\naws_secret_access_key = b\n";
        let find = |setting: &str| Profile::find(&format!("[default]\n{keys}{setting}\n"), "default");
        for setting in
            ["use_fips_endpoint = true", "use_dualstack_endpoint=true", "services = own", "ca_bundle = /ca.pem"]
        {
            let error = find(setting).err().unwrap().to_string();
            assert!(error.contains("is not followed here; remove it, and "), "{error}");
        }
        for setting in ["use_fips_endpoint = false", "output = json", "duration_seconds = 900"] {
            assert!(find(setting).is_ok(), "{setting}");
        }
    }

    #[test]
    fn windows_line_ends_and_indented_keys_are_read() {
        let file = "[default]\r\n  aws_access_key_id = a\r\n  aws_secret_access_key = b\r\n";
        assert!(Profile::find(file, "default").is_ok());
    }
}
