//! Lists whose elements are merged, and their order.

use serde_json::Value;

use super::schema::{Field, Strategy};
use super::{Directive, PATCH, StrategicMergeError, merge_objects, without_directives};

/// Merges the elements of a patch into a list.
///
/// Elements the patch names are in its order. Those it does not name keep their order; new ones come before them.
pub(super) fn merge_lists(
    existing: &mut Vec<Value>,
    patch: Vec<Value>,
    name: &str,
    field: &Field,
) -> Result<(), StrategicMergeError> {
    let patch = apply_list_directives(existing, patch, name, field)?;
    let before = existing.clone();
    for element in &patch {
        merge_element(existing, element, name, field)?;
    }
    reorder(existing, &patch, &before, field);
    Ok(())
}

/// Carries out `$patch` elements and gives the elements that are left to be merged.
fn apply_list_directives(
    existing: &mut Vec<Value>,
    patch: Vec<Value>,
    name: &str,
    field: &Field,
) -> Result<Vec<Value>, StrategicMergeError> {
    let mut elements = Vec::new();
    for mut element in patch {
        let Some(object) = element.as_object_mut() else {
            elements.push(element);
            continue;
        };
        let directive = Directive::of(object)?;
        let is_directive = object.remove(PATCH).is_some();
        match directive {
            Directive::Delete => {
                require_key(&element, name, field)?;
                existing.retain(|other| identity(other, field) != identity(&element, field));
            }
            Directive::Replace => existing.clear(),
            Directive::Merge if is_directive && element.as_object().is_some_and(|object| object.is_empty()) => {}
            Directive::Merge => elements.push(element),
        }
    }
    Ok(elements)
}

fn merge_element(
    existing: &mut Vec<Value>,
    element: &Value,
    name: &str,
    field: &Field,
) -> Result<(), StrategicMergeError> {
    require_key(element, name, field)?;
    let same = existing.iter_mut().find(|other| identity(other, field) == identity(element, field));
    match (same, element) {
        (Some(Value::Object(existing)), Value::Object(patch)) => merge_objects(existing, patch.clone(), field.of)?,
        (Some(_), _) => {}
        (None, _) => existing.extend(without_directives(element.clone())?),
    }
    Ok(())
}

fn require_key(element: &Value, name: &str, field: &Field) -> Result<(), StrategicMergeError> {
    match field.strategy {
        Strategy::ByKey(key) if element.get(key).is_none() => Err(StrategicMergeError::NoMergeKey {
            field: name.to_owned(),
            key: key.to_owned(),
            element: element.to_string(),
        }),
        _ => Ok(()),
    }
}

/// What tells the elements of a list apart.
fn identity<'a>(element: &'a Value, field: &Field) -> &'a Value {
    match field.strategy {
        Strategy::ByKey(key) => element.get(key).unwrap_or(&Value::Null),
        _ => element,
    }
}

fn place(list: &[Value], element: &Value, field: &Field) -> Option<usize> {
    list.iter().position(|other| identity(other, field) == identity(element, field))
}

/// Checks that every element of a patch has a place in the order that is asked for.
pub(super) fn check_order(
    patch: &[Value],
    order: &[Value],
    name: &str,
    field: &Field,
) -> Result<(), StrategicMergeError> {
    let mut elements = patch.iter().filter(|element| element.get(PATCH).is_none());
    match elements.all(|element| place(order, element, field).is_some()) {
        true => Ok(()),
        false => Err(StrategicMergeError::NoPlace { field: name.to_owned() }),
    }
}

/// Puts the elements that `order` names into its order, and weaves the others in by where they stood `before`.
pub(super) fn reorder(list: &mut Vec<Value>, order: &[Value], before: &[Value], field: &Field) {
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        std::mem::take(list).into_iter().partition(|element| place(order, element, field).is_some());
    named.sort_by_key(|element| place(order, element, field));
    let mut named = named.into_iter().peekable();
    for other in others {
        let stood = place(before, &other, field);
        // A named element goes first unless both were there before, in the other order.
        let goes_first = |element: &Value| match (place(before, element, field), stood) {
            (Some(of_named), Some(of_other)) => of_named < of_other,
            _ => true,
        };
        while let Some(element) = named.next_if(goes_first) {
            list.push(element);
        }
        list.push(other);
    }
    list.extend(named);
}
