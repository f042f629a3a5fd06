//! `velero server`

use anyhow::Result;
use velero_controllers::server::{self, Settings as ServerSettings};

use crate::arguments::ServerArguments;
use crate::settings::Settings;

/// Runs the server until it is told to end.
pub(super) async fn server(arguments: ServerArguments, settings: Settings) -> Result<()> {
    server::run(server_settings(arguments, settings)).await?;
    Ok(())
}

/// What the flags of the server and those of every command say together.
fn server_settings(arguments: ServerArguments, settings: Settings) -> ServerSettings {
    ServerSettings {
        namespace: settings.namespace,
        kubeconfig: settings.kubeconfig,
        context: settings.context,
        features: settings.features,
        server_version: crate::version::VERSION.to_owned(),
        global_flags_without_effect: settings.logging.given(),
        ..arguments.settings
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, CommandFactory, FromArgMatches};
    use velero_controllers::server::{Controller, FlagsWithoutEffect};

    use super::*;
    use crate::arguments::{Cli, Command, with_go_flags};
    use crate::client_config::ClientConfig;

    fn parsed(flags: &[&str]) -> ServerSettings {
        let matches = with_go_flags(Cli::command()).get_matches_from(["velero", "server"].iter().chain(flags));
        let cli = Cli::from_arg_matches(&matches).unwrap();
        let Command::Server(arguments) = cli.command else { panic!("not the server") };
        server_settings(*arguments, Settings::resolve(cli.global, &ClientConfig::default()))
    }

    #[test]
    fn the_flags_default_to_what_the_server_defaults_to() {
        let expected =
            ServerSettings { server_version: crate::version::VERSION.to_owned(), ..ServerSettings::default() };
        assert_eq!(format!("{:?}", parsed(&[])), format!("{expected:?}"));
    }

    #[test]
    fn flags_reach_the_settings() {
        let settings = parsed(&[
            "--default-backup-ttl",
            "1h",
            "--client-qps=5",
            "--disable-controllers=gc,restore",
            "--restore-only",
        ]);
        assert_eq!(settings.default_backup_ttl.to_string(), "1h0m0s");
        assert_eq!(settings.client_qps, Some(5.0));
        assert!(settings.restore_only && settings.disable_controllers.contains(&Controller::GarbageCollection));
    }

    #[test]
    fn flags_that_do_nothing_are_told_of_when_they_are_given() {
        assert!(parsed(&[]).flags_without_effect().is_empty());
        let flags = [
            "--profiler-address=:6060",
            "--max-concurrent-k8s-connections=5",
            "--disable-informer-cache",
            "-v=4",
            "--vmodule=a=1",
            "--logtostderr",
        ];
        let told = parsed(&flags).flags_without_effect();
        for flag in flags {
            let name = flag.trim_start_matches('-').split('=').next().unwrap();
            assert!(told.contains(&name), "{name} is not told of: {told:?}");
        }
        assert_eq!(told.len(), flags.len(), "{told:?}");
        let declared = FlagsWithoutEffect::augment_args(clap::Command::new("server"));
        for name in declared.get_arguments().filter_map(|argument| argument.get_long()) {
            assert!(told.contains(&name), "{name} is not tested here");
        }
        assert!(parsed(&["--disable-informer-cache=false"]).flags_without_effect().is_empty());
    }
}
