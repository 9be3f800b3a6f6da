//! The task that keeps one sample stream open.

use std::sync::Arc;

use relive_connection::{
    Backoff, Connection, GrpcChannel, Result, is_limiter_timeout, is_transient_status, status_error,
};
use relive_wire::sample::Assembler;
use tokio::time::{Instant, sleep};

use super::responses::{Responses, SAMPLE_STREAM, StreamEnd};
use super::shared::{Requests, Shared};
use crate::samples::Sample;

/// Opens streams until all samples have arrived, a permanent error occurs, or the sampler is gone.
///
/// With `watched`, the connection checks whether the server still has its previous content after a stream has broken.
pub(super) async fn run(
    shared: Arc<Shared>,
    worker: usize,
    mut channel: GrpcChannel,
    watched: Option<Connection>,
) {
    let mut backoff = Backoff::default();
    while let Some(stream) = shared.begin_stream(worker) {
        let started = Instant::now();
        let ended = one_stream(&shared, worker, stream, &mut channel).await;
        let owed = shared.end_stream(worker);
        match ended {
            Ok(()) if !owed => continue,
            Ok(()) => shared.stream_broke("the server ended the stream"),
            Err(StreamEnd::Status(status)) if is_limiter_timeout(&status) => {
                shared.limiter_timed_out(status).await;
                continue;
            }
            Err(StreamEnd::Status(status)) if is_transient_status(&status) => {
                tracing::debug!(%status, "sample stream broke");
                shared.stream_broke(status.message());
            }
            Err(StreamEnd::Status(status)) => return shared.fail(status_error("sample", status)),
            Err(StreamEnd::Permanent(error)) => return shared.fail(error),
        }
        if let Some(connection) = &watched {
            connection.watch_for_return(shared.take_known_inserts());
        }
        sleep(backoff.wait_after(started.elapsed())).await;
    }
}

/// Runs one stream from its opening to its end.
async fn one_stream(
    shared: &Arc<Shared>,
    worker: usize,
    stream: u64,
    channel: &mut GrpcChannel,
) -> Result<(), StreamEnd> {
    let requests = Requests { shared: Arc::clone(shared), worker, stream };
    let mut responses = Responses::open(channel, SAMPLE_STREAM, requests).await?;
    shared.note_answer();
    let mut assembler = Assembler::default();
    let (mut received, mut samples) = (Vec::new(), Vec::new());
    while let Some(message) = responses.message().await? {
        assembler.push(&message, &mut received)?;
        samples.extend(received.drain(..).map(Sample::received));
        shared.deliver(worker, &mut samples).map_err(StreamEnd::Permanent)?;
    }
    Ok(())
}
