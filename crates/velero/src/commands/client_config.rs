//! `velero client config …`

use anyhow::Result;

use crate::arguments::ConfigCommand;
use crate::client_config::{ClientConfig, path};
use crate::printer::Printer;

/// Shows or changes the client configuration file.
pub(super) fn run(command: ConfigCommand, printer: Printer) -> Result<()> {
    let mut config = ClientConfig::load(&path())?;
    match command {
        ConfigCommand::Get { keys } if keys.is_empty() => {
            config.keys().try_for_each(|key| printer.line(format_args!("{key}: {}", config.shown(key))))
        }
        ConfigCommand::Get { keys } => {
            keys.iter().try_for_each(|key| printer.line(format_args!("{key}: {}", config.shown(key))))
        }
        ConfigCommand::Set { pairs } => {
            for pair in &pairs {
                match pair.split_once('=') {
                    Some((key, value)) if !value.contains('=') => config.set(key, value),
                    _ => printer.note(format_args!("WARNING: invalid KEY=VALUE: {pair:?}")),
                }
            }
            config.save(&path())
        }
    }
}
