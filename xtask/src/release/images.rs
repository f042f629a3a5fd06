//! The container images, as archives that `skopeo copy oci-archive:FILE docker://NAME` pushes.

use std::path::Path;

use anyhow::Result;
use velero_api::IMAGE_REGISTRY;
use velero_testkit::image::Image;

use super::programs::{OWN_PROGRAMS, PLUGINS};
use super::{Release, VERSION};

/// Where the source of all this is.
pub(super) const SOURCE: &str = "https://github.com/velero-rust/velero";

/// Writes the image of the server and those of the plugins.
pub(super) fn write(release: &Release, binaries: &Path) -> Result<()> {
    let image = Image::of_velero(&name_of(OWN_PROGRAMS[0]), &binaries.join(OWN_PROGRAMS[0]))?;
    let image = OWN_PROGRAMS[1..].iter().fold(image, |image, helper| image.file(&binaries.join(helper), helper));
    write_one(release, OWN_PROGRAMS[0], "Backup, restore and migration of Kubernetes objects", image)?;
    for plugin in PLUGINS {
        let image = Image::of_plugin(&name_of(plugin), &binaries.join(plugin))?;
        write_one(release, plugin, "A plugin for Velero: velero plugin add", image)?;
    }
    Ok(())
}

fn write_one(release: &Release, program: &str, description: &str, image: Image) -> Result<()> {
    let created = jiff::Timestamp::from_second(release.commit.time.cast_signed())?.to_string();
    let labels = [
        ("title", program),
        ("description", description),
        ("version", &format!("v{VERSION}")),
        ("revision", &release.commit.name),
        ("created", &created),
        ("source", SOURCE),
        ("licenses", "Apache-2.0"),
    ];
    let image = labels
        .into_iter()
        .fold(image, |image, (key, value)| image.label(&format!("org.opencontainers.image.{key}"), value));
    image
        .created(&created)
        .compressed()
        .write(&release.path(&format!("{}.oci.tar", release.name(&format!("{program}-image")))))
}

/// The full name of the image of a program.
fn name_of(program: &str) -> String {
    format!("{IMAGE_REGISTRY}/{program}:v{VERSION}")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Component, PathBuf};

    use velero_testkit::install::repository_root;

    use super::*;

    /// The sources below a folder, without those of tests.
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !["tests", "target", "velero-testkit"].contains(&name.as_str()) {
                sources(&path, found);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                found.push(path);
            }
        }
    }

    /// A path without the steps back in it.
    fn plain(path: &Path) -> PathBuf {
        let mut plain = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => {
                    plain.pop();
                }
                part => plain.push(part),
            }
        }
        plain
    }

    #[test]
    fn what_is_compiled_into_programs_is_handed_to_a_container_engine() {
        let root = repository_root();
        let ignored = fs::read_to_string(root.join(".dockerignore")).unwrap();
        let lines: Vec<&str> = ignored.lines().filter(|line| !line.starts_with('#')).collect();
        let mut files = Vec::new();
        for folder in ["crates", "plugins"] {
            sources(&root.join(folder), &mut files);
        }
        let mut included = 0;
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap();
            for rest in text.split("include_str!(\"").skip(1) {
                let named = file.parent().unwrap().join(rest.split('"').next().unwrap());
                let named = plain(&named).strip_prefix(&root).unwrap().display().to_string();
                let is_left_out = lines.iter().any(|folder| named.starts_with(&format!("{folder}/")));
                let is_kept = lines.contains(&format!("!{named}").as_str());
                assert!(!is_left_out || is_kept, "{} needs {named}, and .dockerignore leaves it out", file.display());
                included += 1;
            }
        }
        assert!(included > 0, "nothing is included");
    }
}
