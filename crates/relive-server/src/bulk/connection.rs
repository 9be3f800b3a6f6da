//! A bulk connection from its first frame to its end.

use std::sync::Arc;
use std::time::Duration;

use relive_transport::{Frames, Socket};
use relive_wire::Message;
use relive_wire::bulk::{FrameKind, MAGIC};
use relive_wire::limits::MAX_BULK_HEAD_BYTES;
use relive_wire::v1::{OpenSampler, OpenWriter};

use super::failure::{Failure, malformed, send_error, unexpected, without_body};
use super::{sampler, writer};
use crate::access::{Access, Role};
use crate::limits::{MAX_OPENING_BYTES, PREFACE_TIMEOUT};
use crate::services::Services;
use crate::traffic::ConnectionBudget;

/// Returns whether these first bytes open a bulk connection.
pub(crate) fn is_bulk(first_bytes: &[u8]) -> bool {
    first_bytes.starts_with(MAGIC)
}

/// Serves a connection until either side ends it. It begins with [`MAGIC`].
pub(crate) async fn serve(
    socket: Socket,
    services: Services,
    peer: Arc<str>,
    access: Access,
    connection_budget: &ConnectionBudget,
) -> Result<(), Failure> {
    let mut frames = Frames::new(socket);
    let ended = purpose(&mut frames, &services, peer, &access, connection_budget).await;
    if let Err(Failure::Refused(status)) = &ended {
        // The time is limited, so that a client that does not read cannot keep the connection open.
        let sent = tokio::time::timeout(SEND_ERROR_TIMEOUT, send_error(&frames, status)).await;
        tracing::debug!(%status, sent = sent.is_ok(), "bulk connection refused");
        return Ok(());
    }
    ended
}

/// The time that the system has to accept the last frame of a connection.
const SEND_ERROR_TIMEOUT: Duration = Duration::from_secs(5);

async fn purpose(
    frames: &mut Frames,
    services: &Services,
    peer: Arc<str>,
    access: &Access,
    connection_budget: &ConnectionBudget,
) -> Result<(), Failure> {
    frames.limit_heads(MAX_OPENING_BYTES);
    let first = async {
        frames.read_body(&mut [0; MAGIC.len()]).await?;
        Ok::<_, Failure>(frames.next().await?)
    };
    let Ok(first) = tokio::time::timeout(PREFACE_TIMEOUT, first).await else { return Ok(()) };
    let Some((header, head)) = first? else { return Ok(()) };
    match header.kind {
        FrameKind::OpenSampler => {
            without_body(&header)?;
            let open = OpenSampler::decode(head.as_slice()).map_err(|error| malformed(header.kind, error))?;
            access.check(Some(&open.token), "sampling", Role::Read)?;
            sampler::serve(frames, &open, services, peer, connection_budget).await
        }
        FrameKind::OpenWriter => {
            without_body(&header)?;
            let open = OpenWriter::decode(head.as_slice()).map_err(|error| malformed(header.kind, error))?;
            access.check(Some(&open.token), "inserting", Role::Write)?;
            frames.limit_heads(MAX_BULK_HEAD_BYTES);
            writer::serve(frames, services, &peer, connection_budget).await
        }
        kind => Err(unexpected(kind)),
    }
}
