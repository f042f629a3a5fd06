//! What a store's failure says to people: short, without secrets, the same each time, and with a remedy.

use std::error::Error;

use crate::runtime::error::describe;

/// A failure of a store in words for a status.
pub(crate) fn explain(error: &dyn Error) -> String {
    let text = without_timings(&without_markup(&without_signatures(&describe(error))));
    match remedy(&text) {
        Some(remedy) => format!("{text}; {remedy}"),
        None => text,
    }
}

fn remedy(text: &str) -> Option<&'static str> {
    const REMEDIES: [(&[&str], &str); 3] = [
        (
            &["SignatureDoesNotMatch", "InvalidAccessKeyId", "AccessDenied", "403 Forbidden", "401 Unauthorized"],
            "check the credentials of the location and what they permit",
        ),
        (&["NoSuchBucket", "404 Not Found"], "create the bucket or correct spec.objectStorage.bucket"),
        (
            &["client error (Connect)", "operation timed out", "dns error"],
            "check the URL of the store and that it can be reached from the server",
        ),
    ];
    let says = |pieces: &[&str]| pieces.iter().any(|piece| text.contains(piece));
    REMEDIES.iter().find(|(pieces, _)| says(pieces)).map(|(_, remedy)| *remedy)
}

/// Removes the queries of URLs: signatures and tokens in them are secrets.
fn without_signatures(text: &str) -> String {
    let redact = |word: &str| match word.split_once('?') {
        Some((url, query)) if url.contains("://") => {
            let end = query.find(['"', '\'', ')', '>']).map_or("", |end| &query[end..]);
            format!("{url}?<redacted>{end}")
        }
        _ => word.to_owned(),
    };
    text.split(' ').map(redact).collect::<Vec<_>>().join(" ")
}

/// Puts `Code: Message` in place of an XML answer.
fn without_markup(text: &str) -> String {
    const END: &str = "</Error>";
    let begin = text.find("<?xml").or_else(|| text.find("<Error>"));
    let (Some(begin), Some(end)) = (begin, text.rfind(END)) else { return text.to_owned() };
    let Some(answer) = text.get(begin..end) else { return text.to_owned() };
    let element = |name: &str| {
        let from = answer.find(&format!("<{name}>"))? + name.len() + 2;
        let to = answer.find(&format!("</{name}>"))?;
        answer.get(from..to)
    };
    let parts: Vec<&str> = [element("Code"), element("Message")].into_iter().flatten().collect();
    format!("{}{}{}", &text[..begin], parts.join(": "), text.get(end + END.len()..).unwrap_or_default())
}

/// Removes how long a request took and how often it was repeated, which differ each time.
fn without_timings(text: &str) -> String {
    let mut words: Vec<&str> = text.split(' ').collect();
    while let Some(at) = words.windows(2).position(|pair| pair[0] == "in" && is_duration(pair[1])) {
        words.drain(at..at + 2);
    }
    if let Some(from) = words.windows(3).position(|three| three[0] == "after" && three[2].starts_with("retries")) {
        let to = words[from..].iter().position(|word| word.starts_with("retry_timeout")).map_or(3, |to| to + 2);
        words.drain(from..(from + to).min(words.len()));
    }
    words.join(" ")
}

fn is_duration(word: &str) -> bool {
    let word = word.trim_end_matches(',');
    let number = word.trim_end_matches(|unit: char| unit.is_alphabetic());
    number.len() < word.len() && number.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(text: &str) -> String {
        explain(&std::io::Error::other(text))
    }

    #[test]
    fn signatures_do_not_reach_the_status() {
        let text = r#"error for url "https://store/b?sig=secret&se=1" (denied) why?"#;
        assert_eq!(without_signatures(text), r#"error for url "https://store/b?<redacted>" (denied) why?"#);
    }

    #[test]
    fn an_answer_in_xml_becomes_its_code_and_message() {
        let text = "GET http://s/b?x=1 in 1.283048ms - Server returned non-2xx status code: 403 Forbidden: \
                    <?xml version=\"1.0\"?> <Error><Code>SignatureDoesNotMatch</Code><Message>No match.</Message>\
                    <Resource>/b</Resource></Error>";
        let expected = "GET http://s/b?<redacted> - Server returned non-2xx status code: 403 Forbidden: \
                        SignatureDoesNotMatch: No match.; check the credentials of the location and what they permit";
        assert_eq!(explained(text), expected);
    }

    #[test]
    fn what_differs_each_time_is_left_out() {
        let text = "GET http://s/b in 212.12ms, after 2 retries, max_retries: 2, retry_timeout: 15s - HTTP error: \
                    client error (Connect): refused";
        let expected = "GET http://s/b - HTTP error: client error (Connect): refused; \
                        check the URL of the store and that it can be reached from the server";
        assert_eq!(explained(text), expected);
    }

    #[test]
    fn a_missing_bucket_has_a_remedy_and_other_text_stays_as_it_is() {
        assert!(explained("NoSuchBucket: gone").ends_with("correct spec.objectStorage.bucket"));
        for text in ["disk full", "<Error>", "</Error> odd <?xml", "found in backups"] {
            assert_eq!(explained(text), text);
        }
    }
}
