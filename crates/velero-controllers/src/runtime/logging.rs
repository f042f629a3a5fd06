//! The log of a process of ours, in the form of logrus, so that what reads Velero's logs reads ours.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use velero_engine::stage;

use crate::runtime::log_format::LogFormat;
use crate::runtime::traces::TraceLayer;

/// Sends the log of this process to standard output. A process that has a log already keeps it.
pub(crate) fn install(level: Level, format: LogFormat) {
    install_with_traces(level, format, None);
}

/// Like [`install`], and stages of backups and restores become traces where somebody takes them.
pub(crate) fn install_with_traces(level: Level, format: LogFormat, traces: Option<TraceLayer>) {
    let lines = tracing_subscriber::fmt::layer().event_format(Logrus(format));
    let filter = filter(level, traces.is_some());
    let _ = tracing_subscriber::registry().with(filter).with(SpanFields).with(traces).with(lines).try_init();
}

/// Lets through what our own crates say, all of whose names begin alike, at the level. What libraries say below a warning is theirs
/// to debug. Stages are no part of the log, and off unless there are traces.
pub(super) fn filter(level: Level, has_traces: bool) -> EnvFilter {
    let others = level.min(Level::WARN);
    let stages = if has_traces { "debug" } else { "off" };
    EnvFilter::new(format!("{others},velero={level},{}={stages}", stage::TARGET))
}

/// Keeps the fields of spans: what is worked on stands in every line that is said meanwhile.
struct SpanFields;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanFields {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id).filter(|span| span.metadata().target() != stage::TARGET) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }
}

struct Logrus(LogFormat);

impl<S, N> FormatEvent<S, N> for Logrus
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        for span in context.event_scope().into_iter().flatten() {
            if let Some(around) = span.extensions().get::<Fields>() {
                fields.add_missing(around);
            }
        }
        let source = format!("{}:{}", metadata.file().unwrap_or_default(), metadata.line().unwrap_or_default());
        fields.others.insert("logSource".to_owned(), Value::String(source));
        let line = fields.line(self.0, &crate::runtime::clock::now().to_string(), level_name(*metadata.level()));
        writeln!(writer, "{line}")
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::TRACE => "trace",
        Level::DEBUG => "debug",
        Level::INFO => "info",
        Level::WARN => "warning",
        Level::ERROR => "error",
    }
}

/// What an event says.
#[derive(Default)]
struct Fields {
    message: String,
    others: BTreeMap<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), &value) {
            ("message", Value::String(text)) => self.message.clone_from(text),
            (name, _) => drop(self.others.insert(name.to_owned(), value)),
        }
    }

    /// Takes over what is known around an event and not said by it.
    fn add_missing(&mut self, around: &Self) {
        for (name, value) in &around.others {
            self.others.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }

    fn line(mut self, format: LogFormat, time: &str, level: &str) -> String {
        if format == LogFormat::Json {
            let fixed = [("time", time), ("level", level), ("msg", &self.message)];
            self.others.extend(fixed.map(|(key, text)| (key.to_owned(), Value::String(text.to_owned()))));
            return serde_json::to_string(&self.others).unwrap_or_default();
        }
        let mut line = format!("time={} level={level} msg={}", quoted(time), quoted(&self.message));
        for (key, value) in &self.others {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            // Writing to a string cannot fail.
            let _ = write!(line, " {key}={}", quoted(&text));
        }
        line
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
}

/// Quotes a value the way logrus does: only when it holds more than plain characters.
fn quoted(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-._/@^+".contains(character);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { format!("{text:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        let others = [("backup", "velero/b 1"), ("attempt", "2")];
        let others = others.map(|(key, value)| (key.to_owned(), Value::String(value.to_owned())));
        Fields { message: "Backup \"b\" began".to_owned(), others: others.into() }
    }

    #[test]
    fn a_text_line_has_time_level_and_message_first_and_sorted_fields_after() {
        let line = fields().line(LogFormat::Text, "2026-01-01T00:00:00Z", "warning");
        let expected =
            r#"time="2026-01-01T00:00:00Z" level=warning msg="Backup \"b\" began" attempt=2 backup="velero/b 1""#;
        assert_eq!(line, expected);
    }

    #[test]
    fn a_json_line_has_sorted_keys() {
        let line = fields().line(LogFormat::Json, "t", "info");
        let expected = r#"{"attempt":"2","backup":"velero/b 1","level":"info","msg":"Backup \"b\" began","time":"t"}"#;
        assert_eq!(line, expected);
    }
    /// Where lines go in tests.
    #[derive(Clone, Default)]
    struct Written(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The lines that are written while something is done.
    fn lines(level: Level, format: LogFormat, work: impl FnOnce()) -> Vec<String> {
        let written = Written::default();
        let writer = written.clone();
        let lines = tracing_subscriber::fmt::layer().event_format(Logrus(format)).with_writer(move || writer.clone());
        let traces: Option<TraceLayer> = None;
        let subscriber =
            tracing_subscriber::registry().with(filter(level, false)).with(SpanFields).with(traces).with(lines);
        tracing::subscriber::with_default(subscriber, work);
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_part_obeys_the_level_and_libraries_are_no_louder() {
        fn say_all() {
            tracing::debug!(target: "velero_plugin_openshift", "1");
            tracing::debug!(target: "velero_plugin_csi::actions", "2");
            tracing::info!(target: "velero_registry", "3");
            tracing::info!(target: "velero", "4");
            tracing::warn!(target: "velero_store", "5");
            tracing::error!(target: "velero_repo", "6");
            tracing::info!(target: "kube_runtime", "7");
            tracing::warn!(target: "hyper", "8");
            tracing::error!(target: "hyper", "9");
        }
        for (level, expected) in
            [(Level::DEBUG, "12345689"), (Level::INFO, "345689"), (Level::WARN, "5689"), (Level::ERROR, "69")]
        {
            let said = lines(level, LogFormat::Json, say_all);
            let said: Vec<Value> = said.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
            let said: String = said.iter().filter_map(|line| line["msg"].as_str()).collect();
            assert_eq!(said, expected, "{level}");
        }
    }

    #[test]
    fn stages_cost_nothing_where_there_are_no_traces() {
        fn not_even_its_fields_are_read() -> u64 {
            panic!("they are read")
        }
        let said = lines(Level::TRACE, LogFormat::Json, || {
            assert!(!stage::is_on());
            let stage = velero_engine::stage!("plan", velero.items = not_even_its_fields_are_read());
            assert!(stage.is_disabled());
            stage.in_scope(|| tracing::error!("one"));
        });
        assert_eq!(said.len(), 1);
    }

    #[test]
    fn a_line_says_what_is_worked_on_whoever_writes_it() {
        let said = lines(Level::ERROR, LogFormat::Json, || {
            let outer = tracing::error_span!("reconcile", controller = "backup", backup = "nightly");
            let inner = tracing::error_span!("item", item = tracing::field::Empty, backup = "inner");
            let _outer = outer.enter();
            tracing::error!("one");
            inner.record("item", "pods/shop/web");
            let _inner = inner.enter();
            tracing::error!(controller = "own", "two");
        });
        let said: Vec<Value> = said.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let fields = |line: &Value| ["controller", "backup", "item"].map(|name| line[name].as_str().map(str::to_owned));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(fields(&said[0]), [some("backup"), some("nightly"), None]);
        assert_eq!(fields(&said[1]), [some("own"), some("inner"), some("pods/shop/web")]);
    }
}
