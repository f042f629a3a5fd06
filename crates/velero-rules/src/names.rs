//! The name syntax of Kubernetes: namespaces, label keys and label values.

/// The longest DNS label, label name and label value.
const LABEL_LENGTH: usize = 63;
/// The longest DNS subdomain.
const SUBDOMAIN_LENGTH: usize = 253;

const NAMESPACE_SYNTAX: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
     and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// Lists what is wrong with a namespace name, in the words of the Kubernetes API server.
pub fn namespace_problems(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > LABEL_LENGTH {
        problems.push(format!("must be no more than {LABEL_LENGTH} characters"));
    }
    if !is_dns_label(name) {
        let only_dots = name.split('.').all(is_dns_label);
        problems.push(if only_dots { "must not contain dots".to_owned() } else { NAMESPACE_SYNTAX.to_owned() });
    }
    problems
}

/// Says whether a text may be the key of a label.
pub fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        None => is_label_name(key),
        Some((prefix, name)) => {
            prefix.len() <= SUBDOMAIN_LENGTH && prefix.split('.').all(is_dns_label) && is_label_name(name)
        }
    }
}

/// Says whether a text may be the value of a label.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_label_name(value)
}

fn is_label_name(name: &str) -> bool {
    name.len() <= LABEL_LENGTH
        && is_framed(name, |byte| byte.is_ascii_alphanumeric(), |byte| matches!(byte, b'-' | b'_' | b'.'))
}

fn is_dns_label(label: &str) -> bool {
    is_framed(label, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit(), |byte| byte == b'-')
}

/// Says whether a text begins and ends with `edge` bytes and holds nothing but `edge` and `inner` bytes.
fn is_framed(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    edge(first) && edge(last) && bytes.iter().all(|&byte| edge(byte) || inner(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_names_are_dns_labels() {
        for valid in ["a", "velero", "a-1", "1"] {
            assert!(namespace_problems(valid).is_empty(), "{valid}");
        }
        assert_eq!(namespace_problems("a.b"), ["must not contain dots"]);
        assert_eq!(namespace_problems("A")[0], NAMESPACE_SYNTAX);
        assert_eq!(namespace_problems("-a").len(), 1);
        assert_eq!(namespace_problems(&"a".repeat(64)), ["must be no more than 63 characters"]);
    }

    #[test]
    fn label_keys_may_have_one_prefix() {
        for valid in ["app", "app.kubernetes.io/name", "a_b", "A"] {
            assert!(is_label_key(valid), "{valid}");
        }
        for invalid in ["", "/a", "a/", "a/b/c", "-a", "a b", "Upper.Case/name"] {
            assert!(!is_label_key(invalid), "{invalid}");
        }
    }

    #[test]
    fn label_values_may_be_empty() {
        assert!(is_label_value(""));
        assert!(is_label_value("a_b.c"));
        assert!(!is_label_value("a b"));
        assert!(!is_label_value(&"a".repeat(64)));
    }
}
