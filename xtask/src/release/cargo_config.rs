//! What the configuration of cargo on this machine says beside the repository: programs must not depend on it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// What changes no program, or is said otherwise for a release: where crates come from, how they are fetched, what is shown.
/// Of `build`, wrappers, flags, compiler and folders are overridden.
const HARMLESS: [&str; 16] = [
    "alias",
    "build",
    "cache",
    "cargo-new",
    "credential-alias",
    "doc",
    "future-incompat-report",
    "http",
    "install",
    "net",
    "registries",
    "registry",
    "resolver",
    "term",
    // Nightly compilers alone heed these two.
    "host",
    "unstable",
];

/// What may be said of a target: flags and, for this machine, the linker are overridden.
const OF_TARGETS: [&str; 5] = ["ar", "linker", "runner", "rustdocflags", "rustflags"];

/// Variables that a release sets itself.
const SET_HERE: [&str; 3] = ["CC_SHELL_ESCAPED_FLAGS", "SOURCE_DATE_EPOCH", "VELERO_GIT_COMMIT"];

/// Refuses settings by which programs would be others than those of everybody else. Cargo reads them above the repository too.
pub(super) fn check(root: &Path, cargo_home: &Path) -> Result<()> {
    for file in files(root, cargo_home) {
        if !file.is_file() {
            continue;
        }
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let changes = changes(&text);
        ensure!(
            changes.is_empty(),
            "{} sets {}: programs would be others than those of everybody else; take it out, or release from a folder and with a \
             CARGO_HOME that do not have it",
            file.display(),
            changes.into_iter().collect::<Vec<_>>().join(", ")
        );
    }
    Ok(())
}

/// Whether a variable says how whoever builds likes programs to be compiled: those of others would be other ones. Which C compiler and
/// linker a target needs is nothing of the kind.
pub(super) fn is_a_taste(variable: &str) -> bool {
    const BEGINNINGS: [&str; 8] =
        ["CARGO_PROFILE_", "CARGO_BUILD_RUST", "RUSTC", "CFLAGS", "CXXFLAGS", "CRATE_CC_", "AWS_LC_", "ZSTD_SYS_"];
    let of_any = variable.strip_prefix("HOST_").or_else(|| variable.strip_prefix("TARGET_")).unwrap_or(variable);
    BEGINNINGS.iter().any(|beginning| of_any.starts_with(beginning))
}

/// Where cargo looks for its configuration.
fn files(root: &Path, cargo_home: &Path) -> BTreeSet<PathBuf> {
    let above = root.ancestors().map(|folder| folder.join(".cargo"));
    let folders = above.chain([cargo_home.to_owned()]);
    folders.flat_map(|folder| ["config.toml", "config"].map(|name| folder.join(name))).collect()
}

/// What a configuration sets that changes programs, each by its full name.
fn changes(text: &str) -> BTreeSet<String> {
    let mut table = Vec::new();
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[')
            && let Some(name) = name(header.trim_start_matches('['), ']')
        {
            table = name;
        } else if let Some(key) = name(line, '=') {
            let full: Vec<String> = table.iter().cloned().chain(key).collect();
            if changes_programs(&full, line) {
                found.insert(full.join("."));
            }
        }
    }
    found
}

fn changes_programs(name: &[String], line: &str) -> bool {
    let part = |index: usize| name.get(index).map_or("", String::as_str);
    match part(0) {
        // Crates of a directory have other paths than those that come from a registry, or from its mirror.
        "source" => {
            name.last().is_some_and(|key| key == "directory") || line.contains('{') && line.contains("directory")
        }
        "env" => name.len() < 2 || is_a_taste(part(1)) || SET_HERE.contains(&part(1)),
        "target" => name.len() != 3 || !OF_TARGETS.contains(&part(2)),
        table => !HARMLESS.contains(&table),
    }
}

/// The parts of the name that a line begins with; nothing where what ends a name does not come.
fn name(line: &str, end: char) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    for letter in line.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if letter == end => return Some(parts),
            None if letter == '#' => return None,
            None if letter == '.' => parts.push(String::new()),
            None if letter == '"' || letter == '\'' => quote = Some(letter),
            None if letter.is_whitespace() => {}
            _ => parts.last_mut()?.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_make_other_programs_are_refused_by_name() {
        for (text, expected) in [
            ("[profile.release]\nlto = \"off\" # quick\n", "profile.release.lto"),
            ("profile.release.package.ring.opt-level = 1", "profile.release.package.ring.opt-level"),
            ("[patch.crates-io]\ntokio = { path = \"../tokio\" }", "patch.crates-io.tokio"),
            ("paths = [\"../tokio\"]", "paths"),
            ("include = \"more.toml\"", "include"),
            ("[env]\nCFLAGS = \"-O1\"", "env.CFLAGS"),
            (
                "[env.SOURCE_DATE_EPOCH]\nvalue = \"1\"\nforce = true",
                "env.SOURCE_DATE_EPOCH.force, env.SOURCE_DATE_EPOCH.value",
            ),
            (
                "[target.x86_64-unknown-linux-gnu.zstd]\nrustc-link-lib = [\"zstd\"]",
                "target.x86_64-unknown-linux-gnu.zstd.rustc-link-lib",
            ),
            (
                "[source.crates-io]\nreplace-with = \"here\"\n[source.here]\ndirectory = \"vendor\"",
                "source.here.directory",
            ),
        ] {
            assert_eq!(changes(text).into_iter().collect::<Vec<_>>().join(", "), expected, "{text}");
        }
    }

    #[test]
    fn registries_networks_and_what_a_release_overrides_hinder_nobody() {
        let text = r#"
            # profile.release.lto = "off"
            [source.crates-io]
            replace-with = "mirror"
            [source.mirror]
            registry = "sparse+https://mirror.example.com/index/"
            [registries.mirror]
            index = "sparse+https://mirror.example.com/index/"
            [http]
            proxy = "http://proxy.example.com:3128"
            cainfo = "/etc/ca.pem"
            [net]
            git-fetch-with-cli = true
            [build]
            rustc-wrapper = "sccache"
            rustflags = [
                "-Ctarget-cpu=native",
                "-C", "debuginfo=1"]
            [target.'cfg(target_os = "linux")']
            linker = "clang"
            [target.x86_64-unknown-linux-gnu]
            rustflags = ["-Clink-arg=-fuse-ld=mold"]
            [env]
            HTTPS_PROXY = "http://proxy.example.com:3128"
            [alias]
            b = ["build", "--config", "profile.dev.debug=0"]
        "#;
        assert_eq!(changes(text), BTreeSet::new());
    }

    #[test]
    fn a_configuration_above_the_repository_or_in_the_home_of_cargo_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let [root, home] = ["above/velero", "home"].map(|name| folder.path().join(name));
        fs::create_dir_all(folder.path().join("above/.cargo")).unwrap();
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(&home).unwrap();
        assert!(check(&root, &home).is_ok());
        for file in [folder.path().join("above/.cargo/config.toml"), home.join("config.toml")] {
            fs::write(&file, "[profile.release]\ndebug = true\n").unwrap();
            let refused = check(&root, &home).unwrap_err().to_string();
            assert!(
                refused.contains(&file.display().to_string()) && refused.contains("profile.release.debug"),
                "{refused}"
            );
            fs::remove_file(&file).unwrap();
        }
    }
}
