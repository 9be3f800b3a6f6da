//! Work that would hold up the connections of its thread.

use relive_engine::EngineError;
use tonic::Status;

use super::status;

/// Runs what may take long, such as freeing a million items or looking through them, where it holds up no connection.
pub(super) async fn aside<R: Send + 'static>(
    act: impl FnOnce() -> Result<R, EngineError> + Send + 'static,
) -> Result<R, Status> {
    let done = tokio::task::spawn_blocking(act).await;
    let done = done.map_err(|error| Status::internal(format!("the call did not end: {error}")))?;
    done.map_err(|error| status::of_engine(&error))
}
