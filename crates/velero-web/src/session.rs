//! The cookie of who has signed in: the token, sealed by a key that only this process knows, and for how long it counts.
//!
//! Nothing is kept in memory for it. After a restart of the server everybody signs in again.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::{hmac, rand};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::jar::{Jar, MOST_PARTS};

/// For how long who has signed in stays so, unless the token ends before.
pub(crate) const LIFETIME_SECONDS: i64 = 8 * 3600;
/// The longest token that is taken. Those of OpenID Connect grow with the groups of a person.
pub(crate) const LONGEST_TOKEN: usize = 10 << 10;
/// Browsers keep cookies up to 4096 bytes with their names and attributes; what is longer goes into several.
const PART: usize = 3800;
const KEY_BYTES: usize = 32;

/// Who has signed in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The token of Kubernetes.
    pub(crate) token: String,
    /// The name the API server knows its owner by.
    pub(crate) name: String,
    /// What the tokens of forms are made of.
    pub(crate) id: String,
    /// When it ends, in seconds since 1970.
    pub(crate) ends: i64,
}

/// There is no randomness to make keys of.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random bytes for the keys of the page")]
pub(crate) struct NoKeys;

/// The keys of this process.
pub(crate) struct Keys {
    seal: RandomizedNonceKey,
    sign: hmac::Key,
}

impl Keys {
    /// Keys that nobody had before.
    pub(crate) fn new() -> Result<Self, NoKeys> {
        let (mut seal, mut sign) = ([0; KEY_BYTES], [0; KEY_BYTES]);
        rand::fill(&mut seal).map_err(|_| NoKeys)?;
        rand::fill(&mut sign).map_err(|_| NoKeys)?;
        let seal = RandomizedNonceKey::new(&AES_256_GCM, &seal).map_err(|_| NoKeys)?;
        Ok(Self { seal, sign: hmac::Key::new(hmac::HMAC_SHA256, &sign) })
    }

    /// The cookies that hold a session; none where it is too long for them.
    pub(crate) fn cookies(&self, session: &Session, jar: Jar) -> Option<Vec<HeaderValue>> {
        let mut bytes = serde_json::to_vec(session).ok()?;
        let nonce = self.seal.seal_in_place_append_tag(Aad::empty(), &mut bytes).ok()?;
        let text = URL_SAFE_NO_PAD.encode([nonce.as_ref().as_slice(), &bytes].concat());
        let parts: Vec<&str> = text.as_bytes().chunks(PART).filter_map(|part| std::str::from_utf8(part).ok()).collect();
        if parts.len() > MOST_PARTS {
            return None;
        }
        let filled = (0..MOST_PARTS).map(|number| match parts.get(number) {
            Some(part) => jar.cookie(number, part, LIFETIME_SECONDS),
            None => jar.cookie(number, "", 0),
        });
        filled.collect()
    }

    /// The session that the cookies of a request hold; none when there is none, it has ended or somebody changed it.
    pub(crate) fn open(&self, headers: &HeaderMap, now: i64) -> Option<Session> {
        let jar = Jar::of(headers);
        let text: String = (0..MOST_PARTS).map_while(|number| jar.value(headers, number)).collect();
        let mut bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        if bytes.len() <= NONCE_LEN {
            return None;
        }
        let (nonce, sealed) = bytes.split_at_mut(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self.seal.open_in_place(nonce, Aad::empty(), sealed).ok()?;
        let session: Session = serde_json::from_slice(opened).ok()?;
        (session.ends > now).then_some(session)
    }

    /// What the forms of a session carry, by its identity, so that nobody else can have them sent.
    pub(crate) fn form_token(&self, id: &str) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.sign, id.as_bytes()))
    }

    /// Whether a form comes from a page of this session.
    pub(crate) fn is_form_token(&self, id: &str, given: &str) -> bool {
        let Ok(given) = URL_SAFE_NO_PAD.decode(given) else { return false };
        hmac::verify(&self.sign, id.as_bytes(), &given).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;

    fn session(token: &str) -> Session {
        Session { token: token.to_owned(), name: "anna".to_owned(), id: "1".to_owned(), ends: 100 }
    }

    /// The jar of an address that names no port.
    fn jar() -> Jar {
        Jar::of(&HeaderMap::new())
    }

    /// What a browser sends back of what it was given.
    fn sent_back(cookies: &[HeaderValue]) -> HeaderMap {
        let pairs = cookies.iter().filter_map(|cookie| cookie.to_str().unwrap().split(';').next());
        let kept: Vec<&str> = pairs.filter(|pair| !pair.ends_with('=')).collect();
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(&kept.join("; ")).unwrap())])
    }

    #[test]
    fn a_session_comes_back_whole_whatever_the_length_of_its_token_and_never_in_clear() {
        let keys = Keys::new().unwrap();
        for length in [1, 900, 3000, 6000, LONGEST_TOKEN] {
            let session = session(&"t".repeat(length));
            let cookies = keys.cookies(&session, jar()).unwrap();
            assert!(cookies.iter().all(|cookie| cookie.len() < 4096 && !cookie.to_str().unwrap().contains("tttt")));
            assert_eq!(keys.open(&sent_back(&cookies), 0), Some(session));
        }
        assert_eq!(keys.cookies(&session(&"t".repeat(20 << 10)), jar()), None);
    }

    #[test]
    fn a_session_that_has_ended_was_changed_or_belongs_to_another_server_is_none() {
        let keys = Keys::new().unwrap();
        let cookies = keys.cookies(&session("t"), jar()).unwrap();
        let headers = sent_back(&cookies);
        assert!(keys.open(&headers, 99).is_some());
        assert!(keys.open(&headers, 100).is_none(), "its time is over");
        assert!(Keys::new().unwrap().open(&headers, 0).is_none(), "another key");
        let text = headers[header::COOKIE].to_str().unwrap();
        for changed in [text.replace("0=", "0=A"), text[..text.len() - 2].to_owned(), "velero-session-0=".to_owned()] {
            let changed = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(&changed).unwrap())]);
            assert!(keys.open(&changed, 0).is_none());
        }
        assert!(keys.open(&HeaderMap::new(), 0).is_none());
    }

    #[test]
    fn two_pages_on_one_machine_leave_each_others_sessions_alone() {
        const HOSTS: [&str; 2] = ["127.0.0.1:8086", "127.0.0.1:8087"];
        let pages = HOSTS.map(|host| (Keys::new().unwrap(), HeaderValue::from_static(host)));
        let at = |host: &HeaderValue| HeaderMap::from_iter([(header::HOST, host.clone())]);
        let given = pages.iter().map(|(keys, host)| keys.cookies(&session("t"), Jar::of(&at(host))).unwrap());
        // A browser sends all of them to both.
        let mut headers = sent_back(&given.collect::<Vec<_>>().concat());
        for (keys, host) in &pages {
            headers.insert(header::HOST, host.clone());
            assert_eq!(keys.open(&headers, 0), Some(session("t")), "{host:?}");
        }
    }

    #[test]
    fn only_the_forms_of_a_session_are_its_own() {
        let keys = Keys::new().unwrap();
        assert!(keys.is_form_token("1", &keys.form_token("1")));
        for wrong in [keys.form_token("2"), String::new(), "x".to_owned(), keys.form_token("1") + "A"] {
            assert!(!keys.is_form_token("1", &wrong), "{wrong}");
        }
    }
}
