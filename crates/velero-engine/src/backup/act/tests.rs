use serde_json::json;

use super::*;

#[test]
fn the_message_to_the_engine_is_taken_out_of_the_item() {
    for (value, must_include) in [("true", true), ("false", false)] {
        let mut item =
            json!({"metadata": {"annotations": {"backup.velero.io/must-include-additional-items": value, "a": "b"}}});
        let mut changed = false;
        assert_eq!(take_must_include(&mut item, &mut changed), must_include);
        assert!(changed);
        assert_eq!(item, json!({"metadata": {"annotations": {"a": "b"}}}));
    }
    let mut item = json!({"metadata": {}});
    let mut changed = false;
    assert!(!take_must_include(&mut item, &mut changed) && !changed);
}

#[test]
fn a_changed_item_is_stored_under_its_new_name() {
    let body = changed_body(&json!({"metadata": {"name": "new", "namespace": "shop"}, "data": "<"})).unwrap();
    let Body::Changed { namespace, name, json } = body else { panic!("changed") };
    assert_eq!((namespace.as_deref(), name.as_str()), (Some("shop"), "new"));
    assert_eq!(String::from_utf8(json).unwrap(), r#"{"data":"\u003c","metadata":{"name":"new","namespace":"shop"}}"#);
    assert!(changed_body(&json!({"metadata": {}})).is_err());
}
