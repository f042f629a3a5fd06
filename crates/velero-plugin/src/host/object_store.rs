//! Object stores that run in a plugin binary.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use velero_store::{ByteStream, Error, ObjectStore, Result};

use super::actions::client;
use super::call::{Failure, Remote};
use crate::wire::generated;
use crate::wire::generated::object_store_client::ObjectStoreClient;
use crate::wire::generated::{
    CreateSignedUrlRequest, ListCommonPrefixesRequest, ListObjectsRequest, ObjectRequest, PutObjectRequest,
};

/// The largest piece of an object in one message.
const PIECE: usize = 16 << 10;

/// One bucket behind a plugin. Its process is told the config whenever it starts.
pub(crate) struct RemoteObjectStore {
    pub(crate) remote: Remote,
    pub(crate) bucket: String,
}

impl RemoteObjectStore {
    fn object(&self, key: &str) -> ObjectRequest {
        ObjectRequest { plugin: self.remote.name.clone(), bucket: self.bucket.clone(), key: key.to_owned() }
    }

    fn piece(&self, key: &str, body: Bytes) -> PutObjectRequest {
        let (plugin, bucket) = (self.remote.name.clone(), self.bucket.clone());
        PutObjectRequest { plugin, bucket, key: key.to_owned(), body }
    }

    fn work(&self) -> Duration {
        self.remote.deadlines().work
    }

    /// The store's error for a failed call.
    fn failed(&self, action: &'static str, call: &'static str, key: &str, failure: Failure) -> Error {
        match failure {
            Failure::Answered(status) if status.code() == Code::NotFound => Error::NotFound { key: key.to_owned() },
            Failure::Answered(status) if status.code() == Code::Unimplemented && !status.message().is_empty() => {
                Error::NotSupported { what: call, reason: status.message().to_owned() }
            }
            failure => request_error(action, key, self.remote.explain(call, key, failure)),
        }
    }

    fn stalled(&self, action: &'static str, call: &'static str, key: &str) -> Error {
        let problem =
            format!("nothing moved for {:?}; the transfer was given up", self.remote.deadlines().transfer_stall);
        request_error(action, key, self.remote.error(call, key, problem))
    }

    /// Sends all pieces; an error of the content comes back with the open sender, since closing it would pass for the
    /// end of the object.
    async fn send(&self, key: &str, mut content: ByteStream, sender: mpsc::Sender<PutObjectRequest>) -> Sent {
        // One empty piece names an empty object.
        let mut any = false;
        while let Some(piece) = content.next().await {
            let mut rest = match piece {
                Ok(rest) => rest,
                Err(error) => return Sent::ContentFailed(sender, error),
            };
            while !rest.is_empty() || !any {
                any = true;
                let body = rest.split_to(rest.len().min(PIECE));
                match timeout(self.remote.deadlines().transfer_stall, sender.send(self.piece(key, body))).await {
                    Ok(Ok(())) => {}
                    // The plugin takes no more; its answer says why.
                    Ok(Err(_)) => return Sent::All,
                    Err(_) => return Sent::Stalled(sender),
                }
            }
        }
        if !any {
            let _ = sender.send(self.piece(key, Bytes::new())).await;
        }
        Sent::All
    }

    /// Says that an object is missing where a plugin only says that it cannot be read.
    async fn read_error(&self, key: &str, failure: Failure) -> Error {
        let error = self.failed("read", "GetObject", key, failure);
        match self.exists(key).await {
            Ok(false) => Error::NotFound { key: key.to_owned() },
            _ => error,
        }
    }
}

/// How sending the pieces of an object ended.
enum Sent {
    All,
    ContentFailed(mpsc::Sender<PutObjectRequest>, io::Error),
    Stalled(mpsc::Sender<PutObjectRequest>),
}

#[async_trait]
impl ObjectStore for RemoteObjectStore {
    async fn put_stream(&self, key: &str, content: ByteStream) -> Result<()> {
        let (sender, receiver) = mpsc::channel(4);
        let remote = &self.remote;
        // No deadline over the whole: how long an upload takes depends on its size. Sending watches each piece.
        let forever = Duration::MAX;
        let mut answer = Box::pin(remote.try_call("PutObject", key, forever, async |connection| {
            client!(ObjectStoreClient, connection).put_object(ReceiverStream::new(receiver)).await
        }));
        let failed = |failure| self.failed("write", "PutObject", key, failure);
        let sent = tokio::select! {
            early = &mut answer => return early.map(drop).map_err(failed),
            sent = self.send(key, content, sender) => sent,
        };
        match sent {
            Sent::All => match timeout(self.work(), answer).await {
                Ok(answer) => answer.map(drop).map_err(failed),
                Err(_) => Err(self.stalled("write", "PutObject", key)),
            },
            Sent::ContentFailed(sender, source) => {
                // In this order: the call is broken off before the stream of pieces could come to an end.
                drop(answer);
                drop(sender);
                Err(Error::Content { key: key.to_owned(), source })
            }
            Sent::Stalled(sender) => {
                drop(answer);
                drop(sender);
                Err(self.stalled("write", "PutObject", key))
            }
        }
    }

    async fn get_stream(&self, key: &str) -> Result<ByteStream> {
        let request = self.object(key);
        let call = async |connection| client!(ObjectStoreClient, connection).get_object(request).await;
        let mut pieces = match self.remote.try_call("GetObject", key, self.work(), call).await {
            Ok(pieces) => pieces,
            Err(failure) => return Err(self.read_error(key, failure).await),
        };
        // Only the first piece shows whether there is an object.
        let stall = self.remote.deadlines().transfer_stall;
        let first = match timeout(stall, pieces.message()).await {
            Ok(Ok(first)) => first,
            Ok(Err(status)) => return Err(self.read_error(key, Failure::Answered(status)).await),
            Err(_) => return Err(self.stalled("read", "GetObject", key)),
        };
        let Some(first) = first else {
            return Ok(stream::empty().boxed());
        };
        let rest = rest_of(pieces, stall, self.remote.clone());
        Ok(stream::once(async { Ok(first.data) }).chain(rest).boxed())
    }

    async fn exists(&self, key: &str) -> Result<bool> {
        let request = self.object(key);
        let call = async |connection| client!(ObjectStoreClient, connection).object_exists(request).await;
        let answer = self.remote.try_call("ObjectExists", key, self.work(), call).await;
        Ok(answer.map_err(|failure| self.failed("look up", "ObjectExists", key, failure))?.exists)
    }

    async fn list_common_prefixes(&self, folder: &str) -> Result<Vec<String>> {
        let (plugin, bucket) = (self.remote.name.clone(), self.bucket.clone());
        let (delimiter, prefix) = ("/".to_owned(), folder.to_owned());
        let request = ListCommonPrefixesRequest { plugin, bucket, delimiter, prefix };
        let call = async |connection| client!(ObjectStoreClient, connection).list_common_prefixes(request).await;
        let answer = self.remote.try_call("ListCommonPrefixes", folder, self.work(), call).await;
        let mut prefixes =
            answer.map_err(|failure| self.failed("list", "ListCommonPrefixes", folder, failure))?.prefixes;
        prefixes.sort();
        Ok(prefixes)
    }

    async fn list_objects(&self, folder: &str) -> Result<Vec<String>> {
        let (plugin, bucket) = (self.remote.name.clone(), self.bucket.clone());
        let request = ListObjectsRequest { plugin, bucket, prefix: folder.to_owned() };
        let call = async |connection| client!(ObjectStoreClient, connection).list_objects(request).await;
        let answer = self.remote.try_call("ListObjects", folder, self.work(), call).await;
        let mut keys = answer.map_err(|failure| self.failed("list", "ListObjects", folder, failure))?.keys;
        keys.sort();
        Ok(keys)
    }

    async fn delete_object(&self, key: &str) -> Result<()> {
        let request = self.object(key);
        let call = async |connection| client!(ObjectStoreClient, connection).delete_object(request).await;
        match self.remote.try_call("DeleteObject", key, self.work(), call).await {
            Ok(_) => Ok(()),
            Err(failure) => match self.failed("delete", "DeleteObject", key, failure) {
                error if error.is_not_found() => Ok(()),
                error => Err(error),
            },
        }
    }

    async fn signed_url(&self, key: &str, lifetime: Duration) -> Result<String> {
        let (plugin, bucket) = (self.remote.name.clone(), self.bucket.clone());
        let ttl = i64::try_from(lifetime.as_nanos()).unwrap_or(i64::MAX);
        let request = CreateSignedUrlRequest { plugin, bucket, key: key.to_owned(), ttl };
        let call = async |connection| client!(ObjectStoreClient, connection).create_signed_url(request).await;
        let answer = self.remote.try_call("CreateSignedURL", key, self.work(), call).await;
        Ok(answer.map_err(|failure| self.failed("sign a URL for", "CreateSignedURL", key, failure))?.url)
    }
}

/// The pieces that follow. They keep the plugin's process alive as long as somebody reads.
fn rest_of(pieces: Streaming<generated::Bytes>, stall: Duration, remote: Remote) -> ByteStream {
    let next = move |(mut pieces, remote): (Streaming<generated::Bytes>, Remote)| async move {
        match timeout(stall, pieces.message()).await {
            Ok(Ok(piece)) => Ok(piece.map(|piece| (piece.data, (pieces, remote)))),
            Ok(Err(status)) => Err(broken(&remote, &status)),
            Err(_) => Err(io::Error::other(format!("{} sent nothing for {stall:?}", remote.name))),
        }
    };
    stream::try_unfold((pieces, remote), next).boxed()
}

fn broken(remote: &Remote, status: &Status) -> io::Error {
    io::Error::other(format!("{} broke off: {}", remote.name, super::call::text_of(status)))
}

fn request_error(action: &'static str, key: &str, source: crate::Error) -> Error {
    Error::Request { action, key: key.to_owned(), source: Box::new(source) }
}
