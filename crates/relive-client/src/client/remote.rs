//! The connection to a server.

use relive_wire::reverb::reverb_service_client::ReverbServiceClient;
use relive_wire::v1::replay_service_client::ReplayServiceClient;
use tonic::transport::{Channel, Endpoint};

use super::ClientOptions;
use super::address::to_uri;
use crate::bulk::Routes;
use crate::sampler::StreamPool;
use crate::{Error, ErrorKind, Result};

/// dm-reverb's protocol on our connection.
pub(crate) type Stub = ReverbServiceClient<Channel>;

/// The largest HTTP/2 frame that the server may send. A 400 kB item in 16 KiB frames, the default, would cost 25
/// frame headers and wake-ups.
const MAX_FRAME_BYTES: u32 = 1 << 20;

/// A server at an address. Nothing is connected before the first call.
pub(crate) struct Remote {
    uri: String,
    endpoint: Endpoint,
    channel: Channel,
    /// Connections for calls that have one to themselves.
    streams: StreamPool,
    /// The ways for batches.
    routes: Routes,
}

impl Remote {
    pub(super) fn new(address: &str, options: &ClientOptions) -> Result<Remote> {
        let uri = to_uri(address)?;
        let endpoint = Endpoint::from_shared(uri.clone()).map_err(|error| {
            let text = format!("cannot use the server address {address:?}: {error}");
            Error::with_source(ErrorKind::InvalidArgument, text, error)
        })?;
        let endpoint = endpoint
            .connect_timeout(options.connect_timeout)
            .tcp_nodelay(true)
            .tcp_keepalive(Some(options.tcp_keepalive))
            .initial_stream_window_size(options.stream_window_bytes)
            .initial_connection_window_size(options.connection_window_bytes)
            .max_frame_size(MAX_FRAME_BYTES);
        let channel = endpoint.connect_lazy();
        Ok(Remote { uri, endpoint, channel, streams: StreamPool::default(), routes: Routes::default() })
    }

    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// `host:port`.
    pub(crate) fn authority(&self) -> &str {
        self.uri.strip_prefix("http://").unwrap_or(&self.uri)
    }

    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn streams(&self) -> &StreamPool {
        &self.streams
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Messages may have any size, as with dm-reverb: what bounds them is the items that the tables hold.
    pub(crate) fn stub(&self) -> Stub {
        ReverbServiceClient::new(self.channel.clone())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX)
    }

    pub(crate) fn own_stub(&self) -> ReplayServiceClient<Channel> {
        ReplayServiceClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }
}
