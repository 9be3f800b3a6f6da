//! RPCs for operators: ChangeTable, AddTable, DropTable, Checkpoint and CheckpointStatus.

use std::sync::Arc;

use relive_wire::reverb::{CheckpointRequest, CheckpointResponse};
use relive_wire::v1::{
    AddTableRequest, AddTableResponse, ChangeTableRequest, ChangeTableResponse, CheckpointStatusRequest,
    CheckpointStatusResponse, DropTableRequest, DropTableResponse,
};
use relive_wire::{checkpoint_status as status_message, operate};
use tonic::Status;

use crate::services::{Services, run_blocking, status};

pub(super) async fn change_table(
    services: Services,
    peer: Arc<str>,
    request: ChangeTableRequest,
) -> Result<ChangeTableResponse, Status> {
    let change = operate::change_from_wire(&request);
    if change.is_empty() {
        return Err(Status::invalid_argument("the request changes no rule; set at least one"));
    }
    let changed =
        run_blocking(move || services.engine().change_table(&request.table, &change, &peer)).await?;
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
    run_blocking(move || services.engine().drop_table(&request.table, &peer)).await?;
    Ok(DropTableResponse {})
}

/// The engine writes the checkpoint on a separate thread, even after the client has stopped waiting.
pub(super) async fn checkpoint(
    services: Services,
    _request: CheckpointRequest,
) -> Result<CheckpointResponse, Status> {
    let pending = services.engine().request_checkpoint().map_err(|error| status::of_engine(&error))?;
    let saved = pending.await.map_err(|error| status::of_engine(&error))?;
    Ok(CheckpointResponse { checkpoint_path: saved.location })
}

pub(super) fn checkpoint_status(
    services: &Services,
    _request: CheckpointStatusRequest,
) -> CheckpointStatusResponse {
    let status = services.engine().checkpoint_status();
    CheckpointStatusResponse { status: Some(status_message::to_wire(&status)) }
}
