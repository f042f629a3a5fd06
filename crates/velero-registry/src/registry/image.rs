//! The requests about one image: its manifests and its blobs.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, RANGE};
use reqwest::{Body, Response, StatusCode, Url};

use super::{ANSWER_TIMEOUT, Registry};
use crate::manifest::{ACCEPTED, Blob, Manifest};
use crate::{Digest, Problem, Reference};

/// The most a manifest may weigh: what registries accept.
const LARGEST_MANIFEST: usize = 4 << 20;

/// An image in a registry; see [`Registry::image`].
#[derive(Clone)]
pub struct Image {
    registry: Registry,
    reference: Reference,
    /// What a token must allow.
    scope: String,
}

/// The beginning of an upload.
pub(crate) enum Upload {
    /// The registry had the blob in another repository.
    Mounted,
    /// Where the blob must be sent.
    To(Url),
}

impl Image {
    pub(super) fn new(registry: Registry, reference: Reference) -> Self {
        let scope = format!("repository:{}:pull", reference.repository());
        Self { registry, reference, scope }
    }

    /// The image's name.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// The image's registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The same image, to be written.
    pub(crate) fn for_writing(&self) -> Self {
        Self { scope: format!("repository:{}:pull,push", self.reference.repository()), ..self.clone() }
    }

    /// Reads a manifest by tag or digest. What is asked for by digest has that digest.
    pub(crate) async fn manifest(&self, version: &str) -> Result<Manifest, Problem> {
        let what = format!("the manifest {}:{version}", self.reference.repository());
        let action = format!("read {what}");
        let url = self.url(&format!("manifests/{version}")).await?;
        let accept = ACCEPTED.join(", ");
        let request = |client: &reqwest::Client| client.get(url.clone()).header(ACCEPT, &accept);
        let response = self.registry.send(&self.scope, &action, request).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Err(Problem::NotFound { registry: self.registry.host().to_owned(), what });
        }
        let response = self.expect(StatusCode::OK, &action, response).await?;
        let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let bytes = self.registry.in_time(ANSWER_TIMEOUT, &action, self.small_body(&action, response)).await?;
        if let Ok(expected) = version.parse::<Digest>() {
            self.check(&what, &expected, &Digest::of(&bytes))?;
        }
        Manifest::read(bytes, media_type.as_deref())
    }

    /// Writes a manifest under a tag or its digest.
    pub(crate) async fn put_manifest(&self, version: &str, manifest: &Manifest) -> Result<(), Problem> {
        let action = format!("write the manifest {}:{version}", self.reference.repository());
        let url = self.url(&format!("manifests/{version}")).await?;
        let request = |client: &reqwest::Client| {
            client.put(url.clone()).header(CONTENT_TYPE, &manifest.media_type).body(manifest.bytes.clone())
        };
        let response = self.registry.send(&self.scope, &action, request).await?;
        if response.status().is_success() {
            return Ok(());
        }
        Err(self.registry.problem(&action, response).await)
    }

    /// Whether the repository has the blob.
    pub(crate) async fn has_blob(&self, blob: &Blob) -> Result<bool, Problem> {
        let action = format!("look for blob {}", blob.digest);
        let url = self.url(&format!("blobs/{}", blob.digest)).await?;
        let response = self.registry.send(&self.scope, &action, |client| client.head(url.clone())).await?;
        match response.status() {
            StatusCode::OK => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            _ => Err(self.registry.problem(&action, response).await),
        }
    }

    /// Begins to read a blob at an offset; the answer may begin at its start all the same.
    pub(crate) async fn blob(&self, blob: &Blob, offset: u64) -> Result<Response, Problem> {
        let action = format!("read blob {}", blob.digest);
        let url = self.url(&format!("blobs/{}", blob.digest)).await?;
        let request = |client: &reqwest::Client| {
            let request = client.get(url.clone());
            if offset == 0 { request } else { request.header(RANGE, format!("bytes={offset}-")) }
        };
        let response = self.registry.send(&self.scope, &action, request).await?;
        match response.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(response),
            StatusCode::NOT_FOUND => {
                let what = format!("blob {} of {}", blob.digest, self.reference.repository());
                Err(Problem::NotFound { registry: self.registry.host().to_owned(), what })
            }
            _ => Err(self.registry.problem(&action, response).await),
        }
    }

    /// Begins to write a blob, which may be found in the repository `mounted` of the same registry.
    pub(crate) async fn begin_upload(&self, blob: &Blob, mounted: Option<&Self>) -> Result<Upload, Problem> {
        let action = format!("take blob {}", blob.digest);
        let (mut url, mut scope) = (self.url("blobs/uploads/").await?, self.scope.clone());
        if let Some(source) = mounted {
            scope = format!("{scope} {}", source.scope);
            let pairs = [("mount", blob.digest.as_str()), ("from", source.reference.repository())];
            url.query_pairs_mut().extend_pairs(pairs);
        }
        let request = |client: &reqwest::Client| client.post(url.clone()).header(CONTENT_LENGTH, 0);
        let response = self.registry.send(&scope, &action, request).await?;
        if mounted.is_some() && response.status() == StatusCode::CREATED {
            return Ok(Upload::Mounted);
        }
        let response = self.expect(StatusCode::ACCEPTED, &action, response).await?;
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        self.registry.follow(response.url(), location).map(Upload::To)
    }

    /// Sends a blob to where [`Self::begin_upload`] said.
    pub(crate) async fn upload(&self, mut url: Url, blob: &Blob, body: Body) -> Result<(), Problem> {
        let action = format!("take blob {}", blob.digest);
        url.query_pairs_mut().append_pair("digest", blob.digest.as_str());
        let request = |client: &reqwest::Client, url| {
            let request = client.put(url).header(CONTENT_TYPE, "application/octet-stream");
            request.header(CONTENT_LENGTH, blob.size).body(body)
        };
        let response = self.registry.send_once(&self.scope, &action, url, request).await?;
        match response.status() {
            status if status.is_success() => Ok(()),
            // It allowed the upload to begin, so the token has run out since; the next attempt has a new one.
            StatusCode::UNAUTHORIZED => Err(Problem::Interrupted {
                registry: self.registry.host().to_owned(),
                action,
                reason: "the token ran out".into(),
            }),
            _ => Err(self.registry.problem(&action, response).await),
        }
    }

    /// Fails where bytes that should have one digest have another.
    pub(crate) fn check(&self, what: &str, expected: &Digest, found: &Digest) -> Result<(), Problem> {
        if expected == found {
            return Ok(());
        }
        Err(self.damaged(what, format!("its digest is {found} instead of {expected}")))
    }

    pub(crate) fn damaged(&self, what: &str, reason: String) -> Problem {
        Problem::Damaged { registry: self.registry.host().to_owned(), what: what.to_owned(), reason }
    }

    /// The next piece of an answer's body; `None` at its end.
    pub(crate) async fn chunk(
        &self,
        limit: Duration,
        action: &str,
        response: &mut Response,
    ) -> Result<Option<Bytes>, Problem> {
        let next =
            async { response.chunk().await.map_err(|error| Problem::of_request(self.registry.host(), action, &error)) };
        self.registry.in_time(limit, action, next).await
    }

    async fn small_body(&self, action: &str, mut response: Response) -> Result<Bytes, Problem> {
        let mut body = BytesMut::new();
        while let Some(chunk) = self.chunk(ANSWER_TIMEOUT, action, &mut response).await? {
            if body.len() + chunk.len() > LARGEST_MANIFEST {
                let reason = format!("its manifest is larger than {} MiB", LARGEST_MANIFEST >> 20);
                return Err(Problem::Unsupported { reason });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    async fn expect(&self, status: StatusCode, action: &str, response: Response) -> Result<Response, Problem> {
        if response.status() == status { Ok(response) } else { Err(self.registry.problem(action, response).await) }
    }

    async fn url(&self, path: &str) -> Result<Url, Problem> {
        self.registry.url(&format!("{}/{path}", self.reference.repository())).await
    }
}
