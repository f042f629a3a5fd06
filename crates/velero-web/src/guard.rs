//! What holds for every request, whatever it asks for.

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version, header};
use tokio::time::timeout;

use crate::jar::Jar;
use crate::problem::{Problem, SessionEnded};
use crate::server::{FORM_TIME, LARGEST_FORM, REQUEST_TIME, Shared};

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
    let jar = Jar::of(request.headers());
    let refused = refusal(request.version(), request.method(), request.headers());
    let mut response = match refused {
        Some(problem) => problem.into_response(),
        None => match timeout(REQUEST_TIME, answer(&shared, request, next)).await {
            Ok(response) => response,
            Err(_) => Problem::Late.into_response(),
        },
    };
    complete(&mut response, jar);
    response
}

/// Adds what all answers have, and takes away the cookies of a session that has ended.
fn complete(response: &mut Response, jar: Jar) {
    let has_ended = response.extensions_mut().remove::<SessionEnded>().is_some();
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    for cookie in jar.ended().into_iter().filter(|_| has_ended) {
        headers.append(header::SET_COOKIE, cookie);
    }
}

async fn answer(shared: &Shared, request: Request, next: Next) -> Response {
    let request = match with_form(request).await {
        Ok(request) => request,
        Err(problem) => return problem.into_response(),
    };
    let places = match reads_files(request.method(), request.uri().path()) {
        true => &shared.file_requests,
        false => &shared.requests,
    };
    match places.acquire().await {
        Ok(_place) => next.run(request).await,
        Err(_) => Problem::Late.into_response(),
    }
}

/// The request with all of its form, before it takes the place of others: who sends slowly keeps nobody waiting.
async fn with_form(request: Request) -> Result<Request, Problem> {
    if is_reading(request.method()) {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    match timeout(FORM_TIME, to_bytes(body, LARGEST_FORM)).await {
        Ok(Ok(bytes)) => Ok(Request::from_parts(parts, Body::from(bytes))),
        Ok(Err(error)) => {
            Err(Problem::Bad(format!("the form cannot be read: {error}; it may have {LARGEST_FORM} bytes")))
        }
        Err(_) => Err(Problem::Bad(format!("the form did not come within {} seconds", FORM_TIME.as_secs()))),
    }
}

/// Where the pages are that read files.
const OF_FILES: [&str; 4] = ["/backups/", "/restores/", "/previews/", "/search"];

/// Whether a page reads files of a store. A hundred of them wait for each other, and not lists and actions for them.
fn reads_files(method: &Method, path: &str) -> bool {
    is_reading(method) && OF_FILES.iter().any(|start| path.starts_with(start))
}

fn is_reading(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Why a request is not looked at: it came over HTTP/2, where one connection asks hundreds of times at once and the bounds of connections
/// mean little; or it would change something, and does not come from one of our own pages.
fn refusal(version: Version, method: &Method, headers: &HeaderMap) -> Option<Problem> {
    if version > Version::HTTP_11 {
        return Some(Problem::TooNew(version));
    }
    if is_reading(method) {
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
            let refused = |method: &Method| refusal(Version::HTTP_11, method, &headers(&pairs)).is_some();
            assert_eq!(refused(&Method::POST), !is_taken, "{pairs:?}");
            assert_eq!(refused(&Method::DELETE), !is_taken, "{pairs:?}");
            assert!(!refused(&Method::GET), "reading changes nothing");
        }
    }

    #[test]
    fn nothing_is_looked_at_that_comes_over_http_2() {
        let own = headers(&[("host", "velero.example"), ("origin", "https://velero.example")]);
        for method in [Method::GET, Method::POST] {
            let refused = |version: Version| refusal(version, &method, &own);
            assert_eq!(refused(Version::HTTP_2), Some(Problem::TooNew(Version::HTTP_2)));
            assert_eq!((refused(Version::HTTP_10), refused(Version::HTTP_11)), (None, None));
        }
        let response = Problem::TooNew(Version::HTTP_2).into_response();
        assert_eq!(response.status(), http::StatusCode::HTTP_VERSION_NOT_SUPPORTED);
    }

    #[test]
    fn a_session_that_has_ended_loses_the_cookies_of_its_own_page_alone() {
        let jar = Jar::of(&headers(&[("host", "localhost:8086")]));
        let cookies = |problem: Problem| {
            let mut response = problem.into_response();
            complete(&mut response, jar);
            assert!(response.headers().contains_key(header::CONTENT_SECURITY_POLICY));
            response.headers().get_all(header::SET_COOKIE).iter().cloned().collect::<Vec<_>>()
        };
        assert_eq!(cookies(Problem::BadToken), jar.ended());
        assert!(cookies(Problem::Late).is_empty());
    }

    fn form(body: Body) -> Request {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        request
    }

    #[tokio::test(start_paused = true)]
    async fn a_form_comes_whole_and_in_time_or_not_at_all() {
        let whole = with_form(form(Body::from("token=x"))).await.unwrap();
        assert_eq!(to_bytes(whole.into_body(), LARGEST_FORM).await.unwrap(), "token=x");
        let never = Body::from_stream(futures::stream::pending::<Result<String, std::io::Error>>());
        let problem = with_form(form(never)).await.unwrap_err().to_string();
        assert!(problem.contains("did not come"), "{problem}");
        let large = with_form(form(Body::from("x".repeat(LARGEST_FORM + 1)))).await;
        assert!(matches!(large, Err(Problem::Bad(_))), "too large");
        let read = Body::from_stream(futures::stream::pending::<Result<String, std::io::Error>>());
        assert!(with_form(Request::new(read)).await.is_ok(), "who reads sends no form");
    }

    #[test]
    fn lists_and_actions_do_not_wait_for_those_who_read_files() {
        for path in ["/backups/a", "/backups/a/log", "/restores/a/objects", "/previews/a", "/search"] {
            assert!(reads_files(&Method::GET, path), "{path}");
        }
        for path in ["/", "/backups", "/restores", "/schedules/a", "/coverage", "/live", "/sign-in", "/style.css"] {
            assert!(!reads_files(&Method::GET, path), "{path}");
        }
        assert!(!reads_files(&Method::POST, "/backups/a/cancel"));
    }
}
