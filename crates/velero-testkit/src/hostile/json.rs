//! How a JSON document is changed so that it stays one: parsers get past its grammar, to what it says.

use serde_json::{Value, json};

/// What a value is replaced by, beside another value of the document.
fn replacement(number: usize) -> Value {
    match number {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(i64::MAX),
        4 => json!(u64::MAX),
        5 => json!(1.5e300),
        6 => json!(""),
        7 => json!("../../x"),
        8 => json!("\u{1f980}\u{0}"),
        9 => json!("a".repeat(300)),
        10 => json!([]),
        11 => json!({}),
        12 => json!([null, 1, "x", {}]),
        _ => json!({"": {"": null}}),
    }
}

/// How many replacements there are.
const REPLACEMENTS: usize = 14;

/// Replaces, removes or doubles one value of a document; `below` gives a number below another. Nothing where the bytes
/// are no document.
pub(super) fn changed(bytes: &[u8], mut below: impl FnMut(usize) -> usize) -> Option<Vec<u8>> {
    let mut document: Value = serde_json::from_slice(bytes).ok()?;
    let count = pointers(&document).len();
    for _ in 0..1 + below(3) {
        let pointers = pointers(&document);
        let target = &pointers[below(pointers.len())];
        match below(4) {
            0 => remove(&mut document, target),
            1 => {
                let other = document.pointer(&pointers[below(pointers.len())]).cloned();
                replace(&mut document, target, other.unwrap_or_default());
            }
            _ => replace(&mut document, target, replacement(below(REPLACEMENTS))),
        }
        // A value put into itself again and again would soon be all there is.
        if self::pointers(&document).len() > 4 * count + 16 {
            break;
        }
    }
    serde_json::to_vec(&document).ok()
}

/// Where the values of a document are, itself among them.
fn pointers(document: &Value) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut next = 0;
    while let Some(pointer) = found.get(next).cloned() {
        match document.pointer(&pointer) {
            Some(Value::Object(fields)) => {
                let escaped = |key: &String| key.replace('~', "~0").replace('/', "~1");
                found.extend(fields.keys().map(|key| format!("{pointer}/{}", escaped(key))));
            }
            Some(Value::Array(items)) => found.extend((0..items.len()).map(|index| format!("{pointer}/{index}"))),
            _ => {}
        }
        next += 1;
    }
    found
}

fn replace(document: &mut Value, pointer: &str, value: Value) {
    if let Some(target) = document.pointer_mut(pointer) {
        *target = value;
    }
}

fn remove(document: &mut Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    match document.pointer_mut(parent) {
        Some(Value::Object(fields)) => drop(fields.remove(&key.replace("~1", "/").replace("~0", "~"))),
        Some(Value::Array(items)) => {
            if let Some(index) = key.parse().ok().filter(|index| *index < items.len()) {
                items.remove(index);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_found_replaced_and_removed() {
        let document = json!({"a/b": [1, {"c~": null}], "d": "x"});
        let found = pointers(&document);
        assert_eq!(found, ["", "/a~1b", "/d", "/a~1b/0", "/a~1b/1", "/a~1b/1/c~0"]);
        for pointer in &found[1..] {
            let mut changed = document.clone();
            remove(&mut changed, pointer);
            assert!(changed.to_string().len() < document.to_string().len(), "{pointer}");
            let mut changed = document.clone();
            replace(&mut changed, pointer, json!("new"));
            assert_eq!(changed.pointer(pointer), Some(&json!("new")));
        }
    }

    #[test]
    fn what_is_changed_stays_a_document_and_what_is_none_is_left() {
        let mut number = 7;
        let mut below = |bound: usize| {
            number = number * 31 % 1009;
            number % bound
        };
        for _ in 0..100 {
            let changed = changed(br#"{"a": [1, 2], "b": {"c": "d"}}"#, &mut below).unwrap();
            assert!(serde_json::from_slice::<Value>(&changed).is_ok());
        }
        assert_eq!(changed(b"a: b", &mut below), None);
    }
}
