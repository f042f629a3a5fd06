//! Why there is nothing to show, as a page: what is missing and what to do about it.

use axum::response::{IntoResponse, Redirect, Response};
use http::{StatusCode, Version};
use maud::{Markup, html};
use velero_cluster::Error as ClusterError;

use crate::files::FileProblem;
use crate::pages::layout;

/// Why a request has no other answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Problem {
    /// Nobody has signed in, or the session has ended.
    #[error("nobody has signed in")]
    SignedOut,
    /// The API server does not take the token any more.
    #[error("the API server does not take the token: it has ended or is not for this cluster")]
    BadToken,
    /// The right to do something is missing.
    #[error("{user} may not {verb} {resource} {place}")]
    Missing {
        /// Who asked.
        user: String,
        /// What was to be done.
        verb: String,
        /// With what, as in `backups.velero.io`.
        resource: String,
        /// Where, as in `in namespace velero`.
        place: String,
    },
    /// What was asked for is not there.
    #[error("{0}")]
    NotFound(String),
    /// What was asked for cannot be read now.
    #[error("{0}")]
    Away(String),
    /// What was sent makes no sense.
    #[error("{0}")]
    Bad(String),
    /// The API server refuses it, or it cannot be done.
    #[error("{0}")]
    Refused(String),
    /// Somebody else changed the object in between.
    #[error("{0}")]
    Changed(String),
    /// The form does not come from a page of this session.
    #[error("the form comes from a page of another session")]
    OldForm,
    /// The request comes from the page of another site.
    #[error("the request comes from another site")]
    Foreign,
    /// The request comes in a way that the page does not answer.
    #[error("the page answers HTTP/1.1, and this request came over {0:?}")]
    TooNew(Version),
    /// Too many tried to sign in.
    #[error("too many attempts to sign in")]
    TooOften,
    /// It took too long.
    #[error("the answer took too long")]
    Late,
}

/// Marks an answer after which nobody is signed in: who knows where cookies belong takes them away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionEnded;

/// Where a right counts that is one to all namespaces, and to what belongs to none.
pub(crate) const IN_CLUSTER: &str = "in the whole cluster";

impl Problem {
    fn status(&self) -> StatusCode {
        match self {
            Self::SignedOut | Self::BadToken => StatusCode::UNAUTHORIZED,
            Self::Missing { .. } | Self::OldForm | Self::Foreign => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Away(_) => StatusCode::BAD_GATEWAY,
            Self::Bad(_) => StatusCode::BAD_REQUEST,
            Self::TooNew(_) => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::Refused(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Changed(_) => StatusCode::CONFLICT,
            Self::TooOften => StatusCode::TOO_MANY_REQUESTS,
            Self::Late => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    fn heading(&self) -> &'static str {
        match self {
            Self::SignedOut | Self::BadToken => "Not signed in",
            Self::Missing { .. } => "A right is missing",
            Self::NotFound(_) => "Not there",
            Self::Away(_) => "Cannot be read now",
            Self::Bad(_) => "That makes no sense",
            Self::Refused(_) => "Refused",
            Self::Changed(_) => "Changed in between",
            Self::OldForm => "The form is too old",
            Self::Foreign => "From another site",
            Self::TooNew(_) => "Another HTTP",
            Self::TooOften => "Too many attempts",
            Self::Late => "It took too long",
        }
    }

    /// What to do about it.
    fn remedy(&self) -> Markup {
        match self {
            Self::Missing { verb, resource, place, .. } => html! {
                p { "Whoever manages rights in the cluster can grant it with a " (role(place)) " that has this rule:" }
                pre { (rule(verb, resource)) }
            },
            Self::OldForm => {
                html! { p { "Nothing was changed. Go back, load the page again and send the form once more." } }
            }
            Self::Foreign => html! { p { "Nothing was changed. Forms are taken from pages of this address alone." } },
            Self::TooNew(_) => {
                html! { p { "Nothing was changed. A proxy in front of the page must ask it over HTTP/1.1." } }
            }
            Self::TooOften => html! { p { "Wait a minute, then try again." } },
            Self::Away(_) | Self::Late => html! { p { "The rest of the page works. Try again in a moment." } },
            _ => html! {},
        }
    }

    /// The problem as part of a page, so that the rest can be shown.
    pub(crate) fn note(&self) -> Markup {
        html! {
            div.note role="note" {
                p { strong { (self.heading()) ": " } (self) }
                (self.remedy())
            }
        }
    }
}

/// What grants a right there: a Role counts in one namespace alone.
fn role(place: &str) -> &'static str {
    if place == IN_CLUSTER { "ClusterRole, bound by a ClusterRoleBinding," } else { "Role" }
}

fn rule(verb: &str, resource: &str) -> String {
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    format!("apiGroups: [{group:?}]\nresources: [{resource:?}]\nverbs: [{verb:?}]")
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        if self == Self::SignedOut {
            return Redirect::to("/sign-in").into_response();
        }
        let back = html! { p { a href="/" { "To the overview" } } };
        let signed_out = self == Self::BadToken;
        let back = if signed_out {
            html! { p { a href="/sign-in" { "Sign in again" } } }
        } else {
            back
        };
        let body = html! { h1 { (self.heading()) } p { (self) } (self.remedy()) (back) };
        let mut response = (self.status(), layout::bare(self.heading(), &body)).into_response();
        if signed_out {
            response.extensions_mut().insert(SessionEnded);
        }
        response
    }
}

/// What the API server says to who acts for others and may not.
const CANNOT_IMPERSONATE: &str = "cannot impersonate resource";

/// The name the API server has for who asks is told by who asks it.
pub(crate) fn from_cluster(user: &str, error: &ClusterError) -> Problem {
    match error.refusal() {
        Some(refusal) if refusal.code == 401 => Problem::BadToken,
        Some(refusal) if refusal.code == 403 && refusal.message.contains(CANNOT_IMPERSONATE) => Problem::Away(format!(
            "the server may not act for {user}, whom the proxy names: {}; its ServiceAccount needs the verb impersonate for \
                 users and groups",
            refusal.message
        )),
        Some(refusal) if refusal.code == 403 => Problem::Refused(format!("{user}: {}", refusal.message)),
        Some(_) if error.is_conflict() => Problem::Changed(error.to_string()),
        Some(_) if error.is_not_found() => Problem::NotFound(error.to_string()),
        Some(_) if error.is_retryable() => Problem::Away(error.to_string()),
        Some(_) => Problem::Refused(error.to_string()),
        None => Problem::Away(error.to_string()),
    }
}

impl From<FileProblem> for Problem {
    fn from(problem: FileProblem) -> Self {
        match problem {
            FileProblem::None(text) => Self::NotFound(text),
            FileProblem::Away(text) => Self::Away(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grants_a_missing_right_counts_where_it_is_missing() {
        let remedy = |resource: &str, place: &str| {
            let problem = Problem::Missing {
                user: "anna".to_owned(),
                verb: "list".to_owned(),
                resource: resource.to_owned(),
                place: place.to_owned(),
            };
            problem.note().into_string()
        };
        let cluster = remedy("namespaces", IN_CLUSTER);
        assert!(cluster.contains("ClusterRoleBinding") && cluster.contains("in the whole cluster"), "{cluster}");
        let own = remedy("backups.velero.io", "in namespace velero");
        assert!(own.contains("with a Role that") && own.contains("&quot;velero.io&quot;"), "{own}");
    }
}
