//! The log of a plugin: one JSON object a line on stderr, in the form the host reads.

use std::fmt::Debug;
use std::io::Write;

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Sends what is logged to the host, from the level the server logs at. A subscriber that is there already stays.
pub(crate) fn install() {
    let level = match super::server_flag("log-level").as_deref() {
        Some("debug" | "trace") => LevelFilter::DEBUG,
        Some("warning" | "warn") => LevelFilter::WARN,
        Some("error" | "fatal" | "panic") => LevelFilter::ERROR,
        _ => LevelFilter::INFO,
    };
    let _ = tracing_subscriber::registry().with(HostLog.with_filter(level)).try_init();
}

struct HostLog;

impl<S: Subscriber> Layer<S> for HostLog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = line(*event.metadata().level(), event);
        line.push(b'\n');
        // A host that does not listen is no reason to fail.
        let _ = std::io::stderr().write_all(&line);
    }
}

fn line(level: Level, event: &Event<'_>) -> Vec<u8> {
    let mut fields = Fields(Map::new());
    event.record(&mut fields);
    let level = level.as_str().to_ascii_lowercase();
    fields.0.insert("@level".to_owned(), json!(level));
    Value::Object(fields.0).to_string().into_bytes()
}

struct Fields(Map<String, Value>);

impl Fields {
    fn insert(&mut self, field: &Field, value: Value) {
        let name = if field.name() == "message" { "@message" } else { field.name() };
        self.0.insert(name.to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.insert(field, json!(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, json!(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, json!(value));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<Vec<u8>>>>);

    impl<S: Subscriber> Layer<S> for Lines {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.0.lock().unwrap().push(line(*event.metadata().level(), event));
        }
    }

    #[test]
    fn a_line_has_the_form_of_hclog() {
        let lines = Lines::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines.clone()), || {
            tracing::warn!(bucket = "b", n = 3, "slow {}", "disk");
        });
        let line: Value = serde_json::from_slice(&lines.0.lock().unwrap()[0]).unwrap();
        assert_eq!(line, json!({"@level": "warn", "@message": "slow disk", "bucket": "b", "n": 3}));
    }
}
