//! Sends requests and receives complete responses.

use std::sync::Arc;

use async_trait::async_trait;
use http::Response;
use http::header::{HeaderValue, USER_AGENT};
use http_body_util::BodyExt;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpService,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::time::timeout;

use super::failure;
use super::route::Route;
use crate::storage::bucket::limits::REQUEST_TIMEOUT;

/// The user agent that is sent to the service.
const AGENT: &str = concat!("relive/", env!("CARGO_PKG_VERSION"));

/// Provides HTTP to the services' clients.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let tls =
            tls().map_err(|error| object_store::Error::Generic { store: "TLS", source: error.into() })?;
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
        // An endpoint without TLS was configured by the user, for a service in the same network.
        let connector = builder.https_or_http().enable_http1().wrap_connector(Route::from_environment());
        let client = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Ok(HttpClient::new(Http { client }))
    }
}

/// Trusts the system's certificates, or those given by SSL_CERT_FILE and SSL_CERT_DIR.
fn tls() -> Result<ClientConfig, rustls::Error> {
    let builder = || {
        let provider = Arc::new(ring::default_provider());
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
    };
    let trusting = match builder()?.with_native_roots() {
        Ok(trusting) => trusting,
        Err(error) => {
            tracing::warn!(
                %error,
                "cannot read the system's certificates, so https will fail: install the package \
                 ca-certificates, or set SSL_CERT_FILE to a file"
            );
            builder()?.with_root_certificates(RootCertStore::empty())
        }
    };
    Ok(trusting.with_no_client_auth())
}

/// A pool of connections.
#[derive(Debug)]
struct Http {
    client: Client<HttpsConnector<Route>, HttpRequestBody>,
}

#[async_trait]
impl HttpService for Http {
    /// Returns the complete response. No requested response is larger than one range or one part of a file, so one time
    /// limit covers the whole response, and an interrupted response is retried like a refused request.
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        request.headers_mut().entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
        let answer = async {
            let (head, body) = self.client.request(request).await.map_err(failure::classified)?.into_parts();
            let body = body.collect().await.map_err(failure::classified)?.to_bytes();
            Ok(Response::from_parts(head, body.into()))
        };
        match timeout(REQUEST_TIMEOUT, answer).await {
            Ok(answer) => answer,
            Err(late) => Err(HttpError::new(HttpErrorKind::Timeout, late)),
        }
    }
}
