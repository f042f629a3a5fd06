//! Signing in with a token of Kubernetes, and out again.

use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

use axum::extract::{ConnectInfo, FromRequest, Request, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use maud::html;

use crate::attempts::Attempts;
use crate::connections::Peer;
use crate::form::{self, Fields};
use crate::jar::Jar;
use crate::pages::layout;
use crate::problem::Problem;
use crate::server::Shared;
use crate::session::{LIFETIME_SECONDS, LONGEST_TOKEN, Session};
use crate::user::User;

pub(crate) async fn show(State(shared): State<Shared>) -> Html<String> {
    let command = format!("kubectl --namespace {} create token NAME --duration=8h", shared.means.namespace);
    let body = html! {
        h1 { "Sign in" }
        p { "The page shows and does what you may see and do in the cluster. Show a token of Kubernetes: that of a "
            "ServiceAccount, or the one your OpenID Connect provider gave you for this cluster." }
        form.fields method="post" action="/sign-in" autocomplete="off" {
            label { "Token" textarea name="token" required spellcheck="false" autocomplete="off" {} }
            div { button.main { "Sign in" } }
        }
        h2 { "How to get one" }
        pre { (command) }
        p { "It is kept in a sealed cookie of this browser, for eight hours at most, and nowhere else." }
    };
    layout::bare("Sign in", &body)
}

pub(crate) async fn submit(
    State(shared): State<Shared>,
    ConnectInfo(Peer { address: from, .. }): ConnectInfo<Peer>,
    request: Request,
) -> Result<Response, Problem> {
    if !attempts(&shared).may_try(from, Instant::now()) {
        return Err(Problem::TooOften);
    }
    let jar = Jar::of(request.headers());
    let fields = form::unchecked(request).await?;
    let token = fields.get("token");
    if token.is_empty() || token.len() > LONGEST_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Problem::Bad(format!("that is no token: it has from 1 to {LONGEST_TOKEN} letters and no blanks")));
    }
    let name = match User::name_of(&shared, token).await {
        Ok(name) => name,
        Err(problem) => {
            if problem == Problem::BadToken {
                attempts(&shared).note_failure(from, Instant::now());
                tracing::info!(address = %from, "Somebody tried to sign in with a token that the API server does not take");
            }
            return Err(problem);
        }
    };
    tracing::info!(user = name, "Somebody has signed in to the page");
    let ends = Timestamp::now().as_second() + LIFETIME_SECONDS;
    let session = Session { token: token.to_owned(), name, id: uuid::Uuid::new_v4().to_string(), ends };
    let cookies = shared.keys.cookies(&session, jar);
    let cookies = cookies.ok_or_else(|| Problem::Bad("the token is too long to be kept in cookies".to_owned()))?;
    Ok(with_cookies(Redirect::to("/"), cookies))
}

/// Signs out. The token counts until its own end: it is the cluster's, not the page's.
pub(crate) async fn end(form: SignOut) -> Response {
    with_cookies(Redirect::to("/sign-in"), form.jar.ended())
}

/// A form to sign out, whose token was right.
pub(crate) struct SignOut {
    jar: Jar,
}

impl FromRequest<Shared> for SignOut {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Problem> {
        let jar = Jar::of(request.headers());
        Fields::from_request(request, shared).await.map(|_| Self { jar })
    }
}

fn with_cookies(redirect: Redirect, cookies: Vec<HeaderValue>) -> Response {
    let mut headers = HeaderMap::new();
    for cookie in cookies {
        headers.append(header::SET_COOKIE, cookie);
    }
    (headers, redirect).into_response()
}

fn attempts(shared: &Shared) -> MutexGuard<'_, Attempts> {
    shared.attempts.lock().unwrap_or_else(PoisonError::into_inner)
}
