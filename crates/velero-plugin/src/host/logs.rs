//! What a plugin writes to its output, as log lines of ours.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, BufReader};

/// The longest line taken; the rest of a longer one is left out.
const LONGEST_LINE: usize = 64 << 10;

/// How many lines of one process are taken a second, so that a flood fills neither the log nor the memory.
const LINES_A_SECOND: u32 = 500;

/// Takes the log lines of plugins.
pub type LogSink = Arc<dyn Fn(PluginLogLine) + Send + Sync>;

/// One log line of a plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginLogLine {
    /// How serious it is.
    pub level: tracing::Level,
    /// The message.
    pub message: String,
    /// The path of the binary.
    pub command: String,
    /// The file name of the binary.
    pub plugin_name: String,
    /// The other fields of the line, as the plugin wrote them.
    pub fields: Map<String, Value>,
}

/// Writes a line to the log of this process.
pub(crate) fn emit(line: &PluginLogLine) {
    let (cmd, plugin_name, message) = (&line.command, &line.plugin_name, &line.message);
    let fields = line.fields.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text:?}"),
        other => format!("{name}={other}"),
    });
    let fields = fields.collect::<Vec<_>>().join(" ");
    macro_rules! event {
        ($level:ident) => {
            tracing::event!(target: "velero::plugin", tracing::Level::$level, cmd, pluginName = plugin_name, fields, "{message}")
        };
    }
    match line.level {
        tracing::Level::ERROR => event!(ERROR),
        tracing::Level::WARN => event!(WARN),
        tracing::Level::INFO => event!(INFO),
        _ => event!(DEBUG),
    }
}

/// The output of one process.
#[derive(Clone)]
pub(crate) struct Output {
    command: String,
    plugin_name: String,
    sink: LogSink,
    /// The last plain text, to explain why a process ended.
    last_words: Arc<Mutex<String>>,
}

impl Output {
    pub(crate) fn new(command: &Path, sink: &LogSink) -> Self {
        let name = command.file_name().unwrap_or(command.as_os_str());
        Self {
            command: command.display().to_string(),
            plugin_name: name.to_string_lossy().into_owned(),
            sink: Arc::clone(sink),
            last_words: Arc::default(),
        }
    }

    /// What the process said last that was no log line; empty if nothing.
    pub(crate) fn last_words(&self) -> String {
        self.last_words.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Logs something about the process.
    pub(crate) fn log(&self, level: tracing::Level, message: String, fields: Map<String, Value>) {
        let (command, plugin_name) = (self.command.clone(), self.plugin_name.clone());
        (self.sink)(PluginLogLine { level, message, command, plugin_name, fields });
    }

    /// Takes lines until the stream ends.
    pub(crate) async fn follow(self, stream: impl AsyncRead + Unpin) {
        let mut reader = BufReader::new(stream);
        let mut allowance = Allowance::new(Instant::now());
        let mut line = Vec::new();
        while let Ok(true) = next_line(&mut reader, &mut line).await {
            self.take(&line, &mut allowance);
        }
        self.report(allowance.take_left_out());
    }

    /// Takes one line, if there are not too many.
    fn take(&self, line: &[u8], allowance: &mut Allowance) {
        let allowed = allowance.allow(Instant::now());
        if let Some(left_out) = allowed.left_out_before {
            self.report(left_out);
        }
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        if !allowed.this_one || text.is_empty() {
            return;
        }
        let (level, message, fields) = parse(text);
        if fields.is_empty() {
            let words = message.chars().take(300).collect();
            *self.last_words.lock().unwrap_or_else(PoisonError::into_inner) = words;
        }
        self.log(level, message, fields);
    }

    fn report(&self, left_out: u64) {
        if left_out > 0 {
            let message = format!("{left_out} lines of the plugin were left out of the log: it writes too many");
            self.log(tracing::Level::WARN, message, Map::new());
        }
    }
}

/// Reads one line of at most [`LONGEST_LINE`] bytes and skips what is too much; false at the end.
async fn next_line(reader: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = available.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(available.len(), |end| end + 1);
        let room = LONGEST_LINE - line.len();
        line.extend_from_slice(&available[..used.min(room)]);
        reader.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

/// The level, message and fields of a line: JSON as hclog writes it, or plain text.
fn parse(line: &str) -> (tracing::Level, String, Map<String, Value>) {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(line) else {
        return (level_of_text(line), line.to_owned(), Map::new());
    };
    let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
    let level = text(fields.remove("@level")).or_else(|| text(fields.get("level").cloned()));
    let message = text(fields.remove("@message")).or_else(|| text(fields.remove("msg"))).unwrap_or_default();
    // Our own log says when and how serious.
    for name in ["@timestamp", "time", "timestamp", "level"] {
        fields.remove(name);
    }
    let level = match level.as_deref() {
        Some("error" | "fatal" | "panic") => tracing::Level::ERROR,
        Some("warn" | "warning") => tracing::Level::WARN,
        Some("info") => tracing::Level::INFO,
        _ => tracing::Level::DEBUG,
    };
    (level, message, fields)
}

fn level_of_text(line: &str) -> tracing::Level {
    let panicked = line.starts_with("panic:") || line.starts_with("fatal error:") || line.contains("' panicked at ");
    match line {
        _ if panicked || line.starts_with("[ERROR]") => tracing::Level::ERROR,
        _ if line.starts_with("[WARN]") => tracing::Level::WARN,
        _ if line.starts_with("[INFO]") => tracing::Level::INFO,
        _ => tracing::Level::DEBUG,
    }
}

/// How many lines may still pass in this second.
struct Allowance {
    second: Instant,
    passed: u32,
    left_out: u64,
}

struct Allowed {
    this_one: bool,
    left_out_before: Option<u64>,
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self { second: now, passed: 0, left_out: 0 }
    }

    fn allow(&mut self, now: Instant) -> Allowed {
        let mut left_out_before = None;
        if now.duration_since(self.second) >= Duration::from_secs(1) {
            left_out_before = Some(self.take_left_out());
            (self.second, self.passed) = (now, 0);
        }
        let this_one = self.passed < LINES_A_SECOND;
        if this_one {
            self.passed += 1
        } else {
            self.left_out += 1
        }
        Allowed { this_one, left_out_before }
    }

    fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_of_hclog_keeps_its_fields_without_those_our_log_has() {
        let line =
            r#"{"@level":"warn","@message":"slow","@timestamp":"x","level":"warning","time":"y","bucket":"b","n":3}"#;
        let (level, message, fields) = parse(line);
        assert_eq!((level, message.as_str()), (tracing::Level::WARN, "slow"));
        assert_eq!(Value::Object(fields), json!({"bucket": "b", "n": 3}));
    }

    #[test]
    fn plain_text_is_for_those_who_look_for_a_fault_unless_it_says_more() {
        for (line, level) in [
            ("something", tracing::Level::DEBUG),
            ("[INFO] something", tracing::Level::INFO),
            ("[1, 2]", tracing::Level::DEBUG),
            ("panic: nil map", tracing::Level::ERROR),
            ("thread 'main' panicked at src/main.rs:1:1:", tracing::Level::ERROR),
        ] {
            assert_eq!(parse(line), (level, line.to_owned(), Map::new()), "{line}");
        }
    }

    #[test]
    fn a_flood_is_cut_and_counted() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let passed = (0..LINES_A_SECOND + 7).filter(|_| allowance.allow(start).this_one).count();
        assert_eq!(passed, LINES_A_SECOND as usize);
        let later = allowance.allow(start + Duration::from_secs(1));
        assert!(later.this_one);
        assert_eq!(later.left_out_before, Some(7));
    }

    #[tokio::test]
    async fn a_line_without_end_is_cut() {
        let text = [vec![b'x'; LONGEST_LINE * 3], b"\nnext\n".to_vec()].concat();
        let (mut reader, mut line) = (BufReader::new(text.as_slice()), Vec::new());
        assert!(next_line(&mut reader, &mut line).await.unwrap());
        assert_eq!(line.len(), LONGEST_LINE);
        assert!(next_line(&mut reader, &mut line).await.unwrap());
        assert_eq!(line, b"next\n");
        assert!(!next_line(&mut reader, &mut line).await.unwrap());
    }
}
