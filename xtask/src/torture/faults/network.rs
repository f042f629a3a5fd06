//! What becomes of requests on their way through a proxy, while a fault lasts.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::json;
use velero_testkit::faulty_proxy::{Action, Request, Rule, answer};

use super::Fault;

/// How many lists of the store are kept to be given again.
const MOST_LISTS: usize = 200;
/// The head of an answer of the store is not longer: bytes behind it are content.
const LONGEST_HEAD: usize = 900;

/// The faults that are under way on one network, and how many of a hundred requests each meets.
#[derive(Clone)]
pub(in crate::torture) struct Weather(Arc<Mutex<State>>);

struct State {
    random: Rng,
    under_way: BTreeMap<Fault, u8>,
    cut_before: Option<Instant>,
    lists: HashMap<String, Arc<Vec<u8>>>,
}

impl Weather {
    pub(in crate::torture) fn new(random: Rng) -> Self {
        let (under_way, lists) = (BTreeMap::new(), HashMap::new());
        Self(Arc::new(Mutex::new(State { random, under_way, cut_before: None, lists })))
    }

    pub(super) fn begin(&self, fault: Fault) {
        let mut state = self.state();
        if fault == Fault::CutConnections {
            state.cut_before = Some(Instant::now());
            return;
        }
        let share = [15, 40, 70, 100][state.random.usize(0..4)];
        state.under_way.insert(fault, share);
    }

    pub(super) fn end(&self, fault: Fault) {
        self.state().under_way.remove(&fault);
    }

    /// Ends all faults.
    pub(in crate::torture) fn clear(&self) {
        let mut state = self.state();
        state.under_way.clear();
        state.cut_before = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the first fault does that meets this request.
    fn action(&self, does: impl Fn(Fault, &mut State) -> Option<Action>) -> Action {
        let mut state = self.state();
        let under_way: Vec<(Fault, u8)> = state.under_way.iter().map(|(fault, share)| (*fault, *share)).collect();
        for (fault, share) in under_way {
            if state.random.u8(0..100) >= share {
                continue;
            }
            if let Some(action) = does(fault, &mut state) {
                return action;
            }
        }
        Action::Forward
    }
}

/// Faults on the way to the API server.
pub(in crate::torture) struct ApiWeather(pub(in crate::torture) Weather);

impl Rule for ApiWeather {
    fn action(&self, request: &Request) -> Action {
        let is_write = request.method != "GET";
        let can_expire = request.path.contains("continue=") || request.path.contains("watch=");
        self.0.action(|fault, state| match fault {
            Fault::LostAnswers if is_write => Some(Action::CutAnswer(0)),
            Fault::TooManyRequests => Some(status("429 Too Many Requests\r\nRetry-After: 1", "TooManyRequests", 429)),
            Fault::ApiErrors if state.random.bool() => Some(status("500 Internal Server Error", "InternalError", 500)),
            Fault::ApiErrors => Some(status("503 Service Unavailable", "ServiceUnavailable", 503)),
            Fault::Expired if can_expire => Some(status("410 Gone", "Expired", 410)),
            Fault::SlowApi => Some(Action::Delay(Duration::from_millis(state.random.u64(100..2_500)))),
            _ => None,
        })
    }

    fn cuts(&self, opened: Instant) -> bool {
        self.0.state().cut_before.is_some_and(|moment| opened < moment)
    }
}

fn status(line: &str, reason: &str, code: u16) -> Action {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "a fault of the torture", "reason": reason, "code": code,
    });
    answer(line, "application/json", &body.to_string())
}

/// Faults on the way to the store.
pub(in crate::torture) struct StoreWeather(pub(in crate::torture) Weather);

impl Rule for StoreWeather {
    fn action(&self, request: &Request) -> Action {
        let is_write = request.method != "GET" && request.method != "HEAD";
        let (is_get, is_list, is_upload) = (request.method == "GET", is_list(request), request.is_upload());
        self.0.action(|fault, state| match fault {
            Fault::StoreErrors if state.random.bool() => Some(refusal("500 Internal Server Error", "InternalError")),
            Fault::StoreErrors => Some(refusal("503 Slow Down", "SlowDown")),
            Fault::StoreLostAnswers if is_write => Some(Action::CutAnswer(0)),
            Fault::SlowStore => Some(Action::Delay(Duration::from_millis(state.random.u64(100..3_000)))),
            Fault::TruncatedStore if is_upload => Some(Action::Cut(state.random.usize(0..request.length))),
            Fault::TruncatedStore if is_get => Some(Action::CutAnswer(state.random.usize(0..4_000))),
            Fault::DamagedStore if is_upload => Some(Action::Flip(state.random.usize(0..request.length))),
            Fault::DamagedStore if is_get && is_checked(&request.path) => {
                Some(Action::FlipAnswer(LONGEST_HEAD + state.random.usize(0..4_000)))
            }
            Fault::StaleListings if is_list => state.lists.get(&request.path).cloned().map(Action::Answer),
            Fault::FullStore if is_upload => Some(refusal("507 Insufficient Storage", "XMinioStorageFull")),
            Fault::StoreClock => Some(refusal("403 Forbidden", "RequestTimeTooSkewed")),
            _ => None,
        })
    }

    fn wants_answer(&self, request: &Request) -> bool {
        is_list(request) && !self.0.state().under_way.contains_key(&Fault::StaleListings)
    }

    fn answered(&self, path: &str, answer: Vec<u8>) {
        let mut state = self.0.state();
        if !answer.starts_with(b"HTTP/1.1 200") {
            return;
        }
        // What is listed often is soon there again; lists of backups that are gone never are.
        if state.lists.len() >= MOST_LISTS && !state.lists.contains_key(path) {
            state.lists.clear();
        }
        state.lists.insert(path.to_owned(), Arc::new(answer));
    }
}

fn is_list(request: &Request) -> bool {
    request.method == "GET" && request.path.contains("list-type=2")
}

/// What carries a checksum of its own, so that whoever reads it can know that it is damaged.
fn is_checked(path: &str) -> bool {
    path.ends_with(".gz") || path.contains("/kopia/")
}

fn refusal(line: &str, code: &str) -> Action {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>a fault of the torture</Message></Error>"
    );
    answer(line, "application/xml", &body)
}
