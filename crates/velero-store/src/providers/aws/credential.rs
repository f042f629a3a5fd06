//! The credentials file of AWS, and who we are to the store.

use std::collections::BTreeMap;
use std::path::PathBuf;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};

use super::PROVIDER;
use crate::location::invalid;
use crate::{Result, StoreConfig};

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

    /// A client builder that acts as this identity.
    pub(super) fn builder(&self) -> AmazonS3Builder {
        match self {
            Self::Environment => AmazonS3Builder::from_env(),
            Self::Profile(profile) => profile.builder(),
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

/// One profile of a credentials file.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Profile {
    /// The region the profile names.
    pub(super) region: Option<String>,
    account: Account,
}

#[derive(Clone, PartialEq, Eq)]
enum Account {
    Keys { id: String, secret: String, token: Option<String> },
    WebIdentity { role: String, token_file: String, session: Option<String> },
}

impl Profile {
    fn find(text: &str, name: &str) -> Result<Self> {
        let mut profiles = parse(text);
        let Some(mut values) = profiles.remove(name) else {
            let known: Vec<_> = profiles.into_keys().collect();
            let problem = format!("the credentials have no profile {name:?}; they have [{}]", known.join(" "));
            return Err(invalid(PROVIDER, "profile", problem));
        };
        let region = values.remove("region");
        let account = match (values.remove("aws_access_key_id"), values.remove("aws_secret_access_key")) {
            (Some(id), Some(secret)) => Account::Keys { id, secret, token: values.remove("aws_session_token") },
            (None, None) => Self::web_identity(name, &mut values)?,
            _ => {
                let problem = format!("profile {name:?} needs both aws_access_key_id and aws_secret_access_key");
                return Err(invalid(PROVIDER, "credentials", problem));
            }
        };
        Ok(Self { region, account })
    }

    fn web_identity(name: &str, values: &mut BTreeMap<String, String>) -> Result<Account> {
        match (values.remove("role_arn"), values.remove("web_identity_token_file")) {
            (Some(role), Some(token_file)) => {
                Ok(Account::WebIdentity { role, token_file, session: values.remove("role_session_name") })
            }
            _ => {
                let problem = format!(
                    "profile {name:?} has neither access keys nor role_arn with web_identity_token_file; \
                     source_profile, credential_process and single sign-on are not supported"
                );
                Err(invalid(PROVIDER, "credentials", problem))
            }
        }
    }

    fn builder(&self) -> AmazonS3Builder {
        let builder = AmazonS3Builder::new();
        match &self.account {
            Account::Keys { id, secret, token } => {
                let builder = builder.with_access_key_id(id).with_secret_access_key(secret);
                match token {
                    Some(token) => builder.with_token(token),
                    None => builder,
                }
            }
            Account::WebIdentity { role, token_file, session } => {
                let builder = builder
                    .with_config(AmazonS3ConfigKey::RoleArn, role)
                    .with_config(AmazonS3ConfigKey::WebIdentityTokenFile, token_file);
                match session {
                    Some(session) => builder.with_config(AmazonS3ConfigKey::RoleSessionName, session),
                    None => builder,
                }
            }
        }
    }
}

/// Reads the profiles of a credentials or config file; a section is `[name]` or `[profile name]`.
fn parse(text: &str) -> BTreeMap<String, BTreeMap<String, String>> {
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
        assert!(text("absent").contains("\"absent\"; they have [broken default irsa other sso]"), "{}", text("absent"));
        assert!(text("broken").contains("needs both"));
        assert!(text("sso").contains("not supported"));
        assert!(!text("broken").contains("AKIA3"));
    }

    #[test]
    fn windows_line_ends_and_indented_keys_are_read() {
        let file = "[default]\r\n  aws_access_key_id = a\r\n  aws_secret_access_key = b\r\n";
        assert!(Profile::find(file, "default").is_ok());
    }
}
