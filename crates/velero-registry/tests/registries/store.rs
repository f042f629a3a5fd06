//! The registry of the test bed that boxes reach.

use velero_registry::{Access, copy};
use velero_testkit::harness::{SHARED_BOX, unique_name};
use velero_testkit::parts::ContainerRegistryPart;
use velero_testkit::registry::{ContainerRegistry, Layout};
use velero_testkit::{BoxKind, TestBox};

use crate::{image, image_at, quick};

const REGISTRY: ContainerRegistryPart = ContainerRegistryPart { name: "registry", door: "registry-door", port: 28340 };

#[tokio::test]
async fn a_registry_beside_the_store_takes_images_through_its_door() {
    TestBox::up(SHARED_BOX, BoxKind::ControlPlane).unwrap();
    TestBox::start_in_store(&REGISTRY).unwrap();
    let source = ContainerRegistry::start().unwrap();
    let mut layout = Layout::new().unwrap();
    let web = layout.image("amd64", &[10_000]).unwrap();
    layout.push(&web, &source, "shop/web:v1").unwrap();
    let name = unique_name("shop/web");
    let to = image_at(&REGISTRY.outside(), &name, Access { plain_http: true, ..Access::default() });
    let copied = copy(&image(&source, "shop/web:v1"), &to, &quick()).await.unwrap();
    assert_eq!(copied.digest.as_str(), crate::text(&web, "/digest"));
}
