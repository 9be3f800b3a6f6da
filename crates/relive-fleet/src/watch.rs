//! The task that watches one server.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use relive_connection::{Connection, Error, ErrorKind, Result, ReverbStub, ServerInfo, status_error};
use relive_wire::reverb::ServerInfoRequest;
use tokio::time::{Instant, sleep, timeout};

use crate::fleet::{Fleet, WeakFleet};
use crate::member::Member;

/// How long it may take to propose the structures of items to a joining server.
const PROPOSAL_TIMEOUT: Duration = Duration::from_millis(500);

/// Adds a server to the fleet, and starts a task that watches it.
pub(crate) fn add(fleet: &Arc<Fleet>, address: String, connection: Connection) {
    if let Some(server) = fleet.add(address, connection) {
        fleet.spawn(run(Arc::downgrade(fleet), server));
    }
}

/// Requests the server's tables repeatedly, until the server is retired or its client is dropped. Uses a separate
/// connection, because on a connection that carries samples, a response would wait until the samples are taken.
async fn run(fleet: WeakFleet, server: Arc<Member>) {
    let mut stub = server.connection().dedicated_stub();
    while !server.retired.load(Ordering::Relaxed) {
        let requested_at = Instant::now();
        let Some(limit) = fleet.upgrade().map(|fleet| fleet.options.answer_limit()) else { return };
        let answer = answer_within(limit, ask(&mut stub)).await;
        let Some(fleet) = fleet.upgrade() else { return };
        record(&fleet, &server, requested_at, answer).await;
        drop(fleet);
        let pause = pin!(sleep(server.next_refresh()));
        tokio::select! { () = pause => {}, () = server.refresh_requested() => {} }
    }
}

/// Returns the response, if it arrives in time. If this process itself was not scheduled in the meantime, checks again
/// before treating the server as failed.
async fn answer_within(
    limit: Duration,
    answer: impl Future<Output = Result<ServerInfo>>,
) -> Result<ServerInfo> {
    let mut answer = pin!(answer);
    for limit in [limit, limit / 4] {
        if let Ok(answer) = timeout(limit, answer.as_mut()).await {
            return answer;
        }
    }
    Err(Error::new(ErrorKind::Unavailable, format!("it has not answered within {limit:?}")))
}

async fn ask(stub: &mut ReverbStub) -> Result<ServerInfo> {
    match stub.server_info(ServerInfoRequest {}).await {
        Ok(answer) => ServerInfo::from_message(&answer.into_inner()),
        Err(status) => Err(status_error("server_info", status)),
    }
}

async fn record(fleet: &Arc<Fleet>, server: &Arc<Member>, requested_at: Instant, answer: Result<ServerInfo>) {
    let info = match answer {
        Ok(info) => info,
        Err(error) => return fleet.failed(server, &error.to_string()),
    };
    if !server.is_up() {
        // The server may have restarted, so the structures are proposed before there are any items.
        for proposal in fleet.proposals.all() {
            server.connection().propose(&proposal, PROPOSAL_TIMEOUT).await;
        }
    }
    let _one_at_a_time = fleet.joining.lock();
    server.identify(info.state_id);
    let servers = fleet.members();
    let twin = servers
        .iter()
        .find(|other| other.number() != server.number() && other.is_up() && other.is_the_same_as(server));
    match twin {
        Some(twin) if twin.number() < server.number() => return fleet.failed(server, &is_the_same(twin)),
        Some(twin) => fleet.failed(twin, &is_the_same(server)),
        None => {}
    }
    fleet.answered(server, requested_at, &info.tables);
}

fn is_the_same(other: &Member) -> String {
    format!("it is another address of the server at {}", other.address())
}
