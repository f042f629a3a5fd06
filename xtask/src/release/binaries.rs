//! Builds the binaries so that the folder they are built in, the time and the user leave no trace in them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use velero_testkit::progress::say;

use super::cargo_config::{self, is_a_taste};
use super::programs::{OWN_PROGRAMS, PLUGINS};
use super::{Release, read};

/// What the folders of the builder are called in the binaries.
const SOURCE: &str = "/source";
const DEPENDENCIES: &str = "/dependencies";

/// What separates flags in the variable that cargo reads them from: folders may have spaces.
const SEPARATOR: &str = "\u{1f}";

/// Builds what the platform can have, and gives the folder it is in.
pub(super) fn build(release: &Release, profile: &str) -> Result<PathBuf> {
    let platform = &release.platform;
    say(format!("building the binaries for {} (profile {profile})", platform.triple));
    let cargo_home = cargo_home()?;
    cargo_config::check(&release.root, &cargo_home)?;
    let compiler = Compiler::find(&release.root)?;
    let names = renamed_folders(&release.root, &cargo_home, &compiler)?;
    // A folder of its own: other flags would have everything there compiled again, and again for the next who works there.
    let target_folder = release.root.join("target/release-build");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(&release.root).args(["build", "--locked", "--profile", profile, "--target", &platform.triple]);
    cargo.arg("--target-dir").arg(&target_folder).args(["--package", "velero"]);
    match platform.runs_servers() {
        true => cargo.args(["--bins"]).args(PLUGINS.iter().flat_map(|plugin| ["--package", plugin])),
        false => cargo.args(["--bin", "velero"]),
    };
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_a_taste) {
            cargo.env_remove(name);
        }
    }
    // What the configuration of cargo may say otherwise; empty wrappers are none.
    cargo.env("RUSTC", "rustc").env("RUSTC_WRAPPER", "").env("RUSTC_WORKSPACE_WRAPPER", "");
    cargo.env("CARGO_BUILD_BUILD_DIR", &target_folder);
    if platform.is_this_machine() && !platform.triple.ends_with("msvc") {
        cargo.env(linker_variable(&platform.triple), "cc");
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", compiler_flags(&names, platform.is_linked_statically()).join(SEPARATOR));
    if !platform.triple.ends_with("msvc") {
        // What the C libraries among the dependencies say in their assertions.
        cargo.env(format!("CFLAGS_{}", platform.triple.replace('-', "_")), c_flags(&names));
        cargo.env("CC_SHELL_ESCAPED_FLAGS", "1");
    }
    cargo.env("CARGO_INCREMENTAL", "0");
    cargo.env("VELERO_GIT_COMMIT", &release.commit.name);
    cargo.env("SOURCE_DATE_EPOCH", release.commit.time.to_string());
    let status = cargo.status().context("cannot start cargo")?;
    ensure!(
        status.success(),
        "cargo build for {} failed: `rustup target add {}` and a C compiler for it are needed",
        platform.triple,
        platform.triple
    );
    let folder = target_folder.join(&platform.triple).join(if profile == "dev" { "debug" } else { profile });
    if profile != "dev" {
        check_traces(release, &folder, &names)?;
    }
    Ok(folder)
}

/// The variable that names the linker for a target.
fn linker_variable(triple: &str) -> String {
    format!("CARGO_TARGET_{}_LINKER", triple.to_uppercase().replace('-', "_"))
}

/// Refuses programs that name a folder of the builder: elsewhere they would be others.
fn check_traces(release: &Release, folder: &Path, names: &[(PathBuf, String)]) -> Result<()> {
    let programs = match release.platform.runs_servers() {
        true => [&OWN_PROGRAMS[..], &PLUGINS].concat(),
        false => OWN_PROGRAMS[..1].to_vec(),
    };
    for program in programs {
        let path = folder.join(release.platform.program(program));
        let content = read(&path)?;
        if let Some(trace) = names.iter().map(|(trace, _)| trace).find(|trace| is_in(&content, trace)) {
            bail!("{} names {}: built elsewhere it would be another", path.display(), trace.display());
        }
    }
    Ok(())
}

/// Whether a program names something below a folder. What a folder is called instead may be its own name.
fn is_in(content: &[u8], folder: &Path) -> bool {
    let name = format!("{}/", folder.display());
    let is_renamed = [SOURCE, DEPENDENCIES].iter().all(|other| !name.starts_with(&format!("{other}/")));
    is_renamed && content.windows(name.len()).any(|part| part == name.as_bytes())
}

/// The compiler that the toolchain file names.
struct Compiler {
    /// Where it is installed.
    folder: PathBuf,
    /// The commit it was made from, by which its library calls itself.
    commit: String,
}

impl Compiler {
    fn find(root: &Path) -> Result<Self> {
        let ask = |arguments: &[&str]| {
            let output =
                Command::new("rustc").args(arguments).current_dir(root).output().context("cannot start rustc")?;
            ensure!(output.status.success(), "rustc {} failed", arguments.join(" "));
            Ok(String::from_utf8(output.stdout)?.trim().to_owned())
        };
        let about = ask(&["-vV"])?;
        check_version(&about, &fs::read_to_string(root.join("rust-toolchain.toml"))?)?;
        let commit = about
            .lines()
            .find_map(|line| line.strip_prefix("commit-hash: "))
            .context("rustc does not name its commit")?;
        Ok(Self { folder: ask(&["--print", "sysroot"])?.into(), commit: commit.to_owned() })
    }
}

/// Refuses another compiler than the one that the repository names: its programs would be others.
fn check_version(about: &str, toolchain: &str) -> Result<()> {
    let named = toolchain.lines().find_map(|line| line.trim().strip_prefix("channel = \"")?.strip_suffix('"'));
    let found = about.lines().find_map(|line| line.strip_prefix("release: "));
    ensure!(
        named.is_some() && named == found,
        "the compiler is {}, and rust-toolchain.toml names {}: is RUSTUP_TOOLCHAIN set?",
        found.unwrap_or("unknown"),
        named.unwrap_or("none")
    );
    Ok(())
}

/// Where cargo keeps its configuration and the source of packages.
fn cargo_home() -> Result<PathBuf> {
    Ok(match env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => env::home_dir().context("the folder of cargo is not known: set CARGO_HOME")?.join(".cargo"),
    })
}

/// The folders that would show, and what they are called instead.
fn renamed_folders(root: &Path, cargo_home: &Path, compiler: &Compiler) -> Result<Vec<(PathBuf, String)>> {
    let mut names = vec![(root.to_owned(), SOURCE.to_owned())];
    // Below it there is a folder for each place that packages come from: a mirror has another name.
    if let Ok(places) = fs::read_dir(cargo_home.join("registry/src")) {
        for place in places {
            names.push((place?.path(), DEPENDENCIES.to_owned()));
        }
    }
    // Where the source of the standard library is installed, its own names would give way to that folder.
    names.push((compiler.folder.join("lib/rustlib/src/rust"), format!("/rustc/{}", compiler.commit)));
    Ok(names)
}

fn compiler_flags(names: &[(PathBuf, String)], is_static: bool) -> Vec<String> {
    let renamed = names.iter().map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()));
    renamed.chain(is_static.then(|| "-Ctarget-feature=+crt-static".to_owned())).collect()
}

/// In quotes, as a shell reads them: folders may have spaces.
fn c_flags(names: &[(PathBuf, String)]) -> String {
    let flags = names.iter().map(|(folder, name)| {
        let folder = folder.display().to_string().replace('\'', "'\\''");
        format!("'-ffile-prefix-map={folder}={name}'")
    });
    flags.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_compiler_than_the_one_of_the_repository_is_refused() {
        let toolchain = "[toolchain]\nchannel = \"1.95.0\"\ncomponents = [\"clippy\"]\n";
        assert!(check_version("rustc 1.95.0\nrelease: 1.95.0\n", toolchain).is_ok());
        let refused = check_version("rustc 1.96.0\nrelease: 1.96.0\n", toolchain).unwrap_err().to_string();
        assert!(refused.contains("1.96.0") && refused.contains("1.95.0"), "{refused}");
        assert!(check_version("release: 1.95.0\n", "").is_err());
    }

    #[test]
    fn what_a_builder_likes_changes_no_program() {
        for variable in [
            "CFLAGS",
            "HOST_CFLAGS",
            "CFLAGS_x86_64-unknown-linux-gnu",
            "CXXFLAGS",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_BUILD_RUSTC_WRAPPER",
            "CARGO_BUILD_RUSTFLAGS",
            "RUSTC",
            "RUSTC_WRAPPER",
            "AWS_LC_SYS_NO_ASM",
        ] {
            assert!(is_a_taste(variable), "{variable}");
        }
        for variable in
            ["CC", "CC_aarch64_unknown_linux_gnu", "CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", "CARGO_HOME", "PATH"]
        {
            assert!(!is_a_taste(variable), "{variable}");
        }
        assert_eq!(linker_variable("x86_64-unknown-linux-gnu"), "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER");
    }

    #[test]
    fn folders_with_spaces_and_quotes_reach_the_c_compiler_whole() {
        let names = [("/home/me/my work", "/source"), ("/it's", "/dependencies")];
        let names = names.map(|(folder, name)| (PathBuf::from(folder), name.to_owned()));
        let expected = r"'-ffile-prefix-map=/home/me/my work=/source' '-ffile-prefix-map=/it'\''s=/dependencies'";
        assert_eq!(c_flags(&names), expected);
    }

    #[test]
    fn a_program_that_names_a_folder_of_the_builder_is_found() {
        let program = b"\x00/home/me/velero/target/x.rs\x00/source/src/main.rs\x00";
        assert!(is_in(program, Path::new("/home/me/velero")));
        for other in ["/home/me/velero/target/x", "/home/me/vel", "/home/you", SOURCE] {
            assert!(!is_in(program, Path::new(other)), "{other}");
        }
    }

    #[test]
    fn folders_of_the_builder_have_other_names_in_what_is_built() {
        let compiler = Compiler { folder: "/toolchain".into(), commit: "c0ffee".to_owned() };
        let names = renamed_folders(Path::new("/home/me/velero"), Path::new("/home/me/.cargo"), &compiler).unwrap();
        let flags = compiler_flags(&names, true);
        assert!(flags.contains(&"--remap-path-prefix=/home/me/velero=/source".to_owned()), "{flags:?}");
        assert!(flags.contains(&"--remap-path-prefix=/toolchain/lib/rustlib/src/rust=/rustc/c0ffee".to_owned()));
        assert_eq!(flags.last().map(String::as_str), Some("-Ctarget-feature=+crt-static"));
        assert!(c_flags(&names).contains(&"-ffile-prefix-map=/home/me/velero=/source".to_owned()));
    }
}
