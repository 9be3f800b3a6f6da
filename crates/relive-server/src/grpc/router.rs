//! Maps paths to RPCs.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Request, Response};
use hyper::body::Incoming;
use relive_wire::Message;
use relive_wire::limits::MAX_MESSAGE_BYTES;
use relive_wire::request::{check_insert, check_keys};
use tonic::body::Body;
use tonic::{Code, Status};

use super::arrival::Arrival;
use super::insert::InsertSession;
use super::messages::Messages;
use super::open_calls::OpenCalls;
use super::rpc::Rpc;
use super::sample::SampleSession;
use super::{describe, items, operate, replies, tables};
use crate::access::{Access, Role};
use crate::limits::{MAX_CALL_BYTES, MAX_SAMPLE_REQUEST_BYTES, MAX_STRUCTURE_BYTES};
use crate::services::Services;
use crate::traffic::{ConnectionBudget, Load};

/// The services for one peer.
#[derive(Debug, Clone)]
pub(crate) struct PeerService {
    services: Services,
    peer: Arc<str>,
    access: Access,
    /// Whether the peer has made a call with a valid token, or needs none.
    is_known: Arc<AtomicBool>,
    connection_budget: ConnectionBudget,
    open_calls: Arc<OpenCalls>,
}

type Reply = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl PeerService {
    pub(crate) fn new(
        services: Services,
        peer: Arc<str>,
        access: Access,
        is_known: Arc<AtomicBool>,
        connection_budget: ConnectionBudget,
    ) -> Self {
        Self { services, peer, access, is_known, connection_budget, open_calls: Arc::default() }
    }

    pub(crate) fn open_calls(&self) -> Arc<OpenCalls> {
        Arc::clone(&self.open_calls)
    }
}

impl hyper::service::Service<Request<Incoming>> for PeerService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Reply;

    fn call(&self, request: Request<Incoming>) -> Reply {
        let Self { services, peer, access, is_known, connection_budget, open_calls } = self.clone();
        let call = open_calls.begin();
        let (head, body) = request.into_parts();
        let body = Arrival::new(body, &connection_budget);
        Box::pin(async move {
            let path = head.uri.path();
            let rpc = Rpc::from_path(path);
            let name = path.rsplit('/').next().unwrap_or(path);
            let role = rpc.map_or(Role::Admin, Rpc::role);
            let checked = access.check_headers(&head.headers, name, role);
            if !checked.as_ref().is_err_and(|status| status.code() == Code::Unauthenticated) {
                is_known.store(true, Ordering::Relaxed);
            }
            let reply = match (checked, rpc) {
                (Ok(()), Some(rpc)) => route(rpc, services, peer, &connection_budget, body).await,
                (Ok(()), None) => unknown(path),
                (Err(status), _) => status.into_http(),
            };
            Ok(call.until_sent(reply))
        })
    }
}

fn unknown(path: &str) -> Response<Body> {
    Status::unimplemented(format!("there is no RPC {}", path.get(..200).unwrap_or(path))).into_http()
}

async fn route(
    rpc: Rpc,
    services: Services,
    peer: Arc<str>,
    connection_budget: &ConnectionBudget,
    body: Arrival,
) -> Response<Body> {
    match rpc {
        Rpc::InsertStream => {
            let requests = Messages::new(body, MAX_MESSAGE_BYTES).checked(check_insert);
            replies::of_stream(InsertSession::new(&services, &peer, connection_budget, requests))
        }
        Rpc::SampleStream => {
            let requests = Messages::new(body, MAX_SAMPLE_REQUEST_BYTES);
            replies::of_body(SampleSession::new(&services, &peer, connection_budget, requests))
        }
        Rpc::MutatePriorities => {
            unary(body, connection_budget, |message| tables::mutate_priorities(&services, &message)).await
        }
        Rpc::Reset => {
            unary_async(body, connection_budget, |message| tables::reset(services, peer, message)).await
        }
        Rpc::ServerInfo => {
            unary(body, connection_budget, |message| Ok(tables::server_info(&services, message))).await
        }
        Rpc::Checkpoint => {
            unary_async(body, connection_budget, |message| operate::checkpoint(services, message)).await
        }
        Rpc::InitializeConnection => unary(body, connection_budget, describe::initialize).await,
        Rpc::Describe => {
            unary(body, connection_budget, |message| Ok(describe::describe(&services, message))).await
        }
        Rpc::CheckpointStatus => {
            unary(body, connection_budget, |message| Ok(operate::checkpoint_status(&services, message))).await
        }
        Rpc::ChangeTable => {
            unary_async(body, connection_budget, |message| operate::change_table(services, peer, message))
                .await
        }
        Rpc::AddTable => {
            unary(body, connection_budget, |message| operate::add_table(&services, &peer, &message)).await
        }
        Rpc::DropTable => {
            unary_async(body, connection_budget, |message| operate::drop_table(services, peer, message)).await
        }
        Rpc::Negotiate => {
            unary(body, connection_budget, |message| Ok(describe::negotiate(&services, message))).await
        }
        Rpc::ListItems => {
            let listed = match message(body, connection_budget).await {
                Ok(message) => items::list(services, connection_budget, message).await,
                Err(status) => Err(status),
            };
            replies::of_counted(listed.map(|(message, load)| (message, Some(load))))
        }
        Rpc::GetItems => {
            let messages = Messages::new(body, MAX_CALL_BYTES).checked(check_keys);
            let message = only_message(messages, connection_budget).await;
            match message.and_then(|message| items::get(&services, connection_budget, message)) {
                Ok(items) => replies::of_body(items),
                Err(status) => status.into_http(),
            }
        }
        Rpc::NameColumns => {
            let message = only_message(Messages::new(body, MAX_STRUCTURE_BYTES), connection_budget).await;
            let named = message.and_then(|message| tables::name_columns(&services, &message));
            replies::of_result(named, connection_budget)
        }
    }
}

/// Handles a call with one request and one response.
async fn unary<Q, R>(
    body: Arrival,
    connection_budget: &ConnectionBudget,
    act: impl FnOnce(Q) -> Result<R, Status>,
) -> Response<Body>
where
    Q: Message + Default,
    R: Message,
{
    replies::of_result(message(body, connection_budget).await.and_then(act), connection_budget)
}

/// Handles a call with one request and one response, with an asynchronous handler.
async fn unary_async<Q, R, F>(
    body: Arrival,
    connection_budget: &ConnectionBudget,
    act: impl FnOnce(Q) -> F,
) -> Response<Body>
where
    Q: Message + Default,
    R: Message,
    F: Future<Output = Result<R, Status>>,
{
    let result = match message(body, connection_budget).await {
        Ok(message) => act(message).await,
        Err(status) => Err(status),
    };
    replies::of_result(result, connection_budget)
}

/// Returns the only message in a call.
async fn message<Q: Message + Default>(
    body: Arrival,
    connection_budget: &ConnectionBudget,
) -> Result<Q, Status> {
    only_message(Messages::new(body, MAX_CALL_BYTES), connection_budget).await
}

/// Returns the only one of `messages`. Bytes of incomplete messages count toward the bytes in flight.
async fn only_message<Q: Message + Default>(
    mut messages: Messages<Q>,
    connection_budget: &ConnectionBudget,
) -> Result<Q, Status> {
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
            none => none.insert(connection_budget.stream_budget().take(0).await),
        };
        let received = messages.held_bytes();
        poll_fn(|cx| load.poll_grow(received, cx)).await;
    }
}
