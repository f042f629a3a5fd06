//! Packages whose documentation has examples run them, and only those: rustdoc reads a package whole to find that out.

use std::fs;
use std::path::Path;

/// What the first line of an example says; anything else is text.
const EXAMPLES: [&str; 6] = ["", "rust", "no_run", "should_panic", "compile_fail", "ignore"];

#[test]
fn every_example_in_the_documentation_is_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for folder in ["crates", "plugins"] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let package = entry.unwrap().path();
            if package.join("src/lib.rs").exists() {
                let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
                let runs = !manifest.contains("doctest = false");
                let remedy = "set or remove `doctest = false` of its library";
                assert_eq!(runs, has_examples(&package.join("src")), "{}: {remedy}", package.display());
            }
        }
    }
}

#[test]
fn an_example_is_code_and_not_text() {
    for (source, expected) in [
        ("/// A thing.\n/// ```text\n/// a picture\n/// ```\nfn a() {}", false),
        ("//! ```no_run\n//! a();\n//! ```", true),
        ("    /// ```text\n    /// x\n    /// ```\n    /// ```\n    /// a();\n    /// ```", true),
        ("// ```\n// no documentation\n// ```", false),
    ] {
        assert_eq!(shows_an_example(source), expected, "{source}");
    }
}

fn has_examples(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.extension().is_some_and(|extension| extension == "rs") {
            true => shows_an_example(&fs::read_to_string(&path).unwrap()),
            false => path.is_dir() && has_examples(&path),
        }
    })
}

fn shows_an_example(source: &str) -> bool {
    let lines = source.lines().map(str::trim_start);
    let documentation = lines.filter_map(|line| line.strip_prefix("///").or_else(|| line.strip_prefix("//!")));
    let fences = documentation.filter_map(|line| line.trim_start().strip_prefix("```"));
    // Every second one closes what the one before has opened.
    fences.step_by(2).any(|says| EXAMPLES.contains(&says.split(',').next().unwrap_or_default().trim()))
}
