//! What the stand-in asks of the registry: to forget images. The registry of OpenShift serves only what is in a stream; a
//! plain one keeps what was pushed, and a restore would find there what it is to bring.

use reqwest::Client;

use crate::streams::Image;

/// The internal registry.
#[derive(Clone)]
pub(crate) struct Registry {
    pub(crate) host: String,
    pub(crate) user: String,
    pub(crate) password: String,
    client: Client,
}

impl Registry {
    pub(crate) fn new(host: &str, user: &str, password: &str) -> Self {
        Self { host: host.to_owned(), user: user.to_owned(), password: password.to_owned(), client: Client::new() }
    }

    /// Removes manifests, and with them the tags that name them. Those that are not there are fine.
    pub(crate) async fn forget(&self, images: &[Image]) {
        for Image { repository, digest } in images {
            let url = format!("http://{}/v2/{repository}/manifests/{digest}", self.host);
            if let Err(error) = self.client.delete(&url).basic_auth(&self.user, Some(&self.password)).send().await {
                eprintln!("DELETE {url}: {error}");
            }
        }
    }
}
