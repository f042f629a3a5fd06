//! What binaries are made for.

use std::env::consts;

use anyhow::{Result, bail};

/// A platform: the words of the compiler, and those of everybody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Platform {
    /// As the compiler names it.
    pub(super) triple: String,
    /// The system: linux, darwin or windows.
    pub(super) system: &'static str,
    /// The processor: amd64 or arm64.
    pub(super) processor: &'static str,
}

impl Platform {
    /// The platform the compiler calls so.
    pub(super) fn of(triple: &str) -> Result<Self> {
        let processor = match triple.split('-').next() {
            Some("x86_64") => "amd64",
            Some("aarch64") => "arm64",
            _ => bail!("nothing is released for the processor of {triple}: use x86_64 or aarch64"),
        };
        let has = |word: &str| triple.split('-').any(|part| part == word);
        let system = if has("linux") {
            "linux"
        } else if has("darwin") {
            "darwin"
        } else if has("windows") {
            "windows"
        } else {
            bail!("nothing is released for the system of {triple}: use linux, darwin or windows")
        };
        Ok(Self { triple: triple.to_owned(), system, processor })
    }

    /// This machine.
    pub(super) fn of_this_machine() -> Result<Self> {
        let system = match consts::OS {
            "linux" => "unknown-linux-gnu",
            "macos" => "apple-darwin",
            "windows" => "pc-windows-msvc",
            other => bail!("nothing is released for {other}: name another system with --target"),
        };
        Self::of(&format!("{}-{system}", consts::ARCH))
    }

    /// As file names have it.
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.system, self.processor)
    }

    /// Whether servers run on it: they, node agents and plugins know Linux alone.
    pub(super) fn runs_servers(&self) -> bool {
        self.system == "linux"
    }

    /// Whether its programs run here.
    pub(super) fn is_this_machine(&self) -> bool {
        Self::of_this_machine().is_ok_and(|here| here.name() == self.name())
    }

    /// Whether programs bring the C library along, so that they run wherever its kernel does.
    pub(super) fn is_linked_statically(&self) -> bool {
        self.system == "linux"
    }

    /// What the file of a program is called.
    pub(super) fn program(&self, name: &str) -> String {
        if self.system == "windows" { format!("{name}.exe") } else { name.to_owned() }
    }

    /// In words, for those who asked for more.
    pub(super) fn what_can_be_made(&self) -> &'static str {
        match self.runs_servers() {
            true => "images are made on a machine of their own processor",
            false => "servers run on Linux, so there is a client alone",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_have_the_names_of_kubernetes() {
        for (triple, name, runs_servers, program) in [
            ("x86_64-unknown-linux-gnu", "linux-amd64", true, "velero"),
            ("aarch64-unknown-linux-musl", "linux-arm64", true, "velero"),
            ("aarch64-apple-darwin", "darwin-arm64", false, "velero"),
            ("x86_64-pc-windows-msvc", "windows-amd64", false, "velero.exe"),
        ] {
            let platform = Platform::of(triple).unwrap();
            assert_eq!((platform.name().as_str(), platform.runs_servers()), (name, runs_servers));
            assert_eq!(platform.program("velero"), program);
        }
        for triple in ["wasm32-unknown-unknown", "x86_64-unknown-freebsd", ""] {
            assert!(Platform::of(triple).is_err(), "{triple}");
        }
    }
}
