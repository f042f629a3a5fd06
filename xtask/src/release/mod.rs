//! `cargo xtask release`: what a release consists of, made on one machine without a container engine, the same bytes every time.
//!
//! ```text
//! commit ── what is released: the commit, its time, whether there are changes on top
//! platform ── what it is made for, and what can be made for that
//!   binaries ── builds them so that the folder they are built in leaves no trace; cargo_config: nor does the machine's cargo
//!     ├─ archive ── sorted, dated by the commit, owned by nobody in particular
//!     │    └─ programs, chart, definitions, licences ── what goes into which
//!     ├─ images ── as OCI archives
//!     └─ bill_of_materials ── what the binaries are made of
//! plugin_manifest, checksums ── last: they speak of all other files of the folder
//! ```

mod archive;
mod bill_of_materials;
mod binaries;
mod cargo_config;
mod chart;
mod checksums;
mod commit;
mod definitions;
mod images;
mod licences;
mod platform;
mod plugin_manifest;
mod programs;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use velero_testkit::install::repository_root;
use velero_testkit::progress::say;

use crate::output::out;
use archive::Archive;
use commit::Commit;
use platform::Platform;

/// The version of all that is released together.
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Args)]
pub(crate) struct Options {
    /// Where the files go; by default target/releases/VERSION
    #[arg(long)]
    output: Option<PathBuf>,
    /// How the binaries are built; what is published is built with `release`
    #[arg(long, default_value = "release", value_parser = ["release", "quick", "dev"])]
    profile: String,
    /// What the binaries are for; by default this machine. For other systems than Linux there is a client alone
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Make these parts alone; the checksums are made in any case
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Take binaries from this folder instead of building them. They say themselves which commit they are
    #[arg(long)]
    binaries: Option<PathBuf>,
    /// Also with changes that are in no commit; the binaries say so
    #[arg(long)]
    allow_dirty: bool,
}

/// What a release consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The command for users
    Client,
    /// All programs, for those who make their own images
    Server,
    /// Container images of the server and of the plugins
    Images,
    /// The package for Helm
    Chart,
    /// The custom resource definitions, and the base for kustomize
    Definitions,
    /// What the binaries are made of (CycloneDX)
    BillOfMaterials,
    /// What makes the client `kubectl velero`; it names all clients in the folder
    PluginManifest,
}

/// What is released, for what, and where it goes.
struct Release {
    commit: Commit,
    platform: Platform,
    root: PathBuf,
    output: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let root = repository_root();
    let commit = Commit::of(&root, VERSION, options.allow_dirty)?;
    let platform = options.target.as_deref().map_or_else(Platform::of_this_machine, Platform::of)?;
    let output = root.join(options.output.clone().unwrap_or_else(|| format!("target/releases/v{VERSION}").into()));
    fs::create_dir_all(&output).with_context(|| format!("cannot make the folder {}", output.display()))?;
    checksums::check_folder(&output, VERSION)?;
    let parts = parts(options, &platform)?;
    // What is built for a look alone is no part of what is published.
    let made = match options.profile.as_str() {
        "release" => commit.name.clone(),
        profile => format!("{} (profile {profile})", commit.name),
    };
    checksums::note_commit(&output, VERSION, &made)?;
    let release = Release { commit, platform, root, output };
    let binaries = match &options.binaries {
        Some(folder) => folder.clone(),
        None if parts.iter().any(|part| part.needs_binaries()) => binaries::build(&release, &options.profile)?,
        None => PathBuf::new(),
    };
    for part in parts {
        say(format!(
            "making {}",
            part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
        ));
        release.make(part, &binaries)?;
    }
    let files = checksums::write(&release.output)?;
    out!(
        "v{VERSION} of commit {} is in {}: {files} files and {}",
        release.commit.name,
        release.output.display(),
        checksums::FILE
    );
    Ok(())
}

/// What is to be made: what was asked for, or all that there can be for a platform.
fn parts(options: &Options, platform: &Platform) -> Result<Vec<Part>> {
    let possible: Vec<Part> =
        Part::value_variants().iter().copied().filter(|part| part.can_be_made_for(platform)).collect();
    for part in &options.only {
        ensure!(
            possible.contains(part),
            "{part:?} cannot be made here for {}: {}",
            platform.triple,
            platform.what_can_be_made()
        );
    }
    let wanted = |part: &Part| options.only.is_empty() || options.only.contains(part);
    Ok(possible.into_iter().filter(wanted).collect())
}

impl Part {
    fn needs_binaries(self) -> bool {
        matches!(self, Self::Client | Self::Server | Self::Images)
    }

    fn can_be_made_for(self, platform: &Platform) -> bool {
        match self {
            Self::Server => platform.runs_servers(),
            // The certificates that it trusts are those of this machine.
            Self::Images => platform.runs_servers() && platform.is_this_machine(),
            _ => true,
        }
    }
}

impl Release {
    fn make(&self, part: Part, binaries: &Path) -> Result<()> {
        match part {
            Part::Client => programs::client(self, binaries),
            Part::Server => programs::server(self, binaries),
            Part::Images => images::write(self, binaries),
            Part::Chart => chart::write(self),
            Part::Definitions => definitions::write(self),
            Part::BillOfMaterials => bill_of_materials::write(self),
            Part::PluginManifest => plugin_manifest::write(&self.output),
        }
    }

    /// An archive in which all lies below one folder.
    fn archive(&self, folder: &str) -> Archive {
        Archive::new(folder, self.commit.time)
    }

    /// What files for one platform are called.
    fn name(&self, what: &str) -> String {
        format!("{what}-v{VERSION}-{}", self.platform.name())
    }

    fn path(&self, file: &str) -> PathBuf {
        self.output.join(file)
    }

    fn write(&self, file: &str, content: impl AsRef<[u8]>) -> Result<()> {
        let path = self.path(file);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The content of a file.
fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
