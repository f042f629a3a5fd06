//! The cookies of a session as a browser keeps them: by the name of a host, whatever its port. Two pages on one machine would sign each
//! other's people out, so the port is a part of their names.

use http::{HeaderMap, HeaderValue, header};

/// How many cookies a session has at most.
pub(crate) const MOST_PARTS: usize = 4;
const NAME: &str = "velero-session-";

/// Where the cookies of a request belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Jar {
    /// None where the address has the port that everybody expects.
    port: Option<u16>,
    /// Whether the page is on another machine: to all but the own one no cookie goes in the clear.
    is_elsewhere: bool,
}

impl Jar {
    /// Where they belong that come with these headers, and those that are sent back.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (name, rest) = match host.strip_prefix('[') {
            Some(address) => address.split_once(']').unwrap_or((address, "")),
            None => host.split_at(host.find(':').unwrap_or(host.len())),
        };
        let port = rest.strip_prefix(':').and_then(|port| port.parse().ok());
        Self { port, is_elsewhere: !matches!(name, "localhost" | "127.0.0.1" | "::1") }
    }

    /// A cookie that is kept for so many seconds.
    pub(crate) fn cookie(self, number: usize, value: &str, seconds: i64) -> Option<HeaderValue> {
        let (name, secure) = (self.name(number), if self.is_elsewhere { "; Secure" } else { "" });
        let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// What a cookie holds.
    pub(crate) fn value(self, headers: &HeaderMap, number: usize) -> Option<&str> {
        let wanted = self.name(number);
        let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = all.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, value)| *name == wanted && !value.is_empty()).map(|(_, value)| value)
    }

    /// The cookies that end a session.
    pub(crate) fn ended(self) -> Vec<HeaderValue> {
        (0..MOST_PARTS).filter_map(|number| self.cookie(number, "", 0)).collect()
    }

    fn name(self, number: usize) -> String {
        match self.port {
            Some(port) => format!("{NAME}{port}-{number}"),
            None => format!("{NAME}{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jar(host: &'static str) -> Jar {
        Jar::of(&HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]))
    }

    #[test]
    fn only_on_the_own_machine_cookies_go_in_the_clear_and_each_port_has_its_own() {
        for (host, is_elsewhere, port) in [
            ("localhost:8086", false, Some(8086)),
            ("127.0.0.1:8087", false, Some(8087)),
            ("[::1]:8086", false, Some(8086)),
            ("[::1]", false, None),
            ("localhost", false, None),
            ("velero.example", true, None),
            ("velero.example:8443", true, Some(8443)),
            ("localhost.evil.example", true, None),
            ("10.0.0.1:8086", true, Some(8086)),
            ("velero.example:none", true, None),
            ("[::1", false, None),
            ("", true, None),
        ] {
            assert_eq!(jar(host), Jar { port, is_elsewhere }, "{host}");
        }
        assert_eq!(Jar::of(&HeaderMap::new()), Jar { port: None, is_elsewhere: true });
    }

    #[test]
    fn cookies_are_kept_from_scripts_other_sites_and_open_wires() {
        let jar = jar("velero.example:8086");
        for cookie in jar.cookie(0, "sealed", 9).iter().chain(&jar.ended()) {
            let text = cookie.to_str().unwrap();
            assert!(text.starts_with("velero-session-8086-") && text.ends_with("; Secure"), "{text}");
            assert!(text.contains("HttpOnly") && text.contains("SameSite=Strict"), "{text}");
        }
        assert!(jar.ended().iter().all(|cookie| cookie.to_str().unwrap().contains("=; Path=/; Max-Age=0")));
    }
}
