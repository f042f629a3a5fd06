//! Build configs name images of the internal registry and pull secrets, both of which differ from cluster to cluster.

use async_trait::async_trait;
use serde_json::Value;
use velero_plugin::item::{describe, elements, elements_mut, text};
use velero_plugin::{Error, RestoreItemInput, RestoreItemOutcome, Result};

use crate::action::{Resources, RestoreStep};
use crate::compat::Compat;
use crate::context::Context;
use crate::lookups::pull_secrets::{PullSecrets, prefix_of};
use crate::settings::Settings;
use crate::shared::image_reference::RegistryMove;
use crate::workflow::mapped;

/// Where a build names an image and the secret to use for it: the object, its image, its secret.
const PLACES: &[(&str, &str, &str)] = &[
    ("/spec/output", "to", "pushSecret"),
    ("/spec/strategy/sourceStrategy", "from", "pullSecret"),
    ("/spec/strategy/dockerStrategy", "from", "pullSecret"),
    ("/spec/strategy/customStrategy", "from", "pullSecret"),
];
const SOURCE_IMAGES: &str = "/spec/source/images";

/// Renames images and pull secrets.
pub(crate) struct Step;

#[async_trait]
impl RestoreStep for Step {
    fn name(&self) -> &'static str {
        "openshift.io/17-buildconfig-restore-plugin"
    }

    fn resources(&self) -> Resources {
        &["buildconfigs"]
    }

    async fn restore(&self, input: RestoreItemInput<'_>, context: &Context) -> Result<RestoreItemOutcome> {
        let settings = context.settings().await?;
        let prefixes = prefixes(input.item);
        let namespace = secrets_namespace(input, settings);
        let secrets = match prefixes.is_empty() || context.is_preview(input.restore) {
            true => None,
            false => {
                let lookups = context.lookups(input.restore).await?;
                let found = lookups.pull_secrets(namespace, &prefixes, settings.pull_secret_wait).await;
                Some(found.map_err(|error| Error::Item(format!("{}: {error}", describe(input.item))))?)
            }
        };
        restore(input, secrets.as_deref().map(|secrets| (secrets, namespace)), settings)
    }
}

/// The namespace whose pull secrets an item uses.
pub(super) fn secrets_namespace<'a>(input: RestoreItemInput<'a>, settings: &Settings) -> &'a str {
    let namespace = text(input.item_from_backup, "/metadata/namespace");
    if settings.compat(Compat::SourceNamespaceSecrets) { namespace } else { mapped(input.restore, namespace) }
}

/// The kinds of pull secrets an item names.
fn prefixes(item: &Value) -> Vec<&'static str> {
    let named = PLACES.iter().filter_map(|(place, _, secret)| item.pointer(place)?.get(secret));
    let of_sources = elements(item, SOURCE_IMAGES).filter_map(|image| image.get("pullSecret"));
    named.chain(of_sources).filter_map(|secret| prefix_of(text(secret, "/name"))).collect()
}

fn restore(
    input: RestoreItemInput<'_>,
    secrets: Option<(&PullSecrets, &str)>,
    settings: &Settings,
) -> Result<RestoreItemOutcome> {
    let mut item = input.item.clone();
    let change = Change { secrets, registries: RegistryMove::of(&item, input.restore), settings };
    let of_item = |error: Error| Error::Item(format!("{}: {error}", describe(input.item)));
    for (place, image, secret) in PLACES {
        if let Some(place) = item.pointer_mut(place) {
            change.apply(place, image, secret).map_err(of_item)?;
        }
    }
    for source in elements_mut(&mut item, SOURCE_IMAGES) {
        if settings.compat(Compat::SourceImages) {
            change.apply(&mut source.clone(), "from", "pullSecret").map_err(of_item)?;
        } else {
            change.apply(source, "from", "pullSecret").map_err(of_item)?;
        }
    }
    Ok(RestoreItemOutcome::updated(input.item, item))
}

/// What changes wherever an image is named.
struct Change<'a> {
    secrets: Option<(&'a PullSecrets, &'a str)>,
    registries: Option<RegistryMove<'a>>,
    settings: &'a Settings,
}

impl Change<'_> {
    fn apply(&self, place: &mut Value, image: &str, secret: &str) -> Result<()> {
        if let (Some(reference), Some((secrets, namespace))) = (place.get_mut(secret), self.secrets) {
            let first_wins = self.settings.compat(Compat::FirstPullSecret);
            if let Some(name) = secrets.replacement(text(reference, "/name"), namespace, first_wins)? {
                reference["name"] = name.into();
            }
        }
        if let (Some(reference), Some(registries)) = (place.get_mut(image), &self.registries)
            && text(reference, "/kind") == "DockerImage"
            && let Some(name) = registries.rewrite(text(reference, "/name"))
        {
            reference["name"] = name.into();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Expected, check, compat, mapping, run};

    fn secrets() -> PullSecrets {
        let of = |account: &str| json!({"kubernetes.io/service-account.name": account, "kubernetes.io/service-account.uid": account});
        let secret = |name: &str, account: &str| json!({"metadata": {"name": name, "annotations": of(account)}});
        let account = |name: &str| json!({"metadata": {"name": name, "uid": name}});
        let found = [secret("builder-dockercfg-here", "builder"), secret("default-dockercfg-here", "default")];
        PullSecrets::new(&found, &[account("builder"), account("default")])
    }

    fn build(spec: &Value) -> Value {
        let hostnames = json!({
            "openshift.io/backup-registry-hostname": "old:5000", "openshift.io/restore-registry-hostname": "new:5000",
        });
        json!({"kind": "BuildConfig", "metadata": {"name": "web", "namespace": "shop", "annotations": hostnames}, "spec": spec})
    }

    fn output(kind: &str, image: &str, secret: &str) -> Value {
        build(
            &json!({"output": {"to": {"kind": kind, "name": image}, "pushSecret": {"name": secret}}, "triggers": [], "runPolicy": "Serial"}),
        )
    }

    fn strategy(strategy: &str, image: &str, secret: &str) -> Value {
        build(
            &json!({"strategy": {strategy: {"from": {"kind": "DockerImage", "name": image}, "pullSecret": {"name": secret}}}}),
        )
    }

    fn source(image: &str, secret: &str) -> Value {
        let images =
            json!([{"from": {"kind": "DockerImage", "name": image}, "pullSecret": {"name": secret}, "paths": []}]);
        build(&json!({"source": {"images": images}}))
    }

    #[test]
    fn images_and_secrets_are_those_of_the_new_cluster() {
        let (old, new) = ("old:5000/shop/web:1", "new:5000/store/web:1");
        let (there, here) = ("builder-dockercfg-there", "builder-dockercfg-here");
        let now = Settings::default();
        let keep_sources = compat(&[Compat::SourceImages]);
        let item = Expected::Item;
        for (row, settings, before, expected) in [
            ("output", &now, output("DockerImage", old, there), item(output("DockerImage", new, here))),
            (
                "output to a stream",
                &now,
                output("ImageStreamTag", "web:1", there),
                item(output("ImageStreamTag", "web:1", here)),
            ),
            ("own secret", &now, output("DockerImage", "quay.io/a/b", "mine"), Expected::Same),
            (
                "source strategy",
                &now,
                strategy("sourceStrategy", old, there),
                item(strategy("sourceStrategy", new, here)),
            ),
            (
                "docker strategy",
                &now,
                strategy("dockerStrategy", old, there),
                item(strategy("dockerStrategy", new, here)),
            ),
            (
                "custom strategy",
                &now,
                strategy("customStrategy", old, there),
                item(strategy("customStrategy", new, here)),
            ),
            ("pipeline", &now, strategy("jenkinsPipelineStrategy", old, there), Expected::Same),
            ("source images", &now, source(old, there), item(source(new, here))),
            ("source images, old way", &keep_sources, source(old, there), Expected::Same),
            (
                "no secret to take",
                &now,
                output("DockerImage", old, "deployer-dockercfg-x"),
                Expected::Error("BuildConfig shop/web: secret not found"),
            ),
            (
                "no secret for source images, old way",
                &keep_sources,
                source(old, "deployer-dockercfg-x"),
                Expected::Error("secret not found"),
            ),
            ("nothing in it", &now, build(&json!({"output": {}, "strategy": {"dockerStrategy": {}}})), Expected::Same),
        ] {
            let restore_of = mapping(&json!({"shop": "store"}));
            let secrets = secrets();
            let outcome = run(&before, &restore_of, |input| restore(input, Some((&secrets, "store")), settings));
            check(row, &before, outcome, &expected);
        }
    }

    #[test]
    fn secrets_are_looked_for_where_the_build_is_restored() {
        let (item, restore_of) =
            (output("DockerImage", "x", "builder-dockercfg-x"), mapping(&json!({"shop": "store"})));
        assert_eq!(prefixes(&item), ["builder-dockercfg-"]);
        assert!(prefixes(&output("DockerImage", "x", "mine")).is_empty());
        let input = RestoreItemInput { item: &item, item_from_backup: &item, restore: &restore_of };
        for (settings, expected) in
            [(Settings::default(), "store"), (compat(&[Compat::SourceNamespaceSecrets]), "shop")]
        {
            assert_eq!(secrets_namespace(input, &settings), expected);
        }
    }
}
