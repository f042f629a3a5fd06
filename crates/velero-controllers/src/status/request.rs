//! Answers those who ask for the server's version and plugins, as `velero plugin get` does.
//!
//! A request is answered once and deleted a minute later. The one that is kept is not touched here: see
//! [`crate::status::kept`].

use velero_api::GoDuration;
use velero_api::metadata::name;
use velero_api::v1::{SERVER_STATUS_NAME, ServerStatusRequest, ServerStatusRequestPhase};

use crate::runtime::clock;
use crate::runtime::context::SharedContext;
use crate::runtime::controller::Controller;
use crate::runtime::driver::{Next, Reconciler};
use crate::runtime::error::Result;
use crate::status::kept::answer;

/// How long an answer is kept.
const LIFETIME: GoDuration = GoDuration::from_mins(1);

/// Watches ServerStatusRequests.
pub(crate) struct ServerStatusRequestReconciler {
    pub(crate) context: SharedContext,
}

impl Reconciler for ServerStatusRequestReconciler {
    type Kind = ServerStatusRequest;
    const CONTROLLER: Controller = Controller::ServerStatusRequest;
    const CONCURRENCY: u16 = 10;

    async fn reconcile(&self, request: ServerStatusRequest) -> Result<Next> {
        let context = &self.context;
        if name(&request) == SERVER_STATUS_NAME {
            return Ok(Next::Change);
        }
        let now = clock::now();
        let processed = request.status.processed_timestamp.as_ref().map(|time| time.0);
        match (request.status.phase(), processed) {
            (ServerStatusRequestPhase::Processed, Some(processed)) => {
                let end = clock::after(processed, LIFETIME);
                if end > now {
                    return Ok(Next::After(clock::until(end, now)));
                }
                context.objects.delete(&request).await?;
            }
            _ => answer(context, &request).await?,
        }
        Ok(Next::Change)
    }
}
