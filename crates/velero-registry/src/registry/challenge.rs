//! What a registry asks for when it answers 401.

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// How a registry wants to know who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User and password with every request.
    Basic,
    /// A token from its token service.
    Bearer {
        /// The address of the token service.
        realm: String,
        /// The name of the registry there.
        service: Option<String>,
    },
}

impl Challenge {
    /// The challenge of an answer; tokens are preferred where both are offered.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let texts = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let mut challenges: Vec<Self> = texts.filter_map(Self::parse).collect();
        challenges.sort_by_key(|challenge| *challenge == Self::Basic);
        challenges.into_iter().next()
    }

    fn parse(text: &str) -> Option<Self> {
        let (scheme, parameters) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let parameters = parameters_of(parameters);
        let find = |name: &str| {
            let found = parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone())
        };
        Some(Self::Bearer { realm: find("realm")?, service: find("service") })
    }
}

/// The parameters `key="value"`; a value may hold commas.
fn parameters_of(text: &str) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    let mut rest = text.trim_start();
    while let Some((key, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        parameters.push((key.trim().to_owned(), value.trim().to_owned()));
        rest = after.trim_start_matches([',', ' ']);
    }
    parameters
}

#[cfg(test)]
mod tests {
    use velero_testkit::hostile::Parser;
    use velero_testkit::strike_all;

    use super::*;

    fn of(values: &[&str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
        }
        Challenge::of(&headers)
    }

    fn parsers() -> Vec<Parser> {
        let read = |bytes: &[u8]| drop(Challenge::parse(&String::from_utf8_lossy(bytes)));
        let read_configuration = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            drop(crate::Credentials::from_docker_config(&text, "registry.example"));
        };
        vec![Parser::of("registry-challenges", read), Parser::of("registry-credentials", read_configuration)]
    }

    strike_all!(parsers);

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.into(), service: service.map(Into::into) })
        };
        for (values, expected) in [
            (&["Basic realm=\"Registry\""][..], Some(Challenge::Basic)),
            (&["basic"], Some(Challenge::Basic)),
            (
                &["Bearer realm=\"https://a.io/token\",service=\"r.io\",scope=\"repository:a:pull,push\",error=\"x\""],
                bearer("https://a.io/token", Some("r.io")),
            ),
            (&["bearer scope=\"a,b\", realm=/openshift/token"], bearer("/openshift/token", None)),
            (&["Basic realm=\"r\"", "Bearer realm=\"t\""], bearer("t", None)),
            (&["Bearer service=\"r\""], None),
            (&["Negotiate"], None),
            (&[], None),
        ] {
            assert_eq!(of(values), expected, "{values:?}");
        }
    }
}
