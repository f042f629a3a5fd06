//! Who we are, in the form a registry wants it: nothing, user and password, or a token for what we are about to do.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::challenge::Challenge;
use super::{ANSWER_TIMEOUT, Registry};
use crate::{Credentials, Problem};

/// How long a token lives whose service does not say.
const DEFAULT_LIFETIME: u64 = 60;
/// A token is renewed this long before its end, so that it outlives the request it is used for.
const RESERVE: Duration = Duration::from_secs(10);
/// The longest answer of a token service that is read.
const LONGEST_ANSWER: usize = 1 << 20;

pub(super) struct Authorization {
    credentials: Credentials,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    challenge: Option<Challenge>,
    tokens: HashMap<String, Token>,
}

struct Token {
    header: String,
    renewal: Instant,
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

impl Authorization {
    pub(super) fn new(credentials: Credentials) -> Self {
        Self { credentials, state: Mutex::default() }
    }

    /// The header for a request that needs this scope. Requests at the same time wait for one token.
    pub(super) async fn header(&self, registry: &Registry, scope: &str) -> Result<Option<String>, Problem> {
        let mut state = self.state.lock().await;
        match (state.challenge.clone(), &self.credentials) {
            (None, _) => Ok(None),
            (Some(_), Credentials::Bearer(token)) => Ok(Some(format!("Bearer {token}"))),
            (Some(Challenge::Basic), credentials) => Ok(credentials.basic_header()),
            (Some(Challenge::Bearer { realm, service }), _) => {
                if let Some(token) = state.tokens.get(scope).filter(|token| token.renewal > Instant::now()) {
                    return Ok(Some(token.header.clone()));
                }
                let token = self.fetch(registry, &realm, service.as_deref(), scope).await?;
                let header = token.header.clone();
                state.tokens.insert(scope.to_owned(), token);
                Ok(Some(header))
            }
        }
    }

    /// Learns from an answer 401; `true` where asking again with [`Self::header`] may help.
    pub(super) async fn learn(&self, headers: &HeaderMap, scope: &str, authorized: bool) -> bool {
        let Some(challenge) = Challenge::of(headers) else { return false };
        let mut state = self.state.lock().await;
        state.tokens.remove(scope);
        let by_token = matches!(challenge, Challenge::Bearer { .. });
        state.challenge = Some(challenge);
        match self.credentials {
            Credentials::Anonymous => by_token,
            Credentials::Basic { .. } => by_token || !authorized,
            Credentials::Bearer(_) => !authorized,
        }
    }

    async fn fetch(
        &self,
        registry: &Registry,
        realm: &str,
        service: Option<&str>,
        scope: &str,
    ) -> Result<Token, Problem> {
        let action = "get a token";
        let mut url = registry.follow(&registry.url("").await?, realm)?;
        url.query_pairs_mut()
            .extend_pairs(service.map(|service| ("service", service)))
            .extend_pairs(scope.split(' ').map(|scope| ("scope", scope)));
        let mut request = registry.0.client.get(url).timeout(ANSWER_TIMEOUT);
        if let Some(header) = self.credentials.basic_header() {
            request = request.header(AUTHORIZATION, header);
        }
        let broken = |error: &reqwest::Error| Problem::of_request(registry.host(), action, error);
        let mut response = request.send().await.map_err(|error| broken(&error))?;
        if response.status() != StatusCode::OK {
            return Err(registry.problem(action, response).await);
        }
        let mut body = Vec::new();
        // What is longer has no token for us, and is not read to its end.
        while body.len() <= LONGEST_ANSWER
            && let Some(piece) = response.chunk().await.map_err(|error| broken(&error))?
        {
            body.extend_from_slice(&piece);
        }
        let answer = serde_json::from_slice::<TokenAnswer>(&body).ok();
        token_of(answer, Instant::now()).ok_or_else(|| Problem::InvalidSetting {
            what: format!("the token service of registry {}", registry.host()),
            reason: "it answers without a token".into(),
        })
    }
}

fn token_of(answer: Option<TokenAnswer>, now: Instant) -> Option<Token> {
    let TokenAnswer { token, access_token, expires_in } = answer?;
    let token = token.or(access_token).filter(|token| !token.is_empty())?;
    let lifetime = Duration::from_secs(expires_in.unwrap_or(DEFAULT_LIFETIME));
    let renewal = now.checked_add(lifetime.saturating_sub(RESERVE))?;
    Some(Token { header: format!("Bearer {token}"), renewal })
}

#[cfg(test)]
mod tests {
    use velero_testkit::hostile::Parser;
    use velero_testkit::strike_all;

    use super::*;

    fn parsers() -> Vec<Parser> {
        vec![Parser::of("registry-tokens", read_token)]
    }

    fn read_token(bytes: &[u8]) {
        let _ = token_of(serde_json::from_slice(bytes).ok(), Instant::now());
    }

    strike_all!(parsers);

    #[test]
    fn a_token_is_renewed_before_its_end() {
        let now = Instant::now();
        let read = |text: &str| token_of(serde_json::from_str(text).ok(), now);
        for (text, seconds) in [
            (r#"{"token":"a","expires_in":300}"#, 290),
            (r#"{"access_token":"a"}"#, 50),
            (r#"{"token":"a","access_token":"b","expires_in":3}"#, 0),
        ] {
            let token = read(text).unwrap();
            assert_eq!(
                (token.header.as_str(), token.renewal),
                ("Bearer a", now + Duration::from_secs(seconds)),
                "{text}"
            );
        }
        for text in ["{}", r#"{"token":""}"#, "no"] {
            assert!(read(text).is_none(), "{text}");
        }
    }
}
