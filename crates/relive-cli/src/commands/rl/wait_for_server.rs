//! Waits for a run's server.

use std::pin::pin;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

use crate::failure::{Failure, Kind, Result};
use crate::server::Target;

/// How long to wait silently for a server that is unreachable or does not answer.
const GRACE: Duration = Duration::from_secs(1);

/// Time between two attempts.
const TRY_EVERY: Duration = Duration::from_millis(200);

/// Waits until the server answers, up to the target's timeout, because processes of a run may start before the server
/// does.
pub(super) fn wait_for_server(target: &Target) -> Result {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::text(Kind::Runtime, error))?;
    runtime.block_on(connect(target))
}

async fn connect(target: &Target) -> Result {
    let since = Instant::now();
    let mut is_logged = false;
    let client = loop {
        let failure = match target.connect().await {
            Ok(client) => break client,
            Err(failure) => failure,
        };
        if failure.kind() != Some(Kind::Unreachable) || since.elapsed() >= target.timeout {
            return Err(failure);
        }
        if !is_logged && since.elapsed() >= GRACE {
            let limit = target.timeout.as_secs_f64();
            tracing::warn!("{}; waiting up to {limit} s (--timeout)", failure.message());
            is_logged = true;
        }
        sleep(TRY_EVERY).await;
    };
    let patient = client.with_timeout(target.timeout);
    let mut asked = pin!(patient.server_info());
    let answered = tokio::select! {
        answered = &mut asked => answered,
        () = sleep(GRACE) => {
            let (address, limit) = (&target.address, target.timeout.as_secs_f64());
            tracing::warn!("{address} accepts connections, but does not answer; waiting up to {limit} s (--timeout)");
            asked.await
        }
    };
    answered.map(drop).map_err(|error| target.explain(error))
}
