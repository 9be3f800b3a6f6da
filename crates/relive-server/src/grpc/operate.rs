//! ChangeTable, AddTable and DropTable.

use std::sync::Arc;

use relive_engine::EngineError;
use relive_wire::operate;
use relive_wire::v1::{
    AddTableRequest, AddTableResponse, ChangeTableRequest, ChangeTableResponse, DropTableRequest,
    DropTableResponse,
};
use tonic::Status;

use super::{Services, status};

pub(super) async fn change_table(
    services: Services,
    peer: Arc<str>,
    request: ChangeTableRequest,
) -> Result<ChangeTableResponse, Status> {
    let change = operate::change_from_wire(&request);
    if change.is_empty() {
        return Err(Status::invalid_argument("the request changes nothing: set at least one rule"));
    }
    let changed = aside(move || services.engine().change_table(&request.table, &change, &peer)).await?;
    Ok(operate::changed_to_wire(&changed))
}

pub(super) fn add_table(
    services: &Services,
    peer: &Arc<str>,
    request: &AddTableRequest,
) -> Result<AddTableResponse, Status> {
    let config = operate::add_from_wire(request).map_err(|error| status::of_wire(&error))?;
    let added = services.engine().add_table(config, peer);
    added.map(|()| AddTableResponse {}).map_err(|error| status::of_engine(&error))
}

pub(super) async fn drop_table(
    services: Services,
    peer: Arc<str>,
    request: DropTableRequest,
) -> Result<DropTableResponse, Status> {
    aside(move || services.engine().drop_table(&request.table, &peer)).await?;
    Ok(DropTableResponse {})
}

/// Runs what may take long, such as freeing a million items, where it holds up no connection.
async fn aside<R: Send + 'static>(
    act: impl FnOnce() -> Result<R, EngineError> + Send + 'static,
) -> Result<R, Status> {
    let done = tokio::task::spawn_blocking(act).await;
    let done = done.map_err(|error| Status::internal(format!("the change did not end: {error}")))?;
    done.map_err(|error| status::of_engine(&error))
}
