use super::*;

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&item| item.to_owned()).collect()
}

#[test]
fn names_are_taken_as_the_table_says() {
    let table: &[(&[&str], &[&str], &str, bool)] = &[
        (&[], &[], "a", true),
        (&["*"], &[], "a", true),
        (&["a"], &[], "a", true),
        (&["a"], &[], "b", false),
        (&["*"], &["a"], "a", false),
        (&["a"], &["a"], "a", false),
        (&["app-*"], &["app-test"], "app-prod", true),
        (&["app-*"], &["app-test"], "app-test", false),
        (&[], &["*.apps"], "deployments.apps", false),
        (&["bad[a-z0-9]"], &[], "bada", false),
        (&["*", "x"], &[], "y", true),
    ];
    for (includes, excludes, name, expected) in table {
        let lists = IncludesExcludes::new(includes, excludes);
        assert_eq!(lists.should_include(name), *expected, "{includes:?} {excludes:?} {name}");
    }
}

#[test]
fn an_exclude_list_ends_everything() {
    assert!(IncludesExcludes::new::<&str>(&[], &[]).include_everything());
    assert!(IncludesExcludes::new(&["*"], &[]).include_everything());
    assert!(!IncludesExcludes::new(&["*"], &["a"]).include_everything());
    assert!(!IncludesExcludes::new(&["*", "a"], &[]).include_everything());
    assert!(!IncludesExcludes::new(&["a"], &[]).include_everything());
}

#[test]
fn lists_print_as_velero_prints_them() {
    let lists = IncludesExcludes::new(&["b", "a"], &[]);
    assert_eq!(lists.includes_text(), "a, b");
    assert_eq!(lists.excludes_text(), "<none>");
    assert_eq!(IncludesExcludes::default().includes_text(), "*");
}

#[test]
fn an_unknown_resource_name_is_kept_and_a_star_exclude_is_dropped() {
    let resolve = |name: &str| (name == "po").then(|| "pods".to_owned());
    let lists = IncludesExcludes::of_resources(&strings(&["po", "unknown"]), &strings(&["*"]), resolve);
    assert_eq!(lists.includes.iter().collect::<Vec<_>>(), ["pods", "unknown"]);
    assert!(lists.excludes.is_empty());
}

#[test]
fn patterns_are_expanded_against_existing_namespaces() {
    type Row<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str]);
    let existing = ["app-prod", "app-test", "db"];
    let table: &[Row<'_>] = &[
        (&["app-*"], &[], &["app-prod", "app-test"]),
        (&["app-*"], &["*-test"], &["app-prod"]),
        (&["*"], &["app-*"], &["db"]),
        (&[], &["app-*"], &["db"]),
        (&["db", "absent"], &[], &["db"]),
        (&["absent-*"], &[], &[]),
        (&["d?"], &[], &["db"]),
        (&["app-[pq]rod"], &[], &["app-prod"]),
        (&["absent-*"], &["d*"], &[]),
    ];
    for (includes, excludes, expected) in table {
        let filter = NamespaceFilter::expand(includes, excludes, &existing).unwrap();
        let resolved: Vec<_> = filter.resolve(existing).into_iter().collect();
        assert_eq!(resolved, *expected, "{includes:?} {excludes:?}");
    }
}

#[test]
fn a_pattern_that_matches_nothing_takes_nothing() {
    let filter = NamespaceFilter::expand(&["x-*"], &[], &["a"]).unwrap();
    assert!(!filter.should_include("a"));
    assert!(!filter.include_everything());
    assert_eq!(filter.namespaces_to_list(), NamespacesToList::These(vec![]));
}

#[test]
fn naming_every_namespace_is_everything() {
    let existing = ["a", "b"];
    assert!(NamespaceFilter::expand(&["b", "a"], &[], &existing).unwrap().include_everything());
    assert!(NamespaceFilter::expand(&["?"], &[], &existing).unwrap().include_everything());
    assert!(!NamespaceFilter::expand(&["a"], &[], &existing).unwrap().include_everything());
    assert!(!NamespaceFilter::expand(&["*"], &["a"], &existing).unwrap().include_everything());
}

#[test]
fn one_list_serves_all_namespaces_and_named_ones_are_listed_one_by_one() {
    let list = |includes: &[&str], excludes: &[&str]| {
        NamespaceFilter::expand(includes, excludes, &["a", "b", "c"]).unwrap().namespaces_to_list()
    };
    assert_eq!(list(&["*"], &["a"]), NamespacesToList::All);
    assert_eq!(list(&[], &[]), NamespacesToList::All);
    assert_eq!(list(&["b", "a", "zz"], &["a"]), NamespacesToList::These(strings(&["b", "zz"])));
    assert_eq!(list(&["[ab]"], &[]), NamespacesToList::These(strings(&["a", "b"])));
}

#[test]
fn a_malformed_pattern_stops_the_expansion() {
    assert!(NamespaceFilter::expand(&["a**"], &[], &["a"]).is_err());
    assert!(NamespaceFilter::expand(&["a*"], &["b[a-z0-9]"], &["a"]).is_err());
}

#[test]
fn lists_are_validated_as_the_table_says() {
    let twice = "excludes list cannot contain an item in the includes list: a";
    type Row<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str], &'a [&'a str]);
    let table: &[Row<'_>] = &[
        (&["a"], &["b"], &[], &[]),
        (&["*", "a"], &[], &[LONE_STAR_INCLUDE], &[LONE_STAR_INCLUDE]),
        (&["*", "*"], &[], &[], &[]),
        (&[], &["*"], &["excludes list cannot contain '*'"], &[]),
        (&["a"], &["a"], &[twice], &[twice]),
        (&["a"], &["*"], &["excludes list cannot contain '*'"], &["when exclude is '*', include cannot have value"]),
        (
            &[],
            &["*", "a"],
            &["excludes list cannot contain '*'"],
            &["excludes list must either contain '*' only, or a non-empty list of items"],
        ),
    ];
    for (includes, excludes, plain, scoped) in table {
        let (includes, excludes) = (strings(includes), strings(excludes));
        assert_eq!(validate_includes_excludes(&includes, &excludes), *plain, "{includes:?} {excludes:?}");
        assert_eq!(validate_scoped_includes_excludes(&includes, &excludes), *scoped, "{includes:?} {excludes:?}");
    }
}

#[test]
fn namespace_lists_name_the_bad_entry() {
    let problems = |includes: &[&str]| validate_namespace_includes_excludes(&strings(includes), &[]);
    assert!(problems(&["*"]).is_empty());
    assert!(problems(&["", "app-*", "ns[ab]"]).is_empty());
    assert_eq!(problems(&["a.b"]), ["invalid namespace \"a.b\": must not contain dots"]);
    assert_eq!(problems(&["ns("]), ["wildcard pattern contains unsupported characters: |, (, ), !, {, }, ,"]);
    assert!(problems(&["Upper"])[0].starts_with("invalid namespace \"Upper\": a lowercase RFC 1123 label"));
}
