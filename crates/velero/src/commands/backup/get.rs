//! `velero backup get`

use anyhow::Result;
use velero_api::v1::Backup;

use crate::arguments::GetArguments;
use crate::output::print_list;
use crate::session::Session;

/// Shows backups.
pub(crate) async fn get(session: &Session, arguments: &GetArguments) -> Result<()> {
    let listed = session.select::<Backup>(&arguments.list.names, &arguments.list.selector).await?;
    print_list(session.printer, listed, &arguments.output)
}
