use serde_json::json;
use velero_cluster::{RawItem, types};

use super::*;
use crate::backup::plan::PlannedType;

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
    let pods = Arc::new(PlannedType::for_test(0, types::PODS.clone()));
    let text = br#"{"metadata":{"name":"old","namespace":"shop"}}"#;
    let item = Item::new(&pods, RawItem::new(Arc::clone(&pods.resource_type), text.to_vec().into()).unwrap());
    let record = changed(&item, &json!({"metadata": {"name": "new", "namespace": "shop"}, "data": "<"})).unwrap();
    assert_eq!(record.renamed_from, Some((Some("shop".to_owned()), "old".to_owned())));
    let Body::Changed { namespace, name, json } = record.body else { panic!("changed") };
    assert_eq!((namespace.as_deref(), name.as_str()), (Some("shop"), "new"));
    assert_eq!(String::from_utf8(json).unwrap(), r#"{"data":"\u003c","metadata":{"name":"new","namespace":"shop"}}"#);
    let kept = changed(&item, &json!({"metadata": {"name": "old", "namespace": "shop"}})).unwrap();
    assert_eq!(kept.renamed_from, None);
    assert!(changed(&item, &json!({"metadata": {}})).is_err());
}
