use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::super::wire::PartialSuccess;
use super::*;

fn span(name: &str) -> Span {
    Span { name: name.to_owned(), ..Span::default() }
}

fn endpoint(listener: &TcpListener) -> Endpoint {
    let address = format!("http://{}", listener.local_addr().unwrap());
    Endpoint::new(Endpoint::read(&address).unwrap().unwrap(), "api-key=MARKED").unwrap()
}

type Answer = (StatusCode, Vec<u8>);

/// What came, and what is answered to it.
#[derive(Clone, Default)]
struct Collector {
    came: Arc<Mutex<Vec<String>>>,
    answers: Arc<Mutex<Vec<Answer>>>,
}

async fn take(State(collector): State<Collector>, body: Bytes) -> Answer {
    let request = Request::decode(body).unwrap();
    let spans = request.resource_spans.iter().flat_map(|spans| &spans.scope_spans).flat_map(|spans| &spans.spans);
    collector.came.lock().unwrap().extend(spans.map(|span| span.name.clone()));
    collector.answers.lock().unwrap().pop().unwrap_or((StatusCode::OK, Vec::new()))
}

#[tokio::test]
async fn a_batch_that_was_not_taken_just_then_is_sent_again_and_the_rest_when_all_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&listener);
    let collector = Collector::default();
    let partial = PartialSuccess { rejected_spans: 1, error_message: "too large".to_owned() };
    let answer = Response { partial_success: Some(partial) }.encode_to_vec();
    *collector.answers.lock().unwrap() = vec![(StatusCode::OK, answer), (StatusCode::SERVICE_UNAVAILABLE, Vec::new())];
    let router = Router::new().route("/v1/traces", post(take)).with_state(collector.clone());
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    let (sender, receiver) = mpsc::channel(10);
    let counts: &'static Counts = Box::leak(Box::new(Counts::new()));
    let delivery = Delivery::start(endpoint, "v1", receiver, counts).unwrap();
    for name in ["plan", "items"] {
        sender.try_send(span(name)).unwrap();
    }
    tokio::time::timeout(Duration::from_secs(60), async {
        while counts.of(Fate::Sent) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
    sender.try_send(span("last")).unwrap();
    delivery.close().await;
    assert_eq!(*collector.came.lock().unwrap(), ["plan", "items", "plan", "items", "last"]);
    assert_eq!((counts.of(Fate::Sent), counts.of(Fate::Lost)), (2, 1), "one of the first two was refused");
    serving.abort();
}

#[tokio::test]
async fn a_collector_that_hangs_keeps_nobody_who_ends() {
    // It listens, and answers nobody.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (sender, receiver) = mpsc::channel(10);
    let delivery = Delivery::start(endpoint(&listener), "v1", receiver, Box::leak(Box::new(Counts::new()))).unwrap();
    sender.try_send(span("plan")).unwrap();
    tokio::time::timeout(Duration::from_secs(60), delivery.close()).await.unwrap();
}
