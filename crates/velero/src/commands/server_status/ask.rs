//! Asking the server by a request of its own, which it answers and deletes.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};
use velero_api::metadata::name;
use velero_api::v1::{ServerStatusRequest, ServerStatusRequestPhase};

use crate::alive::{fail_if_gone, last_heard_of};
use crate::session::Session;

/// How often the answer is looked for.
const POLL: Duration = Duration::from_millis(250);

/// Asks the server and waits for its answer.
pub(crate) async fn ask_server(session: &Session, timeout: Duration) -> Result<ServerStatusRequest> {
    let mut request = ServerStatusRequest::default();
    request.metadata.namespace = Some(session.namespace().to_owned());
    request.metadata.generate_name = Some("velero-cli-".to_owned());
    let created = session.create(&request).await?;
    let deadline = Instant::now() + timeout;
    loop {
        // A failed look is as good as no answer yet.
        let found = session.find::<ServerStatusRequest>(name(&created)).await.ok().flatten();
        if let Some(status) = found.filter(|request| *request.status.phase() == ServerStatusRequestPhase::Processed) {
            return Ok(status);
        }
        if Instant::now() + POLL > deadline {
            let heard = last_heard_of(session, timeout).await.ok().flatten();
            fail_if_gone(session, heard.as_ref())?;
            bail!("the server did not answer within {timeout:?}: is it running in namespace {}?", session.namespace());
        }
        sleep(POLL).await;
    }
}
