//! The task that watches one server.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use relive_wire::reverb::ServerInfoRequest;
use relive_wire::reverb::reverb_service_client::ReverbServiceClient;
use tokio::time::{Instant, sleep, timeout};

use super::fleet::{Many, Used};
use super::server::Server;
use crate::client::{Connection, GrpcChannel, ServerInfo};
use crate::{Error, ErrorKind, Result};

/// How long a server that joins may take to hear what items look like.
const PROPOSAL_LIMIT: Duration = Duration::from_millis(500);

type Stub = ReverbServiceClient<GrpcChannel>;

/// Asks the server for its tables again and again, until it is retired or its client is gone. It has a connection of its own:
/// on one that carries samples, an answer would wait until they are taken.
pub(super) async fn run(many: Used, server: Arc<Server>) {
    let Connection::Remote(remote) = server.client().connection() else { return };
    let mut stub = ReverbServiceClient::new(remote.channels().make()).max_decoding_message_size(usize::MAX);
    while !server.retired.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let Some(limit) = many.upgrade().map(|many| many.options.answer_timeout) else { return };
        let answer = answer_within(limit, ask(&mut stub)).await;
        let Some(many) = many.upgrade() else { return };
        take_note(&many, &server, asked, answer).await;
        drop(many);
        let pause = pin!(sleep(server.next_question()));
        tokio::select! { () = pause => {}, () = server.poke.notified() => {} }
    }
}

/// The answer, if it comes in time. A process that was not let run itself looks for it once more before it blames the server.
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

async fn ask(stub: &mut Stub) -> Result<ServerInfo> {
    match stub.server_info(ServerInfoRequest {}).await {
        Ok(answer) => ServerInfo::from_message(&answer.into_inner()),
        Err(status) => Err(Error::from_status("server_info", status)),
    }
}

async fn take_note(many: &Arc<Many>, server: &Arc<Server>, asked: Instant, answer: Result<ServerInfo>) {
    let info = match answer {
        Ok(info) => info,
        Err(error) => return many.failed(server, &error.to_string()),
    };
    if !server.is_up() {
        // It may have begun anew: what items look like is told before there are any.
        for proposal in many.proposals.all() {
            server.client().propose_within(&proposal, PROPOSAL_LIMIT).await;
        }
    }
    let _one_at_a_time = many.joining.lock();
    server.identify(info.state_id);
    let servers = many.servers();
    let twin = servers
        .iter()
        .find(|other| other.number != server.number && other.is_up() && other.is_the_same_as(server));
    match twin {
        Some(twin) if twin.number < server.number => return many.failed(server, &is_the_same(twin)),
        Some(twin) => many.failed(twin, &is_the_same(server)),
        None => {}
    }
    many.answered(server, asked, &info.tables);
}

fn is_the_same(other: &Server) -> String {
    format!("it is the server at {} under another address", other.address())
}
