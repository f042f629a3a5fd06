//! Who asks: whoever has signed in with a token, or whom a trusted proxy names.
//!
//! A proxy is believed on a connection on which it has shown its certificate, and nowhere else: there the headers mean nothing.

use axum::extract::ConnectInfo;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use velero_cluster::Cluster;

use crate::connections::Peer;
use crate::problem::Problem;
use crate::server::Shared;
use crate::session::Session;

/// What Kubernetes calls its own users and groups by: no proxy may name one.
const RESERVED: &str = "system:";
/// The longest name of a person or a group.
const LONGEST_NAME: usize = 1024;
/// How many groups a person may be in.
const MOST_GROUPS: usize = 200;

/// A proxy that says who asks.
pub struct TrustedProxy {
    /// The header with the name of the person.
    pub user_header: HeaderName,
    /// The header with the groups of the person, separated by commas or one a line.
    pub groups_header: Option<HeaderName>,
    /// A connection of the server that may impersonate people.
    pub cluster: Cluster,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Identity {
    /// Who has signed in with a token.
    Token(Session),
    /// Whom the proxy names.
    Proxied(Person),
}

/// A person that a proxy names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Person {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

impl Identity {
    /// What the tokens of forms are made of. Those of sessions are random and have no colon.
    pub(crate) fn form_id(&self) -> String {
        match self {
            Self::Token(session) => session.id.clone(),
            Self::Proxied(person) => format!("proxied:{}", person.name),
        }
    }

    /// Whose rights are meant: of a person whom a proxy names, the groups count too. No header has a line end in it.
    pub(crate) fn who(&self) -> String {
        let mut who = self.form_id();
        if let Self::Proxied(person) = self {
            for group in &person.groups {
                who.push('\n');
                who.push_str(group);
            }
        }
        who
    }
}

impl Shared {
    /// Who sends a request.
    pub(crate) fn identity(&self, extensions: &Extensions, headers: &HeaderMap) -> Result<Identity, Problem> {
        let is_proxy = extensions.get::<ConnectInfo<Peer>>().is_some_and(|info| info.0.is_proxy);
        if let Some(proxy) = self.means.proxy.as_ref().filter(|_| is_proxy)
            && let Some(person) = person(headers, &proxy.user_header, proxy.groups_header.as_ref())?
        {
            return Ok(Identity::Proxied(person));
        }
        let session = self.keys.open(headers, Timestamp::now().as_second());
        session.map(Identity::Token).ok_or(Problem::SignedOut)
    }
}

/// Whom the headers of a proxy name; nobody where it names nobody.
fn person(headers: &HeaderMap, user: &HeaderName, groups: Option<&HeaderName>) -> Result<Option<Person>, Problem> {
    let names: Vec<&HeaderValue> = headers.get_all(user).iter().collect();
    let name = match names.as_slice() {
        [] => return Ok(None),
        [name] => checked(user, name.to_str().map_err(|_| refused(user, "it is no plain text"))?)?,
        _ => return Err(refused(user, "it is there more than once")),
    };
    let Some(name) = name else { return Ok(None) };
    let mut found = Vec::new();
    if let Some(header) = groups {
        for value in headers.get_all(header) {
            let value = value.to_str().map_err(|_| refused(header, "it is no plain text"))?;
            for group in value.split(',') {
                found.extend(checked(header, group)?);
            }
        }
        if found.len() > MOST_GROUPS {
            return Err(refused(header, &format!("it names more than {MOST_GROUPS} groups")));
        }
    }
    Ok(Some(Person { name, groups: found }))
}

/// A name without blanks around it; nothing when there is none.
fn checked(header: &HeaderName, name: &str) -> Result<Option<String>, Problem> {
    match name.trim() {
        "" => Ok(None),
        name if name.starts_with(RESERVED) => {
            Err(refused(header, &format!("names that begin with {RESERVED} belong to Kubernetes")))
        }
        name if name.len() > LONGEST_NAME => Err(refused(header, &format!("a name is longer than {LONGEST_NAME}"))),
        name => Ok(Some(name.to_owned())),
    }
}

fn refused(header: &HeaderName, reason: &str) -> Problem {
    Problem::Refused(format!("the proxy says who you are in a way that is not taken, in header {header}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: HeaderName = HeaderName::from_static("x-user");
    const GROUPS: HeaderName = HeaderName::from_static("x-groups");

    fn told(pairs: &[(HeaderName, &'static str)]) -> Result<Option<Person>, Problem> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name.clone(), HeaderValue::from_static(value));
        }
        person(&headers, &USER, Some(&GROUPS))
    }

    #[test]
    fn a_proxy_names_a_person_and_groups() {
        let named = |groups: &[&str]| {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            Ok(Some(Person { name: "anna".to_owned(), groups }))
        };
        assert_eq!(told(&[(USER, " anna ")]), named(&[]));
        assert_eq!(told(&[(USER, "anna"), (GROUPS, "dev, ops,,"), (GROUPS, "all")]), named(&["dev", "ops", "all"]));
        assert_eq!(told(&[(GROUPS, "dev")]), Ok(None), "groups of nobody");
        assert_eq!(told(&[(USER, "  "), (GROUPS, "dev")]), Ok(None));
        assert_eq!(told(&[]), Ok(None));
    }

    #[test]
    fn rights_are_those_of_a_person_in_these_groups() {
        let who = |name: &str, groups: &[&str]| {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            Identity::Proxied(Person { name: name.to_owned(), groups }).who()
        };
        let session = Session { token: "t".to_owned(), name: "anna".to_owned(), id: "1".to_owned(), ends: 0 };
        let all = [
            who("anna", &[]),
            who("anna", &["dev"]),
            who("anna", &["dev", "ops"]),
            who("anna", &["dev,ops"]),
            who("bert", &["dev"]),
            Identity::Token(session).who(),
        ];
        for (number, one) in all.iter().enumerate() {
            assert!(!all[number + 1..].contains(one), "{one}");
        }
        assert_eq!(who("anna", &["dev"]), all[1]);
    }

    #[test]
    fn what_no_proxy_may_say_is_refused() {
        for pairs in [
            vec![(USER, "system:admin")],
            vec![(USER, "system:serviceaccount:velero:velero")],
            vec![(USER, "anna"), (GROUPS, "dev,system:masters")],
            vec![(USER, "anna"), (USER, "system:admin")],
            vec![(USER, "anna"), (USER, "bert")],
        ] {
            assert!(matches!(told(&pairs), Err(Problem::Refused(_))), "{pairs:?}");
        }
        let mut headers = HeaderMap::new();
        headers.append(USER, HeaderValue::from_bytes("ännä".as_bytes()).unwrap());
        assert!(person(&headers, &USER, None).is_err());
        headers.insert(USER, HeaderValue::from_str(&"a".repeat(2000)).unwrap());
        assert!(person(&headers, &USER, None).is_err());
    }
}
