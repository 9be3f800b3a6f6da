//! Checkpoint: the engine's state on disk.

use relive_wire::reverb::{CheckpointRequest, CheckpointResponse};
use tonic::Status;

use super::{Services, status};

/// Writes on a thread of its own, as it takes as long as disks take, and connections go on meanwhile. Requests wait for
/// each other here, where that costs no thread.
pub(super) async fn checkpoint(
    services: Services,
    _request: CheckpointRequest,
) -> Result<CheckpointResponse, Status> {
    let turn = services.checkpoint_turn().await;
    let write = move || {
        let written = services.engine().checkpoint();
        // Not before the end of the writing, even if nobody waits for the answer any more.
        drop(turn);
        written
    };
    let written = tokio::task::spawn_blocking(write).await;
    let saved = written
        .map_err(|error| Status::internal(format!("the checkpointer broke: {error}")))?
        .map_err(|error| status::of_engine(&error))?;
    tracing::info!(location = saved.location, bytes = saved.written_bytes, "checkpoint written");
    Ok(CheckpointResponse { checkpoint_path: saved.location })
}
