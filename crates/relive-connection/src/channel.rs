//! gRPC to a server: connections, and the metadata of every call.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use relive_transport::tls::ClientTls;
use relive_transport::{Purpose, Socket};
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

/// Creates channels to one server. A channel connects on its first call.
#[derive(Debug, Clone)]
pub struct Channels {
    pub(crate) endpoint: Endpoint,
    pub(crate) tls: Option<TlsTarget>,
    pub(crate) authorization: Option<HeaderValue>,
}

impl Channels {
    /// Creates a channel with its own connection. Must be called inside a Tokio runtime.
    pub fn make(&self) -> GrpcChannel {
        let channel = match &self.tls {
            Some(target) => self.endpoint.connect_with_connector_lazy(Dial(target.clone())),
            None => self.endpoint.connect_lazy(),
        };
        GrpcChannel { channel, authorization: self.authorization.clone() }
    }
}

/// A channel that sends the client's token with every call.
#[derive(Debug, Clone)]
pub struct GrpcChannel {
    channel: Channel,
    authorization: Option<HeaderValue>,
}

impl Service<Request<Body>> for GrpcChannel {
    type Response = Response<Body>;
    type Error = <Channel as Service<Request<Body>>>::Error;
    type Future = <Channel as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::poll_ready(&mut self.channel, cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        Service::call(&mut self.channel, request)
    }
}

/// A server that is reached with TLS.
#[derive(Debug, Clone)]
pub(crate) struct TlsTarget {
    /// `host:port`.
    pub(crate) authority: String,
    pub(crate) tls: ClientTls,
    /// The name that the server's certificate must have, if it is not the host.
    pub(crate) name: Option<Arc<str>>,
}

impl TlsTarget {
    /// Connects and completes the handshake.
    pub(crate) async fn connect(&self, purpose: Purpose) -> io::Result<Socket> {
        let host = self.authority.rsplit_once(':').map_or(self.authority.as_str(), |(host, _)| host);
        let host = self.name.as_deref().unwrap_or(host);
        let socket = TcpStream::connect(&self.authority).await?;
        Socket::connect_tls(socket, host, &self.tls, purpose).await
    }
}

/// Connections for a channel.
#[derive(Debug, Clone)]
struct Dial(TlsTarget);

impl Service<Uri> for Dial {
    type Response = TokioIo<Socket>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Socket>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let target = self.0.clone();
        Box::pin(async move { target.connect(Purpose::Grpc).await.map(TokioIo::new) })
    }
}
