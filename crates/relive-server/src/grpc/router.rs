//! Paths to RPCs.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use relive_wire::limits::MAX_MESSAGE_BYTES;
use relive_wire::{Message, ProstCodec};
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::{Status, Streaming};
use tower::service_fn;

use super::insert::InsertSession;
use super::{Services, describe, initialize, sample, tables};

/// The services towards one peer.
#[derive(Debug, Clone)]
pub(crate) struct PeerService {
    services: Services,
    peer: Arc<str>,
}

type Reply = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl PeerService {
    pub(super) fn new(services: Services, peer: Arc<str>) -> Self {
        Self { services, peer }
    }
}

impl hyper::service::Service<Request<Incoming>> for PeerService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Reply;

    fn call(&self, request: Request<Incoming>) -> Reply {
        let Self { services, peer } = self.clone();
        Box::pin(async move { Ok(route(services, peer, request).await) })
    }
}

async fn route(services: Services, peer: Arc<str>, request: Request<Incoming>) -> Response<Body> {
    match request.uri().path() {
        "/deepmind.reverb.ReverbService/InsertStream" => {
            let begin = |requests| InsertSession::new(&services, &peer, requests);
            grpc().streaming(service_fn(|request| answer(request, begin)), request).await
        }
        "/deepmind.reverb.ReverbService/SampleStream" => sample::respond(&services, &peer, request),
        "/deepmind.reverb.ReverbService/MutatePriorities" => {
            unary(request, |message| tables::mutate_priorities(&services, &message)).await
        }
        "/deepmind.reverb.ReverbService/Reset" => {
            unary(request, |message| tables::reset(&services, &message)).await
        }
        "/deepmind.reverb.ReverbService/ServerInfo" => {
            unary(request, |message| Ok(tables::server_info(&services, message))).await
        }
        "/deepmind.reverb.ReverbService/Checkpoint" => unary(request, tables::checkpoint).await,
        "/deepmind.reverb.ReverbService/InitializeConnection" => {
            grpc().streaming(service_fn(initialize::initialize), request).await
        }
        "/relive.v1.ReplayService/Describe" => {
            unary(request, |message| Ok(describe::describe(&services, message))).await
        }
        path => Status::unimplemented(format!("there is no RPC {path}")).into_http(),
    }
}

fn grpc<Q, R>() -> Grpc<ProstCodec<R, Q>>
where
    Q: Message + Default + 'static,
    R: Message + 'static,
{
    Grpc::new(ProstCodec::default()).max_decoding_message_size(MAX_MESSAGE_BYTES)
}

async fn unary<Q, R>(
    request: Request<Incoming>,
    mut act: impl FnMut(Q) -> Result<R, Status>,
) -> Response<Body>
where
    Q: Message + Default + 'static,
    R: Message + 'static,
{
    let service =
        service_fn(|request: tonic::Request<Q>| ready(act(request.into_inner()).map(tonic::Response::new)));
    grpc().unary(service, request).await
}

/// The stream that `begin` makes, as tonic wants it.
fn answer<Q, S>(
    request: tonic::Request<Streaming<Q>>,
    begin: impl FnOnce(Streaming<Q>) -> S,
) -> impl Future<Output = Result<tonic::Response<S>, Status>> {
    ready(Ok(tonic::Response::new(begin(request.into_inner()))))
}
