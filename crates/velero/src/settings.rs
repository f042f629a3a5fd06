//! What flags, environment and configuration file say together.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::{env, io};

use velero_api::{DEFAULT_NAMESPACE, FeatureFlags};

use crate::arguments::{GlobalArguments, LoggingArguments};
use crate::client_config::ClientConfig;

/// What every command needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The namespace of the server and its objects.
    pub(crate) namespace: String,
    /// The kubeconfig file, when one was named.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig file, when one was named.
    pub(crate) context: Option<String>,
    /// The features that are switched on.
    pub(crate) features: FeatureFlags,
    /// Whether text is coloured.
    pub(crate) colorized: bool,
    /// The certificate bundle for the object store, when the configuration file names one.
    pub(crate) cacert: Option<PathBuf>,
    /// The flags of the original's logging library.
    pub(crate) logging: LoggingArguments,
}

impl Settings {
    /// Puts the sources together. A flag beats the file, and the file beats the environment, as it always did.
    pub(crate) fn resolve(arguments: GlobalArguments, config: &ClientConfig) -> Self {
        let named = arguments.namespace.or_else(|| config.namespace().map(str::to_owned));
        let from_environment = || env::var("VELERO_NAMESPACE").ok().filter(|name| !name.is_empty());
        let in_file = config.features().unwrap_or_default().split(',').map(str::to_owned);
        let in_flag = arguments.features.unwrap_or_default().0;
        Self {
            namespace: named.or_else(from_environment).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
            kubeconfig: arguments.kubeconfig.filter(|path| !path.as_os_str().is_empty()),
            context: arguments.kubecontext.filter(|name| !name.is_empty()),
            features: in_file.chain(in_flag).collect(),
            colorized: arguments
                .colorized
                .and_then(|flag| flag.0)
                .unwrap_or_else(|| config.colorized() && wants_colour()),
            cacert: config.cacert().map(PathBuf::from),
            logging: arguments.logging,
        }
    }
}

/// Escape sequences are for people at a terminal, not for files and pipes.
fn wants_colour() -> bool {
    let is_dumb = env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none() && !is_dumb
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::values::{OptionalBool, StringList};

    #[test]
    fn a_flag_beats_the_file() {
        let mut config = ClientConfig::default();
        config.set("namespace", "from-file");
        config.set("features", "EnableCSI");
        let plain = Settings::resolve(GlobalArguments::default(), &config);
        assert_eq!(plain.namespace, "from-file");
        let arguments = GlobalArguments {
            namespace: Some("from-flag".to_owned()),
            features: Some(StringList(vec!["EnableAPIGroupVersions".to_owned()])),
            colorized: Some(OptionalBool(Some(true))),
            ..GlobalArguments::default()
        };
        let settings = Settings::resolve(arguments, &config);
        assert_eq!(settings.namespace, "from-flag");
        assert!(settings.features.csi() && settings.features.api_group_versions());
        assert!(settings.colorized);
    }
}
