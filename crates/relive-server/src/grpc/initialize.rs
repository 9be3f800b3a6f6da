//! InitializeConnection: dm-reverb's clients ask whether they live in the server's process.

use relive_wire::reverb::{InitializeConnectionRequest, InitializeConnectionResponse};
use tonic::{Request, Response, Status, Streaming};

/// Always answers that the client is in another process, whatever process id it sends: process ids of containers
/// collide, and an address would be dereferenced.
pub(super) async fn initialize(
    request: Request<Streaming<InitializeConnectionRequest>>,
) -> Result<Response<impl tokio_stream::Stream<Item = Result<InitializeConnectionResponse, Status>>>, Status>
{
    match request.into_inner().message().await? {
        Some(_) => {
            let elsewhere = InitializeConnectionResponse { address: 0 };
            Ok(Response::new(tokio_stream::once(Ok(elsewhere))))
        }
        None => Err(Status::internal("the stream ended before its first message")),
    }
}
