//! Paths to RPCs.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use relive_wire::Message;
use relive_wire::limits::MAX_MESSAGE_BYTES;
use relive_wire::request::check_insert;
use tonic::Status;
use tonic::body::Body;

use super::arrival::Arrival;
use super::insert::InsertSession;
use super::messages::Messages;
use super::sample::SampleSession;
use super::{Services, checkpoint, columns, describe, initialize, items, operate, replies, tables};
use crate::access::{Access, Role};
use crate::bulk::negotiate;
use crate::limits::{MAX_CALL_BYTES, MAX_SAMPLE_REQUEST_BYTES, MAX_STRUCTURE_BYTES};
use crate::traffic::{Line, Load};

/// The services towards one peer.
#[derive(Debug, Clone)]
pub(crate) struct PeerService {
    services: Services,
    peer: Arc<str>,
    access: Access,
    line: Line,
}

type Reply = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl PeerService {
    pub(super) fn new(services: Services, peer: Arc<str>, access: Access, line: Line) -> Self {
        Self { services, peer, access, line }
    }
}

impl hyper::service::Service<Request<Incoming>> for PeerService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Reply;

    fn call(&self, request: Request<Incoming>) -> Reply {
        let Self { services, peer, access, line } = self.clone();
        let (head, body) = request.into_parts();
        let body = Arrival::new(body, &line);
        Box::pin(async move {
            let path = head.uri.path();
            let call = path.rsplit('/').next().unwrap_or(path);
            match access.check_headers(&head.headers, call, role_for(call)) {
                Ok(()) => Ok(route(services, peer, &line, path, body).await),
                Err(status) => Ok(status.into_http()),
            }
        })
    }
}

/// The role that a call needs.
fn role_for(call: &str) -> Role {
    match call {
        "SampleStream"
        | "ServerInfo"
        | "InitializeConnection"
        | "Describe"
        | "CheckpointStatus"
        | "Negotiate"
        | "ListItems"
        | "GetItems" => Role::Read,
        "InsertStream" | "MutatePriorities" | "NameColumns" => Role::Write,
        _ => Role::Admin,
    }
}

async fn route(services: Services, peer: Arc<str>, line: &Line, path: &str, body: Arrival) -> Response<Body> {
    match path {
        "/deepmind.reverb.ReverbService/InsertStream" => {
            let requests = Messages::new(body, MAX_MESSAGE_BYTES).checked(check_insert);
            replies::of_stream(InsertSession::new(&services, &peer, line, requests))
        }
        "/deepmind.reverb.ReverbService/SampleStream" => replies::of_body(SampleSession::new(
            &services,
            &peer,
            line,
            Messages::new(body, MAX_SAMPLE_REQUEST_BYTES),
        )),
        "/deepmind.reverb.ReverbService/MutatePriorities" => {
            unary(body, line, |message| tables::mutate_priorities(&services, &message)).await
        }
        "/deepmind.reverb.ReverbService/Reset" => {
            unary(body, line, |message| tables::reset(&services, &peer, &message)).await
        }
        "/deepmind.reverb.ReverbService/ServerInfo" => {
            unary(body, line, |message| Ok(tables::server_info(&services, message))).await
        }
        "/deepmind.reverb.ReverbService/Checkpoint" => replies::of_result(match message(body, line).await {
            Ok(message) => checkpoint::checkpoint(services, message).await,
            Err(status) => Err(status),
        }),
        "/deepmind.reverb.ReverbService/InitializeConnection" => {
            unary(body, line, initialize::initialize).await
        }
        "/relive.v1.ReplayService/Describe" => {
            unary(body, line, |message| Ok(describe::describe(&services, message))).await
        }
        "/relive.v1.ReplayService/CheckpointStatus" => {
            unary(body, line, |message| Ok(checkpoint::checkpoint_status(&services, message))).await
        }
        "/relive.v1.ReplayService/ChangeTable" => replies::of_result(match message(body, line).await {
            Ok(message) => operate::change_table(services, peer, message).await,
            Err(status) => Err(status),
        }),
        "/relive.v1.ReplayService/AddTable" => {
            unary(body, line, |message| operate::add_table(&services, &peer, &message)).await
        }
        "/relive.v1.ReplayService/DropTable" => replies::of_result(match message(body, line).await {
            Ok(message) => operate::drop_table(services, peer, message).await,
            Err(status) => Err(status),
        }),
        "/relive.v1.ReplayService/Negotiate" => {
            unary(body, line, |message| Ok(negotiate(&services, message))).await
        }
        "/relive.v1.ReplayService/ListItems" => {
            unary(body, line, |message| items::list(&services, &message)).await
        }
        "/relive.v1.ReplayService/GetItems" => {
            match message(body, line).await.and_then(|message| items::get(&services, message)) {
                Ok(items) => replies::of_body(items),
                Err(status) => status.into_http(),
            }
        }
        "/relive.v1.ReplayService/NameColumns" => {
            let message = message_within(body, line, MAX_STRUCTURE_BYTES).await;
            replies::of_result(message.and_then(|message| columns::name(&services, &message)))
        }
        path => {
            Status::unimplemented(format!("there is no RPC {}", path.get(..200).unwrap_or(path))).into_http()
        }
    }
}

/// A call of one message and one answer.
async fn unary<Q, R>(body: Arrival, line: &Line, act: impl FnOnce(Q) -> Result<R, Status>) -> Response<Body>
where
    Q: Message + Default,
    R: Message + Unpin + 'static,
{
    replies::of_result(message(body, line).await.and_then(act))
}

/// The one message of a call.
async fn message<Q: Message + Default>(body: Arrival, line: &Line) -> Result<Q, Status> {
    message_within(body, line, MAX_CALL_BYTES).await
}

/// The one message of a call, of so many bytes at most. What comes bit by bit counts as in flight until it is whole.
async fn message_within<Q: Message + Default>(
    body: Arrival,
    line: &Line,
    max_bytes: usize,
) -> Result<Q, Status> {
    let mut messages = Messages::new(body, max_bytes);
    let mut load = None;
    loop {
        if !poll_fn(|cx| messages.poll_more(cx)).await? {
            return Err(Status::internal("the stream ended before its first message"));
        }
        if let Some(whole) = messages.take_whole() {
            load.into_iter().for_each(Load::arrived);
            return whole;
        }
        let load = match &mut load {
            Some(load) => load,
            none => none.insert(line.passage().take(0).await),
        };
        let come = messages.held_bytes();
        poll_fn(|cx| load.poll_grow(come, cx)).await;
    }
}
