//! HTTP to a pod or a service through the API server.

use bytes::Bytes;
use futures::{Stream, stream};
use http::Request;

use crate::connect::Cluster;
use crate::error::{Error, Result};
use crate::request::next_piece;
use crate::resource_type::path_segment;

/// A port of a pod or of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyTarget {
    /// A pod and a port number.
    Pod {
        /// Namespace of the pod.
        namespace: String,
        /// Name of the pod.
        name: String,
        /// Port number.
        port: u16,
    },
    /// A service and a port number or name.
    Service {
        /// Namespace of the service.
        namespace: String,
        /// Name of the service.
        name: String,
        /// Port number or name.
        port: String,
    },
}

impl ProxyTarget {
    fn root(&self) -> Result<String> {
        let (namespace, plural, endpoint) = match self {
            Self::Pod { namespace, name, port } => (namespace, "pods", format!("{name}:{port}")),
            Self::Service { namespace, name, port } => (namespace, "services", format!("{name}:{port}")),
        };
        let (namespace, endpoint) = (path_segment(namespace)?, path_segment(&endpoint)?);
        Ok(format!("/api/v1/namespaces/{namespace}/{plural}/{endpoint}/proxy"))
    }
}

impl Cluster {
    /// Sends a GET to a pod or a service through the API server and gives the answer piece by piece. `path` starts
    /// with a slash and may hold a query. An answer that is not a success is an error.
    pub async fn proxy_get(
        &self,
        target: &ProxyTarget,
        path: &str,
    ) -> Result<impl Stream<Item = Result<Bytes>> + Send + use<>> {
        let url = format!("{}{path}", target.root()?);
        let action = format!("get {url}");
        let request = Request::get(url)
            .body(Vec::new())
            .map_err(|error| Error::BadRequest { action: action.clone(), message: error.to_string() })?;
        let body = self.send(&action, request).await?.into_body();
        Ok(stream::try_unfold((action, body), |(action, mut body)| async move {
            let piece = next_piece(&action, &mut body).await?;
            Ok(piece.map(|piece| (piece, (action, body))))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_through_the_proxy_subresource() {
        let pod = ProxyTarget::Pod { namespace: "velero".to_owned(), name: "server".to_owned(), port: 8085 };
        assert_eq!(pod.root().unwrap(), "/api/v1/namespaces/velero/pods/server:8085/proxy");
        let service =
            ProxyTarget::Service { namespace: "a/b".to_owned(), name: "web".to_owned(), port: "http".to_owned() };
        assert_eq!(service.root().unwrap(), "/api/v1/namespaces/a%2Fb/services/web:http/proxy");
    }
}
