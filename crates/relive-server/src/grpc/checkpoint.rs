//! Checkpoint and CheckpointStatus: the engine's state on disk.

use relive_wire::checkpoint_status;
use relive_wire::reverb::{CheckpointRequest, CheckpointResponse};
use relive_wire::v1::{CheckpointStatusRequest, CheckpointStatusResponse};
use tonic::Status;

use super::{Services, status};

/// The engine writes on a thread of its own, also when nobody waits for the answer any more.
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
    CheckpointStatusResponse { status: Some(checkpoint_status::to_wire(&status)) }
}
