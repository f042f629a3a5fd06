//! Dry runs: the server says what a restore would do, with all it is set up with, and does nothing.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use flate2::read::MultiGzDecoder;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use velero_api::dry_run;
use velero_api::v1::{BackupPhase, Restore, RestorePhase, RestoreSpec};
use velero_controllers::DryRunReport;
use velero_engine::restore::PreviewAction;
use velero_plugin::{
    ActionSource, Actions, ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result,
};
use velero_testkit::cluster_test;
use velero_testkit::harness::unique_name;

use crate::support::{Server, Workload, assert_phase, assert_restore_phase, settings};

/// Keeps `settings-0` out, and starts an operation for `settings-1`.
#[derive(Clone, Default)]
struct Judge {
    calls: Arc<Mutex<Vec<String>>>,
}

impl Judge {
    fn actions(&self) -> Actions {
        let source = ActionSource { restore_item: vec![Arc::new(self.clone())], ..ActionSource::default() };
        Actions::from_source(source).unwrap()
    }

    fn calls(&self) -> Vec<String> {
        let mut calls = self.calls.lock().unwrap().clone();
        calls.sort();
        calls
    }

    fn note(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }
}

#[async_trait]
impl RestoreItemAction for Judge {
    fn name(&self) -> &str {
        "test.velero.io/judge"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["configmaps"]))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        let name = input.item["metadata"]["name"].as_str().unwrap();
        let is_real = input.restore.metadata.uid.is_some() || !dry_run::is_asked(input.restore);
        if name.starts_with("settings") {
            self.note(format!("{name} of {}, real: {is_real}", input.restore.metadata.name.as_deref().unwrap()));
        }
        Ok(RestoreItemOutcome {
            skip_restore: name == "settings-0",
            operation_id: (name == "settings-1").then(|| "going-on".to_owned()),
            ..RestoreItemOutcome::default()
        })
    }

    async fn cancel(&self, operation_id: &str, _: &Restore) -> Result<()> {
        self.note(format!("{operation_id} cancelled"));
        Ok(())
    }
}

async fn ask(server: &Server, wanted: &Restore) -> Restore {
    let request = dry_run::ask(wanted, &unique_name("dry-run"));
    let name = request.metadata.name.clone().unwrap();
    server.create(request).await;
    server.restore_ended(&name).await
}

#[test]
fn a_dry_run_knows_the_actions_of_the_server_and_restores_nothing() {
    cluster_test(|cluster| async move {
        let (directory, judge) = (tempfile::tempdir().unwrap(), Judge::default());
        let server = Server::start_with_actions(cluster.clone(), settings(&cluster), judge.actions()).await;
        let (workload, copy) = (Workload::new(&cluster, 3).await, unique_name("copy"));
        server.directory_location("default", directory.path()).await;
        assert_phase(&server.backup("b1", workload.spec()).await, &BackupPhase::Completed);

        let mapping = [(workload.namespace.clone(), copy.clone())].into();
        let spec = RestoreSpec { backup_name: "b1".to_owned(), namespace_mapping: mapping, ..Default::default() };
        let answered = ask(&server, &Restore::new(&cluster.namespace, "r1", spec.clone())).await;
        assert_restore_phase(&answered, &RestorePhase::Completed);
        assert!(dry_run::taken_by(&answered).is_some());
        let name = answered.metadata.name.clone().unwrap();
        let folder = directory.path().join("restores").join(&name);
        let file = std::fs::File::open(folder.join(format!("restore-{name}-results.gz"))).unwrap();
        let report: DryRunReport = serde_json::from_reader(MultiGzDecoder::new(file)).unwrap();
        let action = |name: &str| report.items.iter().find(|item| item.name == name).unwrap().action;
        assert_eq!(report.backup, "b1");
        assert_eq!((action("settings-0"), action("settings-2")), (PreviewAction::Skip, PreviewAction::Create));
        assert_eq!(report.warnings.velero.len(), 1, "the operation is told: {:?}", report.warnings);
        let asked = ["going-on cancelled", "settings-0 of r1, real: false"];
        assert_eq!(judge.calls()[..2], asked, "{:?}", judge.calls());
        assert!(judge.calls().iter().all(|call| !call.ends_with("real: true")), "{:?}", judge.calls());

        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        assert!(namespaces.get_opt(&copy).await.unwrap().is_none(), "something was restored");
        server.api::<Restore>().delete(&name, &DeleteParams::default()).await.unwrap();
        server.until_gone::<Restore>(&name).await;
        assert!(!folder.exists() || folder.read_dir().unwrap().next().is_none(), "the report is left");

        let nowhere = RestoreSpec { backup_name: "absent".to_owned(), ..Default::default() };
        let refused = ask(&server, &Restore::new(&cluster.namespace, "r2", nowhere)).await;
        assert_restore_phase(&refused, &RestorePhase::FailedValidation);
        assert!(refused.status.validation_errors[0].contains("absent"), "{:?}", refused.status);
        workload.delete().await;
        server.stop().await;
    });
}
