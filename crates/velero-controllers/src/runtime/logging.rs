//! The log of a process of ours, in the form of logrus, so that what reads Velero's logs reads ours.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::runtime::log_format::LogFormat;

/// Sends the log of this process to standard output. A process that has a log already keeps it.
pub(crate) fn install(level: Level, format: LogFormat) {
    // What libraries say below a warning is theirs to debug.
    let filter = tracing_subscriber::EnvFilter::new(format!("warn,velero={level}"))
        .add_directive(directive("velero_controllers", level))
        .add_directive(directive("velero_engine", level))
        .add_directive(directive("velero_cluster", level))
        .add_directive(directive("velero_store", level))
        .add_directive(directive("velero_plugin", level))
        .add_directive(directive("velero_repo", level));
    let lines = tracing_subscriber::fmt::layer().event_format(Logrus(format));
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
}

fn directive(target: &str, level: Level) -> tracing_subscriber::filter::Directive {
    format!("{target}={level}").parse().unwrap_or_else(|_| level.into())
}

struct Logrus(LogFormat);

impl<S, N> FormatEvent<S, N> for Logrus
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
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
}
