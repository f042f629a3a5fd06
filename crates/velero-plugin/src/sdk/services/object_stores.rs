//! Object stores.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::Mutex;
use tonic::{Code, Request, Response, Status, Streaming};
use velero_store::{ByteStream, Error as StoreError, ObjectStoreHandle};

use super::find;
use crate::PluginKind;
use crate::sdk::guard::answer_status;
use crate::sdk::plugins::Plugins;
use crate::wire::generated::object_store_server::ObjectStore as ObjectStoreService;
use crate::wire::generated::{
    self, CreateSignedUrlRequest, CreateSignedUrlResponse, Empty, InitRequest, ListCommonPrefixesRequest,
    ListCommonPrefixesResponse, ListObjectsRequest, ListObjectsResponse, ObjectExistsResponse, ObjectRequest,
    PutObjectRequest,
};
use crate::wire::to_status;

type Answer<T> = Result<Response<T>, Status>;

/// The largest piece of an object in one message.
const PIECE: usize = 16 << 10;

/// The object stores of this process.
pub(crate) struct ObjectStores {
    plugins: Arc<Plugins>,
    opened: Mutex<HashMap<String, Opened>>,
}

/// What a store was told, and the buckets opened with it.
#[derive(Default)]
struct Opened {
    config: BTreeMap<String, String>,
    buckets: HashMap<String, ObjectStoreHandle>,
}

impl ObjectStores {
    pub(crate) fn new(plugins: Arc<Plugins>) -> Self {
        Self { plugins, opened: Mutex::default() }
    }

    async fn open(&self, plugin: &str, bucket: &str) -> Result<ObjectStoreHandle, Status> {
        let provider = find(&self.plugins.object_stores, PluginKind::ObjectStore, plugin).map_err(|e| to_status(&e))?;
        let mut opened = self.opened.lock().await;
        let opened = opened.entry(plugin.to_owned()).or_default();
        if let Some(store) = opened.buckets.get(bucket) {
            return Ok(Arc::clone(store));
        }
        let store = provider.open(bucket, &opened.config).await.map_err(|error| to_status(&error))?;
        opened.buckets.insert(bucket.to_owned(), Arc::clone(&store));
        Ok(store)
    }
}

/// The status of a store's error. The two codes are ours alone; other hosts see the text.
fn refused(error: &StoreError) -> Status {
    let code = match error {
        StoreError::NotFound { .. } => Code::NotFound,
        StoreError::NotSupported { .. } => Code::Unimplemented,
        _ => Code::Unknown,
    };
    Status::new(code, error.to_string())
}

#[tonic::async_trait]
impl ObjectStoreService for ObjectStores {
    type GetObjectStream = BoxStream<'static, Result<generated::Bytes, Status>>;

    async fn init(&self, request: Request<InitRequest>) -> Answer<Empty> {
        answer_status(async {
            let InitRequest { plugin, config } = request.into_inner();
            let bucket = config.get("bucket").cloned();
            let opened = Opened { config: config.into_iter().collect(), buckets: HashMap::new() };
            self.opened.lock().await.insert(plugin.clone(), opened);
            // A config that is wrong is better refused now than with the first object.
            if let Some(bucket) = bucket {
                self.open(&plugin, &bucket).await?;
            }
            Ok(Empty {})
        })
        .await
    }

    async fn put_object(&self, request: Request<Streaming<PutObjectRequest>>) -> Answer<Empty> {
        answer_status(async {
            let mut pieces = request.into_inner();
            let empty = || Status::invalid_argument("an upload without a first piece");
            let first = pieces.message().await?.ok_or_else(empty)?;
            let store = self.open(&first.plugin, &first.bucket).await?;
            let outcome = store.put_stream(&first.key, content(first.body, pieces)).await;
            outcome.map(|()| Empty {}).map_err(|error| refused(&error))
        })
        .await
    }

    async fn object_exists(&self, request: Request<ObjectRequest>) -> Answer<ObjectExistsResponse> {
        answer_status(async {
            let request = request.into_inner();
            let store = self.open(&request.plugin, &request.bucket).await?;
            let exists = store.exists(&request.key).await.map_err(|error| refused(&error))?;
            Ok(ObjectExistsResponse { exists })
        })
        .await
    }

    async fn get_object(&self, request: Request<ObjectRequest>) -> Answer<Self::GetObjectStream> {
        answer_status(async {
            let request = request.into_inner();
            let store = self.open(&request.plugin, &request.bucket).await?;
            let content = store.get_stream(&request.key).await.map_err(|error| refused(&error))?;
            Ok(content.flat_map(pieces).boxed())
        })
        .await
    }

    async fn list_common_prefixes(
        &self,
        request: Request<ListCommonPrefixesRequest>,
    ) -> Answer<ListCommonPrefixesResponse> {
        answer_status(async {
            let request = request.into_inner();
            if request.delimiter != "/" {
                return Err(Status::invalid_argument(format!("delimiter {:?} is not '/'", request.delimiter)));
            }
            let store = self.open(&request.plugin, &request.bucket).await?;
            let prefixes = store.list_common_prefixes(&request.prefix).await.map_err(|error| refused(&error))?;
            Ok(ListCommonPrefixesResponse { prefixes })
        })
        .await
    }

    async fn list_objects(&self, request: Request<ListObjectsRequest>) -> Answer<ListObjectsResponse> {
        answer_status(async {
            let request = request.into_inner();
            let store = self.open(&request.plugin, &request.bucket).await?;
            let keys = store.list_objects(&request.prefix).await.map_err(|error| refused(&error))?;
            Ok(ListObjectsResponse { keys })
        })
        .await
    }

    async fn delete_object(&self, request: Request<ObjectRequest>) -> Answer<Empty> {
        answer_status(async {
            let request = request.into_inner();
            let store = self.open(&request.plugin, &request.bucket).await?;
            store.delete_object(&request.key).await.map(|()| Empty {}).map_err(|error| refused(&error))
        })
        .await
    }

    async fn create_signed_url(&self, request: Request<CreateSignedUrlRequest>) -> Answer<CreateSignedUrlResponse> {
        answer_status(async {
            let request = request.into_inner();
            let store = self.open(&request.plugin, &request.bucket).await?;
            let lifetime = Duration::from_nanos(request.ttl.try_into().unwrap_or_default());
            let url = store.signed_url(&request.key, lifetime).await.map_err(|error| refused(&error))?;
            Ok(CreateSignedUrlResponse { url })
        })
        .await
    }
}

/// The bytes of an upload.
fn content(first: Bytes, pieces: Streaming<PutObjectRequest>) -> ByteStream {
    let rest = stream::try_unfold(pieces, |mut pieces| async move {
        let next = pieces.message().await.map_err(|status| io::Error::other(status.message().to_owned()))?;
        if next.is_none() {
            // An upload that was broken off looks like one that has ended. Whoever drives this call looks for a
            // break before it goes on, and then drops it: give it the chance.
            tokio::task::yield_now().await;
        }
        Ok(next.map(|piece| (piece.body, pieces)))
    });
    stream::once(async { Ok(first) }).chain(rest).boxed()
}

/// One chunk of content as messages.
fn pieces(chunk: io::Result<Bytes>) -> BoxStream<'static, Result<generated::Bytes, Status>> {
    match chunk {
        Ok(chunk) => {
            let next = |mut rest: Bytes| async move {
                let data = rest.split_to(rest.len().min(PIECE));
                (!data.is_empty()).then_some((Ok(generated::Bytes { data }), rest))
            };
            stream::unfold(chunk, next).boxed()
        }
        Err(error) => stream::once(async move { Err(Status::unknown(error.to_string())) }).boxed(),
    }
}
