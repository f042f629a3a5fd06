//! `velero install`

use anyhow::{Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};

use crate::arguments::InstallArguments;
use crate::output::{Format, print_value};
use crate::printer::Printer;
use crate::session::{Session, api_error};
use crate::settings::Settings;

/// Who owns the fields that are applied.
const FIELD_MANAGER: &str = "velero-cli";
/// How long definitions may take to become usable.
const ESTABLISHED_WITHIN: std::time::Duration = std::time::Duration::from_secs(60);

/// Shows or installs the definitions of the custom resources.
pub(super) async fn install(arguments: &InstallArguments, settings: &Settings, printer: Printer) -> Result<()> {
    let format = Format::parse(arguments.output.as_deref())?;
    if format == Some(Format::Table) {
        bail!("'table' format is not supported with 'install' command");
    }
    if let Some(flag) = arguments.unsupported.first() {
        bail!("install: {flag} is not supported yet; only --crds-only with --dry-run, --apply and -o is");
    }
    if !arguments.crds_only {
        bail!("install: only --crds-only is supported yet; deploy the server with your own manifests");
    }
    let definitions = velero_api::crd::all();
    if let Some(format) = format {
        print_value(printer, &json!({ "apiVersion": "v1", "items": definitions, "kind": "List" }), format)?;
    }
    if arguments.dry_run {
        return Ok(());
    }
    let session = Session::connect(settings, printer).await?;
    let api: Api<CustomResourceDefinition> = Api::all(session.cluster.client().clone());
    for definition in &definitions {
        install_definition(&api, definition, arguments.apply, printer).await?;
    }
    wait_until_established(&api, &definitions, printer).await
}

async fn install_definition(
    api: &Api<CustomResourceDefinition>,
    definition: &Value,
    apply: bool,
    printer: Printer,
) -> Result<()> {
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let log = |text: &str| printer.line(format_args!("CustomResourceDefinition/{name}: {text}"));
    if apply {
        log("attempting to apply resource")?;
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        api.patch(name, &parameters, &Patch::Apply(definition)).await.map_err(api_error)?;
        return log("applied");
    }
    log("attempting to create resource")?;
    let object = serde_json::from_value(definition.clone())?;
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => log("created"),
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => log("already exists, proceeding"),
        Err(error) => Err(api_error(error)),
    }
}

async fn wait_until_established(
    api: &Api<CustomResourceDefinition>,
    definitions: &[Value],
    printer: Printer,
) -> Result<()> {
    printer.line("Waiting for resources to be ready in cluster...")?;
    let wait_for_all = async {
        for definition in definitions {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            await_condition(api.clone(), name, conditions::is_crd_established()).await?;
        }
        Ok(())
    };
    match tokio::time::timeout(ESTABLISHED_WITHIN, wait_for_all).await {
        Ok(result) => result,
        Err(_) => bail!("timeout reached, CRDs not ready"),
    }
}
