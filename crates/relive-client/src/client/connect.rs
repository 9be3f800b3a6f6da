//! The connection and its settings.

use std::fmt;
use std::sync::Arc;

use relive_wire::reverb::reverb_service_client::ReverbServiceClient;
use relive_wire::v1::replay_service_client::ReplayServiceClient;
use tonic::transport::{Channel, Endpoint};

use super::ClientOptions;
use super::address::to_uri;
use crate::writer::SignatureCache;
use crate::{Error, ErrorKind, Result};

/// dm-reverb's protocol on our connection.
pub(crate) type Stub = ReverbServiceClient<Channel>;

/// The largest HTTP/2 frame that the server may send. A 400 kB item in 16 KiB frames, the default, would cost 25
/// frame headers and wake-ups.
const MAX_FRAME_BYTES: u32 = 1 << 20;

/// A client of one replay server: Relive's or dm-reverb's.
///
/// Cheap to clone; clones share the connection. Nothing is connected before the first call, and a lost connection is
/// made again by the next one.
///
/// ```no_run
/// use relive_client::{Client, Nest, Tensor};
///
/// # async fn run() -> Result<(), relive_client::Error> {
/// let client = Client::connect("localhost:8000")?;
/// let step = Nest::List(vec![Nest::Leaf(Tensor::scalar(1.0_f32))]);
/// client.insert(&step, &[("replay", 1.0)]).await?;
/// let samples = client.sample("replay", 1).await?;
/// assert_eq!(samples[0].columns()?, [Tensor::from_slice(&[1.0_f32], [1]).expect("one value in one row")]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    uri: String,
    pub(super) options: ClientOptions,
    channel: Channel,
    pub(super) signatures: SignatureCache,
}

impl Client {
    /// A client of the server at `address`: `host:port` or `http://host:port`. Must be called inside a Tokio runtime;
    /// [`blocking::Client`](crate::blocking::Client) needs none.
    ///
    /// # Errors
    /// `InvalidArgument` for an address that cannot be one. Whether a server is there shows with the first call.
    pub fn connect(address: &str) -> Result<Client> {
        Client::connect_with(address, ClientOptions::default())
    }

    /// A client with other than the default options.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_with(address: &str, options: ClientOptions) -> Result<Client> {
        let uri = to_uri(address)?;
        let endpoint = Endpoint::from_shared(uri.clone()).map_err(|error| {
            let text = format!("cannot use the server address {address:?}: {error}");
            Error::with_source(ErrorKind::InvalidArgument, text, error)
        })?;
        let channel = endpoint
            .connect_timeout(options.connect_timeout)
            .tcp_nodelay(true)
            .tcp_keepalive(Some(options.tcp_keepalive))
            .initial_stream_window_size(options.stream_window_bytes)
            .initial_connection_window_size(options.connection_window_bytes)
            .max_frame_size(MAX_FRAME_BYTES)
            .connect_lazy();
        let shared = Shared { uri, options, channel, signatures: SignatureCache::default() };
        Ok(Client { shared: Arc::new(shared) })
    }

    /// The address as a URI.
    pub fn address(&self) -> &str {
        &self.shared.uri
    }

    /// How this client reaches its server.
    pub fn options(&self) -> &ClientOptions {
        &self.shared.options
    }

    /// Messages may have any size, as with dm-reverb: what bounds them is the items that the tables hold.
    pub(crate) fn stub(&self) -> Stub {
        ReverbServiceClient::new(self.shared.channel.clone())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX)
    }

    pub(super) fn own_stub(&self) -> ReplayServiceClient<Channel> {
        ReplayServiceClient::new(self.shared.channel.clone()).max_decoding_message_size(usize::MAX)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.address()).finish_non_exhaustive()
    }
}
