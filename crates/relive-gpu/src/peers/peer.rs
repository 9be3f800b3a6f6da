//! A store on another machine.

use std::sync::Arc;

use parking_lot::Mutex;
use relive_transport::{Frames, Purpose, Socket};
use relive_wire::bulk::FrameKind;
use tokio::net::TcpStream;

use super::link::{Lease, Link, PendingAnswer};
use super::messages::{Described, MAGIC, VERSION, decode_error};
use super::network::Network;
use crate::error::{Error, Result};
use crate::schema::Schema;

/// A store in another process, usually on another machine, whose rows are read over a connection. Cheap to clone.
///
/// If the connection was lost, or a call on it was abandoned, the next call that pins rows opens a new connection.
#[derive(Clone, Debug)]
pub struct Peer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    network: Network,
    address: String,
    what: Arc<str>,
    described: Described,
    link: Mutex<Arc<Link>>,
}

impl Peer {
    /// Connects to the store that a [`RowServer`](crate::RowServer) serves at `host:port`.
    ///
    /// # Errors
    /// `Unavailable` if no server answers within the network's patience, or it refuses the token, the certificate or
    /// the version; `Corrupt` if the other side is not a `RowServer`.
    pub fn connect(network: &Network, address: &str) -> Result<Self> {
        let what: Arc<str> = format!("the store at {address}").into();
        let (frames, described) =
            network.wait(&format!("connecting to {what}"), open(network, address, &what))?;
        let what: Arc<str> = format!("rank {} at {address}", described.rank).into();
        let link = Link::new(Arc::clone(&what), frames, network.handle().clone());
        let (network, address) = (network.clone(), address.to_owned());
        let shared = Shared { network, address, what, described, link: Mutex::new(link) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the schema of the store's trajectories.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.shared.described.schema
    }

    pub(crate) fn described(&self) -> &Described {
        &self.shared.described
    }

    pub(crate) fn network(&self) -> &Network {
        &self.shared.network
    }

    /// Returns the store's description, for errors.
    pub(crate) fn what(&self) -> &str {
        &self.shared.what
    }

    /// Requests pins on rows; reconnects if the connection has been lost.
    pub(crate) async fn pin(&self, indices: &[u64], is_sample: bool) -> Result<(PendingAnswer, Lease)> {
        loop {
            let link = self.link().await?;
            if let Some(asked) = link.pin(indices, is_sample).await? {
                return Ok(asked);
            }
        }
    }

    /// Makes the next request for pins open a new connection. Rows that are already pinned can still be read.
    pub(crate) fn reconnect(&self) {
        self.shared.link.lock().retire();
    }

    async fn link(&self) -> Result<Arc<Link>> {
        let shared = &*self.shared;
        let link = Arc::clone(&shared.link.lock());
        if !link.is_retired() {
            return Ok(link);
        }
        let (frames, described) = open(&shared.network, &shared.address, &shared.what).await?;
        if described != shared.described {
            return Err(Error::invalid(format!(
                "{} was replaced by a store of {} trajectories of {}; create the stores of all ranks again",
                shared.what,
                described.capacity,
                described.schema.describe()
            )));
        }
        let link = Link::new(Arc::clone(&shared.what), frames, shared.network.handle().clone());
        *shared.link.lock() = Arc::clone(&link);
        Ok(link)
    }
}

/// Opens a connection to a store, and receives the store's description of itself.
async fn open(network: &Network, address: &str, what: &str) -> Result<(Frames, Described)> {
    let options = network.options();
    let refused = |error: std::io::Error| Error::unavailable(format!("cannot reach {what}: {error}"));
    let tcp = TcpStream::connect(address).await.map_err(refused)?;
    let socket = match &options.client_tls {
        None => Socket::over_tcp(tcp).map_err(refused)?,
        Some(tls) => {
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            let host = host.trim_start_matches('[').trim_end_matches(']');
            Socket::connect_tls(tcp, host, tls, Purpose::Bulk).await.map_err(refused)?
        }
    };
    let mut frames = Frames::new(socket);
    let greeting = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
    frames.send(&mut [std::io::IoSlice::new(&greeting)]).await.map_err(refused)?;
    let token = options.token.as_deref().unwrap_or_default();
    frames.send_frame(FrameKind::OpenRows, token.as_bytes(), &[]).await.map_err(refused)?;
    let answer = frames.next().await;
    let answer =
        answer.map_err(|error| Error::corrupt(format!("{what} is not a store of trajectories: {error}")))?;
    match answer {
        Some((header, head)) if header.kind == FrameKind::RowsOpened => {
            Ok((frames, Described::decode(&head, what)?))
        }
        Some((header, head)) if header.kind == FrameKind::RowsRefused => Err(decode_error(&head, what)),
        Some((header, _)) => {
            Err(Error::corrupt(format!("{what} answered with a frame of kind {:?}", header.kind)))
        }
        None => Err(Error::unavailable(format!(
            "{what} closed the connection at once; check that it is a store of trajectories, and that both sides use TLS or neither does"
        ))),
    }
}
