//! The route to a service: direct, or through a proxy.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::storage::bucket::limits::CONNECT_TIMEOUT;

/// Opens connections.
#[derive(Clone)]
pub(super) struct Route {
    direct: HttpConnector,
    proxies: Arc<Matcher>,
}

impl Route {
    /// Uses the proxies given by HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY.
    pub(super) fn from_environment() -> Self {
        let mut direct = HttpConnector::new();
        direct.enforce_http(false);
        direct.set_nodelay(true);
        direct.set_connect_timeout(Some(CONNECT_TIMEOUT));
        Self { direct, proxies: Arc::new(Matcher::from_env()) }
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Proxy URLs contain passwords.
        f.debug_struct("Route").finish_non_exhaustive()
    }
}

type Opening<T> = Pin<Box<dyn Future<Output = Result<T, Box<dyn Error + Send + Sync>>> + Send>>;

impl Service<Uri> for Route {
    type Response = TokioIo<TcpStream>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Opening<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.direct.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let Some(proxy) = self.proxies.intercept(&to) else {
            let opening = self.direct.call(to);
            return Box::pin(async { opening.await.map_err(Into::into) });
        };
        let tunnel = Tunnel::new(proxy.uri().clone(), self.direct.clone());
        let mut tunnel = match proxy.basic_auth() {
            Some(password) => tunnel.with_auth(password.clone()),
            None => tunnel,
        };
        let opening = tunnel.call(to);
        Box::pin(async { opening.await.map_err(Into::into) })
    }
}
