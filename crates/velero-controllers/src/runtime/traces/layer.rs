//! Stages that have ended, into the queue.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;
use velero_engine::stage;

use super::counts::{Counts, Fate};
use super::identity::{Whole, new_span};
use super::wire::{KeyValue, Span, SpanKind, Status, StatusCode, Value};

/// How many parts of stages a backup or restore may tell in one go; stages themselves are few.
const MOST_DETAILS: usize = 1000;

/// The longest text that an attribute may have, in bytes.
const LONGEST_TEXT: usize = 256;

/// Takes stages that have ended. What the queue does not take is lost.
pub(crate) struct TraceLayer {
    queue: mpsc::Sender<Span>,
    counts: &'static Counts,
}

/// What is known of a stage that goes on.
struct Open {
    /// Where further stages belong.
    place: Place,
    /// What is told at its end; nothing of what only says where others belong, or is left out.
    span: Option<Span>,
}

/// A span, and how many details its backup or restore has told.
#[derive(Clone)]
struct Place {
    whole: Whole,
    details: Arc<AtomicUsize>,
}

impl TraceLayer {
    pub(super) fn new(queue: mpsc::Sender<Span>, counts: &'static Counts) -> Self {
        Self { queue, counts }
    }

    /// A stage inside another.
    fn below(&self, around: &Place, told: &Told, name: &str, level: Level) -> Open {
        let is_detail = level > Level::INFO;
        if is_detail && around.details.fetch_add(1, Ordering::Relaxed) >= MOST_DETAILS {
            self.counts.add(Fate::LeftOut, 1);
            // What is inside of it belongs to who is around it.
            return Open { place: around.clone(), span: None };
        }
        let whole = Whole { trace: around.whole.trace, span: new_span() };
        let span = told.span(name, whole, Some(around.whole));
        Open { place: Place { whole, details: Arc::clone(&around.details) }, span: Some(span) }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TraceLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let metadata = attributes.metadata();
        let Some(span) = context.span(id).filter(|_| metadata.target() == stage::TARGET) else { return };
        let mut told = Told::default();
        attributes.record(&mut told);
        let around = || span.scope().skip(1).find_map(|around| Some(around.extensions().get::<Open>()?.place.clone()));
        let open = match (Whole::of(&told.object), Whole::of(&told.root)) {
            (Some(whole), _) => Some(Open { place: Place { whole, details: Arc::default() }, span: None }),
            (None, Some(whole)) => {
                let span = told.span(metadata.name(), whole, None);
                Some(Open { place: Place { whole, details: Arc::default() }, span: Some(span) })
            }
            (None, None) => around().map(|around| self.below(&around, &told, metadata.name(), *metadata.level())),
        };
        if let Some(open) = open {
            span.extensions_mut().insert(open);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(span) = extensions.get_mut::<Open>().and_then(|open| open.span.as_mut()) else { return };
        let mut told = Told::default();
        values.record(&mut told);
        told.complete(span);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(Open { span: Some(mut span), .. }) = span.extensions_mut().remove::<Open>() else { return };
        if span.end_time_unix_nano == 0 {
            span.end_time_unix_nano = stage::now();
        }
        // A full queue is no reason to wait.
        if self.queue.try_send(span).is_err() {
            self.counts.add(Fate::Lost, 1);
        }
    }
}

/// What the fields of a stage tell.
#[derive(Default)]
struct Told {
    /// The UID of the object whose stages are inside.
    object: String,
    /// The UID of the object that is told as a whole.
    root: String,
    name: Option<String>,
    started: Option<u64>,
    ended: Option<u64>,
    failed: Option<bool>,
    attributes: Vec<KeyValue>,
}

impl Told {
    fn span(&self, name: &str, whole: Whole, around: Option<Whole>) -> Span {
        let mut span = Span {
            trace_id: whole.trace.to_vec(),
            span_id: whole.span.to_vec(),
            parent_span_id: around.map(|around| around.span.to_vec()).unwrap_or_default(),
            name: name.to_owned(),
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: stage::now(),
            end_time_unix_nano: 0,
            attributes: Vec::new(),
            status: None,
        };
        self.complete(&mut span);
        span
    }

    /// Adds what is told to a span.
    fn complete(&self, span: &mut Span) {
        if let Some(name) = &self.name {
            span.name.clone_from(name);
        }
        if let Some(started) = self.started {
            span.start_time_unix_nano = started;
        }
        if let Some(ended) = self.ended {
            span.end_time_unix_nano = ended.max(span.start_time_unix_nano);
        }
        if self.failed == Some(true) {
            span.status = Some(Status { code: StatusCode::Error.into() });
        }
        span.attributes.extend(self.attributes.iter().cloned());
    }

    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("trace.object", Value::Text(uid)) => self.object = uid,
            ("trace.root", Value::Text(uid)) => self.root = uid,
            ("trace.name", Value::Text(name)) => self.name = Some(name),
            ("trace.started", Value::Whole(moment)) => self.started = u64::try_from(moment).ok(),
            ("trace.ended", Value::Whole(moment)) => self.ended = u64::try_from(moment).ok(),
            ("trace.failed", Value::Truth(failed)) => self.failed = Some(failed),
            (name, value) => self.attributes.push(KeyValue::new(name, value)),
        }
    }
}

impl Visit for Told {
    fn record_str(&mut self, field: &Field, value: &str) {
        let end = value.floor_char_boundary(LONGEST_TEXT);
        self.put(field, Value::Text(value[..end].to_owned()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::Truth(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::Whole(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::Whole(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::Number(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests;
