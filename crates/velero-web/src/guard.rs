//! What holds for every request, whatever it asks for.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tokio::time::timeout;

use crate::problem::Problem;
use crate::server::{REQUEST_TIME, Shared};

/// Sent with every answer: nothing comes from elsewhere, nothing goes elsewhere, nobody puts the page into another one.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // Not `no-referrer`: with that, browsers would not say where a form comes from.
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// Refuses what comes from elsewhere, gives up what takes too long, and adds the headers.
pub(crate) async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let refused = refusal(request.method(), request.headers());
    let mut response = match refused {
        Some(problem) => problem.into_response(),
        None => match timeout(REQUEST_TIME, answer(&shared, request, next)).await {
            Ok(response) => response,
            Err(_) => Problem::Late.into_response(),
        },
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn answer(shared: &Shared, request: Request, next: Next) -> Response {
    match shared.requests.acquire().await {
        Ok(_place) => next.run(request).await,
        Err(_) => Problem::Late.into_response(),
    }
}

/// Why a request is not looked at: it would change something, and does not come from one of our own pages.
fn refusal(method: &Method, headers: &HeaderMap) -> Option<Problem> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let site = text(&HeaderName::from_static("sec-fetch-site"));
    let origin = text(&header::ORIGIN).map(|origin| origin.split_once("://").map_or(origin, |(_, host)| host));
    let is_ours = match (site, origin) {
        (Some(site), None) => site == "same-origin",
        (site, Some(origin)) => site.is_none_or(|site| site == "same-origin") && Some(origin) == text(&header::HOST),
        (None, None) => false,
    };
    (!is_ours).then_some(Problem::Foreign)
}

/// Whether a browser would send cookies to this host in the clear: to all but the own machine it must not.
pub(crate) fn is_elsewhere(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    !matches!(name, "localhost" | "127.0.0.1" | "::1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn what_changes_something_must_come_from_our_own_pages() {
        let host = ("host", "velero.example:8086");
        let (own, foreign) = (("origin", "https://velero.example:8086"), ("origin", "https://evil.example"));
        for (pairs, is_taken) in [
            (vec![host, own], true),
            (vec![host, own, ("sec-fetch-site", "same-origin")], true),
            (vec![host, ("sec-fetch-site", "same-origin")], true),
            (vec![host, foreign], false),
            (vec![host, ("origin", "null")], false),
            (vec![host, own, ("sec-fetch-site", "cross-site")], false),
            (vec![host, own, ("sec-fetch-site", "same-site")], false),
            (vec![host, foreign, ("sec-fetch-site", "same-origin")], false),
            (vec![host, ("origin", "https://velero.example:9999")], false),
            (vec![host], false),
            (vec![], false),
        ] {
            let refused = refusal(&Method::POST, &headers(&pairs));
            assert_eq!(refused.is_none(), is_taken, "{pairs:?}");
            assert!(refusal(&Method::DELETE, &headers(&pairs)).is_none() == is_taken);
            assert!(refusal(&Method::GET, &headers(&pairs)).is_none(), "reading changes nothing");
        }
    }

    #[test]
    fn only_on_the_own_machine_cookies_go_in_the_clear() {
        for (host, elsewhere) in [
            ("localhost:8086", false),
            ("127.0.0.1:8086", false),
            ("[::1]:8086", false),
            ("localhost", false),
            ("velero.example", true),
            ("localhost.evil.example", true),
            ("10.0.0.1:8086", true),
            ("", true),
        ] {
            assert_eq!(is_elsewhere(&headers(&[("host", host)])), elsewhere, "{host}");
        }
    }
}
