//! What was seen of a location: its description, what each request to its store came to, and how its bucket is set up.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::bucket_settings::BucketSettings;
use crate::flaws::Flaw;
use crate::recorder::{Answer, Exchange, Response};

/// Everything a diagnosis is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Which store it is.
    pub place: Place,
    /// What is wrong with texts: names, values, credentials.
    pub flaws: Vec<Flaw>,
    /// Why no request could be made.
    pub refusal: Option<String>,
    /// What was tried, in order.
    pub steps: Vec<Step>,
    /// The folders beside those of backups.
    pub foreign_folders: Vec<String>,
    /// The names of the backups that lie there, as far as they could be listed.
    pub backups: Vec<String>,
    /// How the bucket is set up, where that can be asked for.
    pub settings: Option<BucketSettings>,
    /// The object of the check that could not be removed.
    pub left_behind: Option<String>,
    /// Where an address that is not encrypted sends everybody on to who asks there.
    pub sent_on_to: Option<String>,
    /// When answers came by our clock, and what the store's clock said then: the widest difference.
    pub clock: Option<ClockReading>,
}

/// The store of a location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The short name of the provider.
    pub provider: String,
    /// The bucket or container.
    pub bucket: String,
    /// The prefix in it, empty or with a slash at its end.
    pub prefix: String,
    /// The region that the location names.
    pub region: String,
    /// The address that the location names; empty for that of the provider.
    pub address: String,
    /// The tags of all objects, as the location writes them.
    pub tagging: String,
    /// Whether credentials were given.
    pub has_credentials: bool,
    /// The variable that names a proxy for requests to it; empty where there is none.
    pub proxy: String,
}

/// What a location must be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Right {
    /// To list objects.
    List,
    /// To write one.
    Put,
    /// To read one.
    Get,
    /// To remove one.
    Delete,
}

impl Right {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Put => "put",
            Self::Get => "get",
            Self::Delete => "delete",
        }
    }
}

/// Something that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What was tried.
    pub right: Right,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It worked.
    Done,
    /// It was not tried, and why.
    Skipped(&'static str),
    /// It did not work.
    Failed(Failure),
}

/// Why a step did not work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// What the client says.
    pub text: String,
    /// What passed last.
    pub exchange: Option<Exchange>,
}

impl Failure {
    /// The answer, where there was one.
    pub fn response(&self) -> Option<&Response> {
        match &self.exchange.as_ref()?.answer {
            Answer::Response(response) => Some(response),
            Answer::Broken(_) => None,
        }
    }

    /// What the connection said, where there was no answer.
    pub fn broken(&self) -> Option<&str> {
        match &self.exchange.as_ref()?.answer {
            Answer::Response(_) => None,
            Answer::Broken(text) => Some(text),
        }
    }

    /// Whether AWS does not hand out the role that was to ask the store. The store itself was not asked then. Where no answer was
    /// seen the client tells it. Whoever is not known or has expired is refused there too, by other codes.
    pub fn is_refused_role(&self) -> bool {
        const NAME: &str = "sts:AssumeRole";
        const CODES: [&str; 2] = ["", "AccessDenied"];
        let address = self.exchange.as_ref().map(|exchange| exchange.address.as_str()).unwrap_or_default();
        match self.response() {
            Some(response) => {
                let by_sts = response.status == 403 && address.contains("://sts.");
                response.message.contains(NAME) || (by_sts && CODES.contains(&response.code.as_str()))
            }
            None => self.text.contains(NAME),
        }
    }

    /// Whether the key of a storage account was asked for, of Azure Resource Manager. The store itself was not asked then.
    pub fn is_about_an_account_key(&self) -> bool {
        self.exchange.as_ref().is_some_and(|exchange| exchange.address.ends_with("/listKeys"))
    }

    /// Whether the store knows who asks, and does not let them. What is refused by the key that objects are encrypted with is
    /// no right to the store.
    pub fn is_refused_right(&self) -> bool {
        const ABOUT_RIGHTS: [&str; 5] = [
            "AccessDenied",
            "AllAccessDisabled",
            "AuthorizationPermissionMismatch",
            "AuthorizationFailure",
            "Forbidden",
        ];
        self.response().is_some_and(|response| {
            response.status == 403
                && (response.code.is_empty() || ABOUT_RIGHTS.contains(&response.code.as_str()))
                && response.is_of_a_store
                && !response.is_about_a_key()
                && !response.is_about_a_proof()
                && !self.is_refused_role()
                && !self.is_about_an_account_key()
        })
    }
}

/// What two clocks said at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// Ours.
    pub ours: SystemTime,
    /// The store's.
    pub theirs: SystemTime,
}

impl ClockReading {
    /// What an exchange says about clocks.
    pub fn of(exchange: &Exchange) -> Option<Self> {
        let Answer::Response(response) = &exchange.answer else { return None };
        let took = exchange.received.duration_since(exchange.sent).unwrap_or_default();
        Some(Self { ours: exchange.sent + took / 2, theirs: response.date? })
    }

    /// By how many seconds our clock is ahead; less than none when it is behind.
    pub fn ahead(&self) -> i64 {
        let seconds = |time: SystemTime| match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX),
        };
        seconds(self.ours).saturating_sub(seconds(self.theirs))
    }
}

impl Observation {
    /// The first step that did not work.
    pub fn first_failure(&self) -> Option<(Right, &Failure)> {
        self.failures().next()
    }

    /// The steps that did not work.
    pub fn failures(&self) -> impl Iterator<Item = (Right, &Failure)> {
        self.steps.iter().filter_map(|step| match &step.outcome {
            Outcome::Failed(failure) => Some((step.right, failure)),
            _ => None,
        })
    }
}
