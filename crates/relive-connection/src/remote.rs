//! The connection to a server.

use std::sync::Arc;

use http::HeaderValue;
use relive_transport::tls::ClientTls;
use relive_wire::reverb::reverb_service_client::ReverbServiceClient;
use relive_wire::v1::replay_service_client::ReplayServiceClient;
use tonic::transport::Endpoint;

use crate::address::Address;
use crate::channel::{Channels, GrpcChannel, TlsTarget};
use crate::options::ClientOptions;
use crate::{Error, ErrorKind, Result};

/// A client for dm-reverb's protocol on our connection.
pub type ReverbStub = ReverbServiceClient<GrpcChannel>;

/// The largest HTTP/2 frame that the server may send. A 400 kB item in 16 KiB frames, the default, would cost 25
/// frame headers and wake-ups.
const MAX_FRAME_BYTES: u32 = 1 << 20;

/// A server at an address. It connects on the first call.
pub(crate) struct Remote {
    address: Address,
    channels: Channels,
    channel: GrpcChannel,
    token: Option<Arc<str>>,
}

impl Remote {
    pub(crate) fn new(address: &str, options: &ClientOptions) -> Result<Remote> {
        let parsed = Address::parse(address, options.tls.is_some())?;
        let channels = Channels {
            endpoint: endpoint(&parsed, options).map_err(|error| {
                let text = format!("cannot use the server address {address:?}: {error}");
                Error::with_source(ErrorKind::InvalidArgument, text, error)
            })?,
            tls: tls_target(&parsed, options)?,
            authorization: options.token.as_deref().map(authorization).transpose()?,
        };
        if options.token.is_some() && !parsed.has_tls() && !parsed.is_loopback() {
            tracing::warn!(
                address = parsed.uri(),
                "without TLS, others on the network can read the token; use an https:// address, or give the \
                 authority of the server's certificate: tls= in Python, --tls-ca on the command line"
            );
        }
        let channel = channels.make();
        Ok(Remote { address: parsed, channels, channel, token: options.token.clone() })
    }

    pub(crate) fn uri(&self) -> &str {
        self.address.uri()
    }

    /// Returns `host:port`.
    pub(crate) fn authority(&self) -> &str {
        self.address.authority()
    }

    pub(crate) fn tls(&self) -> Option<&TlsTarget> {
        self.channels.tls.as_ref()
    }

    pub(crate) fn token(&self) -> Option<&Arc<str>> {
        self.token.as_ref()
    }

    pub(crate) fn channels(&self) -> &Channels {
        &self.channels
    }

    pub(crate) fn channel(&self) -> &GrpcChannel {
        &self.channel
    }
}

/// Returns a client for Relive's own calls.
pub(crate) fn replay_stub(channel: GrpcChannel) -> ReplayServiceClient<GrpcChannel> {
    ReplayServiceClient::new(channel).max_decoding_message_size(usize::MAX)
}

/// Returns a client for dm-reverb's protocol. Messages may have any size, as with dm-reverb. Their size is bounded by
/// the items of the tables.
pub(crate) fn stub(channel: GrpcChannel) -> ReverbStub {
    ReverbServiceClient::new(channel)
        .max_decoding_message_size(usize::MAX)
        .max_encoding_message_size(usize::MAX)
}

/// Tonic receives an address without TLS, because this crate handles TLS itself.
fn endpoint(address: &Address, options: &ClientOptions) -> Result<Endpoint, tonic::transport::Error> {
    let mut endpoint = Endpoint::from_shared(format!("http://{}", address.authority()))?;
    if let Ok(uri) = address.uri().parse() {
        endpoint = endpoint.origin(uri);
    }
    Ok(endpoint
        .connect_timeout(options.connect_timeout)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(options.tcp_keepalive))
        .initial_stream_window_size(options.stream_window_bytes)
        .initial_connection_window_size(options.connection_window_bytes)
        .max_frame_size(MAX_FRAME_BYTES))
}

/// Returns the TLS settings for an address. An address that begins with `https` uses the system's trusted certificates,
/// unless the options set others.
fn tls_target(address: &Address, options: &ClientOptions) -> Result<Option<TlsTarget>> {
    if !address.has_tls() {
        return Ok(None);
    }
    let tls = match &options.tls {
        Some(tls) => tls.clone(),
        None => ClientTls::new(None, None).map_err(|error| Error::invalid(error.to_string()))?,
    };
    let name = options.tls_name.clone();
    Ok(Some(TlsTarget { authority: address.authority().to_owned(), tls, name }))
}

/// Returns the header with a token.
fn authorization(token: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
        Error::invalid("the token has characters that are invalid in a header; use ASCII letters, digits and punctuation")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use relive_testkit::logs::warnings;

    use super::*;

    #[tokio::test]
    async fn a_token_that_others_can_read_is_warned_about_once() {
        let logged = |address: &str, token: Option<&str>| {
            let options = ClientOptions::default();
            let options = token.map_or(options.clone(), |token| options.token(token));
            warnings(|| {
                let remote = Remote::new(address, &options).unwrap();
                drop((remote.channels().make(), remote.channels().make()));
            })
        };
        for address in ["10.0.0.7:8000", "http://replay:8000", "[fe80::1]:8000"] {
            let texts = logged(address, Some("a secret"));
            assert!(texts.len() == 1 && texts[0].contains("can read the token"), "{address}: {texts:?}");
            assert_eq!(logged(address, None), [""; 0]);
        }
        for address in ["localhost:8000", "127.0.0.2:8000", "http://[::1]:8000", "https://replay:8000"] {
            assert_eq!(logged(address, Some("a secret")), [""; 0], "{address}");
        }
    }
}
