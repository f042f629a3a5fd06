use serde_json::json;

use super::*;
use crate::testing::compat;

const ROUTE: Route<'_> =
    Route { local: "old:5000", source: "old:5000", destination: "mig:5000", namespace: "shop", of_backup: false };

fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

/// Images of a tag, the newest first: path and letter of the digest.
type Images<'a> = &'a [(&'a str, char)];

/// A stream with these tags: name, what the spec says it is from, and its images.
fn stream(tags: &[(&str, Value, Images<'_>)]) -> Value {
    let spec = tags.iter().filter(|(_, from, _)| !from.is_null());
    let spec: Vec<_> = spec.map(|(name, from, _)| json!({"name": name, "from": from})).collect();
    let items = |images: &[(&str, char)]| -> Vec<_> {
        let item = |(path, letter): &(&str, char)| {
            let image = digest(*letter);
            json!({"image": image, "dockerImageReference": format!("{path}@{image}"), "generation": 2})
        };
        images.iter().map(item).collect()
    };
    let status: Vec<_> = tags.iter().map(|(name, _, images)| json!({"tag": name, "items": items(images)})).collect();
    json!({
        "kind": "ImageStream", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"tags": spec, "lookupPolicy": {"local": true}}, "status": {"tags": status},
    })
}

fn planned(stream: &Value, route: &Route<'_>, switches: &[Compat]) -> Result<Vec<String>, String> {
    let copies = copies(stream, route, &compat(switches)).map_err(|error| error.to_string())?;
    Ok(copies.iter().map(|copy| format!("{} > {}", copy.source, copy.destination)).collect())
}

/// A row as text: `{a}` stands for the digest of that letter.
fn filled(text: &str) -> String {
    ['a', 'b', 'c']
        .iter()
        .fold(text.to_owned(), |text, letter| text.replace(&format!("{{{letter}}}"), &digest(*letter)))
}

#[test]
fn a_backup_copies_internal_images_the_oldest_first() {
    let internal = "old:5000/shop/web";
    let docker = json!({"kind": "DockerImage", "name": "quay.io/a/b"});
    let tag = json!({"kind": "ImageStreamTag", "name": "base:1"});
    let own_image = json!({"kind": "ImageStreamImage", "name": "web@sha256:1"});
    let named = json!({"kind": "ImageStreamImage", "name": "web@sha256:1", "namespace": "shop"});
    let foreign = json!({"kind": "ImageStreamImage", "name": "web@sha256:1", "namespace": "base"});
    let by_tag = "old:5000/shop/web@{a} > mig:5000/shop/web:v1";
    let by_digest = "old:5000/shop/web@{a} > mig:5000/shop/web@{a}";
    let latest = "old:5000/shop/web@{a} > mig:5000/shop/web:latest";
    let prefix = [Compat::RegistryPrefix];
    let one = |from: &Value| stream(&[("v1", from.clone(), &[(internal, 'a')])]);
    let push_latest = [Compat::PushLatest];
    let rows: Vec<(&str, Value, &[Compat], Vec<&str>)> = vec![
        ("no tags", stream(&[]), &[], vec![]),
        ("a tag", one(&json!(null)), &[], vec![by_tag]),
        ("from an image here", one(&own_image), &[], vec![by_tag]),
        ("from an image named here", one(&named), &[], vec![by_tag]),
        ("from an image elsewhere", one(&foreign), &[], vec![by_digest]),
        ("from a tag", one(&tag), &[], vec![by_digest]),
        ("from Docker", one(&docker), &[], vec![by_digest]),
        ("from Docker, old way", one(&docker), &push_latest, vec![latest]),
        ("a tag, old way", one(&json!(null)), &push_latest, vec![by_tag]),
        ("external", stream(&[("v1", json!(null), &[("quay.io/shop/web", 'a')])]), &[], vec![]),
        (
            "history",
            stream(&[("v1", json!(null), &[(internal, 'b'), ("quay.io/x/y", 'c'), (internal, 'a')])]),
            &[],
            vec![by_tag, "old:5000/shop/web@{b} > mig:5000/shop/web:v1"],
        ),
        (
            "two tags",
            stream(&[("v1", json!(null), &[(internal, 'a')]), ("v2", json!(null), &[(internal, 'b')])]),
            &[],
            vec![by_tag, "old:5000/shop/web@{b} > mig:5000/shop/web:v2"],
        ),
        (
            "of another stream",
            stream(&[("v1", json!(null), &[("old:5000/base/ruby", 'a')])]),
            &[],
            vec!["old:5000/base/ruby@{a} > mig:5000/shop/web:v1"],
        ),
        ("a similar registry", stream(&[("v1", json!(null), &[("old:50001/shop/web", 'a')])]), &[], vec![]),
    ];
    for (row, stream, switches, expected) in rows {
        let expected: Vec<_> = expected.into_iter().map(filled).collect();
        assert_eq!(planned(&stream, &ROUTE, switches), Ok(expected), "{row}");
    }
    let similar = stream(&[("v1", json!(null), &[("old:50001/shop/web", 'a')])]);
    let expected = filled("old:50001/shop/web@{a} > mig:5000/shop/web:v1");
    assert_eq!(planned(&similar, &ROUTE, &prefix), Ok(vec![expected]));
}

#[test]
fn a_restore_reads_what_the_backup_wrote() {
    let route = Route { source: "mig:5000", destination: "new:5000", namespace: "store", of_backup: true, ..ROUTE };
    let other = stream(&[("v1", json!(null), &[("old:5000/base/ruby", 'a')])]);
    let own = stream(&[("v1", json!(null), &[("old:5000/shop/web", 'a')])]);
    for (row, stream, switches, expected) in [
        ("own image", &own, vec![], "mig:5000/shop/web@{a} > new:5000/store/web:v1"),
        ("image of another stream", &other, vec![], "mig:5000/shop/web@{a} > new:5000/store/web:v1"),
        ("the old way", &other, vec![Compat::ImagePath], "mig:5000/base/ruby@{a} > new:5000/store/web:v1"),
    ] {
        assert_eq!(planned(stream, &route, &switches), Ok(vec![filled(expected)]), "{row}");
    }
}

#[test]
fn what_cannot_be_copied_is_named() {
    let internal = stream(&[("v1", json!(null), &[("old:5000/shop/web", 'a')])]);
    let external = stream(&[("v1", json!(null), &[("quay.io/shop/web", 'a')])]);
    let broken = stream(&[("v1", json!(null), &[("old:5000/Shop/WEB", 'a')])]);
    let bad_tag = stream(&[("-v1", json!(null), &[("old:5000/shop/web", 'a')])]);
    let no_source = Route { source: "", ..ROUTE };
    let no_destination = Route { destination: "", ..ROUTE };
    let no_registry = Route { local: "", source: "", ..ROUTE };
    for (row, stream, route, expected) in [
        ("no source", &internal, &no_source, Err("copy source registry not found")),
        ("no destination", &internal, &no_destination, Err("copy destination registry not found")),
        ("no destination, nothing internal", &external, &no_destination, Ok(0)),
        ("no internal registry", &internal, &no_registry, Ok(0)),
        ("no reference", &broken, &ROUTE, Err("ImageStream shop/web: image reference")),
        ("no tag", &bad_tag, &ROUTE, Err("the tag \"-v1\"")),
    ] {
        match (planned(stream, route, &[]), expected) {
            (Ok(found), Ok(count)) => assert_eq!(found.len(), count, "{row}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{row}: {error}"),
            (found, _) => panic!("{row}: {found:?}"),
        }
    }
}

#[test]
fn a_registry_without_a_dot_is_no_part_of_the_path() {
    let name = ImageName::new("registry", "/shop/web:v1").reference().unwrap();
    assert_eq!((name.registry(), name.repository(), name.tag()), ("registry", "shop/web", Some("v1")));
}

#[test]
fn digests_that_changed_are_written_down() {
    let mut found = stream(&[("v1", json!(null), &[("old:5000/shop/web", 'b'), ("old:5000/shop/web", 'a')])]);
    update_digests(&mut found, &[(digest('a'), digest('c')), (digest('b'), digest('b'))]);
    let after = stream(&[("v1", json!(null), &[("old:5000/shop/web", 'b'), ("old:5000/shop/web", 'c')])]);
    assert_eq!(found, after);
}
