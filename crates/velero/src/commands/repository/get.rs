//! `velero repo get`

use anyhow::Result;
use velero_api::v1::BackupRepository;

use crate::arguments::GetArguments;
use crate::output::print_list;
use crate::session::Session;

/// Shows backup repositories.
pub(crate) async fn get(session: &Session, arguments: &GetArguments) -> Result<()> {
    let listed = session.select::<BackupRepository>(&arguments.list.names, &arguments.list.selector).await?;
    print_list(session.printer, listed, &arguments.output)
}
