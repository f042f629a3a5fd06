use super::*;
use proptest::prelude::*;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn parse(text: &str) -> Selector {
    text.parse().unwrap()
}

#[test]
fn selectors_match_as_the_table_says() {
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], bool);
    let table: &[Row<'_>] = &[
        ("", &[], true),
        ("a=b", &[("a", "b")], true),
        ("a==b", &[("a", "b")], true),
        ("a=b", &[("a", "c")], false),
        ("a=b", &[], false),
        ("a!=b", &[], true),
        ("a!=b", &[("a", "b")], false),
        ("a in (x, y)", &[("a", "y")], true),
        ("a in (x,y)", &[], false),
        ("a notin (x,y)", &[], true),
        ("a notin (x,y)", &[("a", "x")], false),
        ("a", &[("a", "")], true),
        ("a", &[], false),
        ("!a", &[], true),
        ("!a", &[("a", "")], false),
        ("a=", &[("a", "")], true),
        ("a in ()", &[("a", "")], true),
        ("a>1", &[("a", "2")], true),
        ("a<1", &[("a", "2")], false),
        ("a>1", &[("a", "x")], false),
        ("a=b,c!=d,e in (x,y),!f,g", &[("a", "b"), ("e", "x"), ("g", "1")], true),
        ("a=b,c!=d,e in (x,y),!f,g", &[("a", "b"), ("e", "x")], false),
        ("in=notin", &[("in", "notin")], true),
    ];
    for (text, pairs, expected) in table {
        assert_eq!(parse(text).matches(&labels(pairs)), *expected, "{text} {pairs:?}");
    }
}

#[test]
fn queries_are_sorted_by_key_and_parse_back() {
    let table = [
        ("z=1,a", "a,z=1"),
        ("a in (y,x)", "a in (x,y)"),
        ("a notin (x)", "a notin (x)"),
        ("!a", "!a"),
        ("a==b", "a=b"),
        ("a != b", "a!=b"),
        ("", ""),
    ];
    for (text, query) in table {
        assert_eq!(parse(text).to_string(), query);
        assert_eq!(parse(query), parse(text));
    }
}

#[test]
fn malformed_text_is_refused() {
    for text in
        ["a=b=c", "a in", "a in (", "a in (x", ",a", "a,", "a b", "!", "=a", "a in x", "a=-", "-a", "a>b", "a(b"]
    {
        assert!(text.parse::<Selector>().is_err(), "{text}");
    }
    let error = "a in x".parse::<Selector>().unwrap_err();
    assert_eq!(error.to_string(), "unable to parse label selector \"a in x\": found 'x', expected '('");
}

#[test]
fn the_object_form_and_the_text_form_agree() {
    let stored = parse("a=b,c!=d,e in (x,y),!f,g").to_label_selector().unwrap();
    assert_eq!(stored.match_labels, Some(labels(&[("a", "b")])));
    assert_eq!(stored.match_expressions.as_ref().map(Vec::len), Some(4));
    let selector = Selector::try_from(&stored).unwrap();
    assert_eq!(selector.to_string(), "a=b,c notin (d),e in (x,y),!f,g");
}

#[test]
fn an_order_comparison_cannot_be_stored() {
    assert!(matches!(parse("a>1").to_label_selector(), Err(SelectorError::NotStorable { .. })));
}

#[test]
fn an_unknown_operator_is_named() {
    let stored = LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: "a".into(),
            operator: "Like".into(),
            values: None,
        }]),
        ..Default::default()
    };
    let error = Selector::try_from(&stored).unwrap_err();
    assert!(error.to_string().contains("\"Like\""), "{error}");
}

#[test]
fn any_of_the_or_selectors_is_enough() {
    let either = [parse("a=1").to_label_selector().unwrap(), parse("b=2").to_label_selector().unwrap()];
    let set = SelectorSet::new(None, &either).unwrap();
    assert!(set.matches(&labels(&[("b", "2")])));
    assert!(!set.matches(&labels(&[("b", "1")])));
    assert_eq!(set.queries(), ["a=1", "b=2"]);
    assert_eq!(SelectorSet::default().queries(), [""]);
    assert!(SelectorSet::default().matches(&labels(&[])));
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,60}") {
        let _ = text.parse::<Selector>();
    }

    #[test]
    fn what_parses_prints_and_parses_again(text in r"[ab=!(),<>1 in]{0,30}") {
        if let Ok(selector) = text.parse::<Selector>() {
            prop_assert_eq!(selector.to_string().parse::<Selector>().unwrap(), selector);
        }
    }
}
