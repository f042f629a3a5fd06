//! `velero web`: the page of the server on this machine, through the API server. No ingress is needed, and what goes over the
//! wire is encrypted.

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use tokio::net::{TcpListener, TcpStream};
use velero_api::metadata;

use crate::arguments::WebArguments;
use crate::install::network::WEB_PORT_NAME;
use crate::session::{Session, api_error};

/// What the pods of servers are marked with, by the command and by the chart.
const SELECTORS: [&str; 2] = ["deploy=velero", "name=velero"];

/// Opens the page until the command is ended.
pub(crate) async fn web(session: &Session, arguments: &WebArguments) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(session.cluster.client().clone(), session.namespace());
    let Found { pod, port, scheme } = find(&api, session.namespace()).await?;
    let listener = TcpListener::bind(("127.0.0.1", arguments.port)).await;
    let listener = listener
        .with_context(|| format!("cannot listen on port {}; choose another one with --port", arguments.port))?;
    let address = listener.local_addr()?;
    session.printer.line(format_args!("The page is at {scheme}://{address} until you press ctrl-c."))?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (api, pod, printer) = (api.clone(), pod.clone(), session.printer);
        tokio::spawn(async move {
            if let Err(error) = forward(&api, &pod, port, stream).await {
                printer.note(format_args!("warning: a connection to pod {pod} ended: {error:#}"));
            }
        });
    }
}

/// A pod that serves the page.
struct Found {
    pod: String,
    port: u16,
    scheme: &'static str,
}

async fn find(api: &Api<Pod>, namespace: &str) -> Result<Found> {
    let mut servers = 0;
    for selector in SELECTORS {
        let pods = api.list(&ListParams::default().labels(selector)).await.map_err(api_error)?;
        servers += pods.items.len();
        let mut ready = pods.items.iter().filter(|pod| is_ready(pod));
        let found =
            |pod: &Pod| Some(Found { pod: metadata::name(pod).to_owned(), port: web_port(pod)?, scheme: scheme(pod) });
        if let Some(found) = ready.find_map(found) {
            return Ok(found);
        }
    }
    match servers {
        0 => bail!("no server runs in namespace {namespace:?}; name another one with --namespace"),
        _ => bail!(
            "no server in namespace {namespace:?} is ready and serves the page; `velero install --web` switches it on, in the \
             chart configuration.webAddress"
        ),
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"))
}

/// The port of a pod that the page is on.
fn web_port(pod: &Pod) -> Option<u16> {
    let mut ports =
        pod.spec.iter().flat_map(|spec| &spec.containers).filter_map(|container| container.ports.as_ref()).flatten();
    ports.find(|port| port.name.as_deref() == Some(WEB_PORT_NAME))?.container_port.try_into().ok()
}

/// How the page is spoken to: as the flags of the server say.
fn scheme(pod: &Pod) -> &'static str {
    let mut flags = pod
        .spec
        .iter()
        .flat_map(|spec| &spec.containers)
        .flat_map(|container| container.args.iter().flatten().chain(container.command.iter().flatten()));
    if flags.any(|flag| flag.starts_with("--web-tls-cert")) { "https" } else { "http" }
}

async fn forward(api: &Api<Pod>, pod: &str, port: u16, mut stream: TcpStream) -> Result<()> {
    let mut forwarder = api.portforward(pod, &[port]).await.map_err(api_error)?;
    let mut upstream = forwarder.take_stream(port).context("the API server gave no stream for the port")?;
    // A browser that closes its connection is no trouble.
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut upstream).await;
    drop(upstream);
    forwarder.abort();
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_page_is_where_a_port_is_called_so() {
        let pod = |ports: serde_json::Value| -> Pod {
            serde_json::from_value(json!({
                "spec": {"containers": [{"name": "velero", "ports": ports}]},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }))
            .unwrap()
        };
        assert_eq!(scheme(&pod(json!([]))), "http");
        let mut encrypted = pod(json!([]));
        encrypted.spec.as_mut().unwrap().containers[0].args = Some(vec!["--web-tls-cert=/web-tls/tls.crt".to_owned()]);
        assert_eq!(scheme(&encrypted), "https");
        let metrics = json!({"name": "metrics", "containerPort": 8085});
        assert_eq!(web_port(&pod(json!([metrics]))), None);
        let both = pod(json!([metrics, {"name": "web", "containerPort": 9086}]));
        assert_eq!((web_port(&both), is_ready(&both), is_ready(&Pod::default())), (Some(9086), true, false));
    }
}
