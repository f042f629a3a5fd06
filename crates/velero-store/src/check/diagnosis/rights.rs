//! The store knows us, and does not let us.

use super::{Cause, Finding, RIGHTS};
use crate::check::observation::{Failure, Observation, Outcome, Place, Right};

/// The rights that are missing, in one finding.
pub(super) fn missing(seen: &Observation) -> Option<Finding> {
    let mut missing: Vec<Right> =
        seen.failures().filter(|(_, failure)| failure.is_refused_right()).map(|(right, _)| right).collect();
    if missing.is_empty() {
        return None;
    }
    let is_get_open = is_get_open(seen, &missing);
    if is_get_open {
        missing.retain(|right| *right != Right::Get);
    }
    let place = &seen.place;
    let bucket = super::bucket_words(place);
    let words: Vec<&str> = missing.iter().map(|right| right.word()).collect();
    // Where listing alone was tried it is not known what else is permitted.
    let tried = seen.steps.len();
    let problem = match missing.len() {
        all if all == RIGHTS.len() => {
            format!("the credentials may do nothing in {bucket}: list, put, get and delete are refused")
        }
        _ if is_get_open => format!(
            "the credentials may not {} in {bucket}; whether they may get objects is seen once they may list: until then the \
             store refuses also what is not there",
            words.join(", ")
        ),
        _ if tried == 1 => format!("the credentials may not {} in {bucket}", words.join(", ")),
        _ => format!("the credentials may not {} in {bucket}; the rest is permitted", words.join(", ")),
    };
    // Azure says it of networks that are kept out, whoever asks.
    let is_kept_out = |failure: &Failure| failure.response().is_some_and(|said| said.code == "AuthorizationFailure");
    let remedy = match seen.failures().any(|(_, failure)| is_kept_out(failure)) {
        true => format!("permit this network in the firewall of the storage account, or {}", remedy(place, &missing)),
        false => remedy(place, &missing),
    };
    Some(Finding::error(Cause::RightMissing, problem, remedy))
}

/// Whether a refusal to read says nothing: whoever may not list is not told that an object is not there. Azure knows no such
/// difference.
fn is_get_open(seen: &Observation, missing: &[Right]) -> bool {
    let is_there = seen.steps.iter().any(|step| step.right == Right::Put && step.outcome == Outcome::Done);
    let is_hidden = missing.contains(&Right::List) && !is_there && seen.place.provider != "azure";
    is_hidden && missing.contains(&Right::Get) && missing.len() < RIGHTS.len()
}

fn remedy(place: &Place, missing: &[Right]) -> String {
    let permissions =
        |name: fn(Right) -> &'static str| missing.iter().map(|right| name(*right)).collect::<Vec<_>>().join(", ");
    match place.provider.as_str() {
        "azure" => "give the identity the role Storage Blob Data Contributor on the container or its storage account"
            .to_owned(),
        "gcp" => format!("permit {} on the bucket, as the role Storage Object Admin does", permissions(of_google)),
        _ => {
            let resource = |right: &Right| match right {
                Right::List => format!("arn:aws:s3:::{}", place.bucket),
                _ => format!("arn:aws:s3:::{}/{}*", place.bucket, place.prefix),
            };
            let mut resources: Vec<String> = missing.iter().map(resource).collect();
            resources.dedup();
            // Whoever writes objects with tags needs a right to tags too, and is refused in the same words.
            let writes_tags = missing.contains(&Right::Put) && !place.tagging.is_empty();
            let tags = if writes_tags { ", s3:PutObjectTagging" } else { "" };
            format!("permit {}{tags} on {}", permissions(of_amazon), resources.join(" and "))
        }
    }
}

fn of_amazon(right: Right) -> &'static str {
    match right {
        Right::List => "s3:ListBucket",
        Right::Put => "s3:PutObject",
        Right::Get => "s3:GetObject",
        Right::Delete => "s3:DeleteObject",
    }
}

fn of_google(right: Right) -> &'static str {
    match right {
        Right::List => "storage.objects.list",
        Right::Put => "storage.objects.create",
        Right::Get => "storage.objects.get",
        Right::Delete => "storage.objects.delete",
    }
}
