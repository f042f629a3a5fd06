//! The form of log lines, the names of levels, and the flags that say both.

use std::str::FromStr;

use clap::Args;
use serde::{Deserialize, Serialize};
use tracing::Level;

use crate::runtime::error::{Error, Result};

/// The level at which to log, unless somebody says otherwise.
const USUAL_LEVEL: &str = "info";

/// The form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogFormat {
    /// `time="…" level=info msg="…"`.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// The form as the flag writes it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// A form that log lines cannot have.
#[derive(Debug, thiserror::Error)]
#[error("invalid log format {name:?}, use text or json")]
pub struct UnknownLogFormat {
    name: String,
}

impl FromStr for LogFormat {
    type Err = UnknownLogFormat;

    fn from_str(text: &str) -> Result<Self, UnknownLogFormat> {
        let found = [Self::Text, Self::Json].into_iter().find(|format| format.as_str() == text);
        found.ok_or_else(|| UnknownLogFormat { name: text.to_owned() })
    }
}

/// How a process logs: the flags of all that are no command of a person.
#[derive(Args, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSettings {
    /// The level at which to log: trace, debug, info, warning, error, fatal or panic
    #[arg(long, default_value = USUAL_LEVEL)]
    pub log_level: String,

    /// The format for log output: text or json
    #[arg(long, default_value = "text")]
    pub log_format: LogFormat,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { log_level: USUAL_LEVEL.to_owned(), log_format: LogFormat::default() }
    }
}

impl LogSettings {
    /// The least severe level that is logged.
    pub(crate) fn level(&self) -> Result<Level> {
        level(&self.log_level).map_err(|error| Error::Setting { flag: "log-level", problem: error.to_string() })
    }
}

/// A level that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("{name:?} is not a level, use trace, debug, info, warning, error, fatal or panic")]
struct UnknownLevel {
    name: String,
}

/// Reads a level by its logrus name; those above error do not exist here and mean error.
fn level(name: &str) -> Result<Level, UnknownLevel> {
    match name.to_ascii_lowercase().as_str() {
        "trace" => Ok(Level::TRACE),
        "debug" => Ok(Level::DEBUG),
        "info" => Ok(Level::INFO),
        "warn" | "warning" => Ok(Level::WARN),
        "error" | "fatal" | "panic" => Ok(Level::ERROR),
        other => Err(UnknownLevel { name: other.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_of_logrus_are_known() {
        for (name, expected) in [("warning", Level::WARN), ("panic", Level::ERROR), ("Debug", Level::DEBUG)] {
            assert_eq!(level(name).unwrap(), expected);
        }
        assert!(level("loud").unwrap_err().to_string().contains("warning"));
    }

    #[test]
    fn a_form_is_known_by_its_name() {
        for format in [LogFormat::Text, LogFormat::Json] {
            assert_eq!(format.as_str().parse::<LogFormat>().unwrap(), format);
        }
        assert!("xml".parse::<LogFormat>().unwrap_err().to_string().contains("text or json"));
    }
}
