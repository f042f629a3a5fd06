//! `velero schedule get`

use anyhow::Result;
use velero_api::v1::Schedule;

use crate::arguments::GetArguments;
use crate::output::print_list;
use crate::session::Session;

/// Shows schedules.
pub(crate) async fn get(session: &Session, arguments: &GetArguments) -> Result<()> {
    let listed = session.select::<Schedule>(&arguments.list.names, &arguments.list.selector).await?;
    print_list(session.printer, listed, &arguments.output)
}
