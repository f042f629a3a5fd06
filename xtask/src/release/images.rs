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
