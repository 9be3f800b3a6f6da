//! One connection: HTTP/2 with prior knowledge, or the bulk path, distinguished by the first bytes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use relive_transport::Socket;
use relive_transport::tls::ServerTls;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::time::Instant;

use super::load::LoadShare;
use crate::access::Access;
use crate::bulk;
use crate::grpc::PeerService;
use crate::limits::{
    CONFIRMATION_TIMEOUT, CONNECTION_WINDOW_BYTES, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT, MAX_FRAME_BYTES,
    MAX_HEADER_BYTES, MAX_STREAMS_PER_CONNECTION, PREFACE_TIMEOUT, SEND_BUFFER_BYTES, STREAM_WINDOW_BYTES,
    TLS_HANDSHAKE_TIMEOUT, TOKEN_TIMEOUT,
};
use crate::services::Services;
use crate::traffic::{ConnectionBudget, Metered};

/// The reason why a connection ended, if the client did not end it normally.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("neither HTTP/2 nor the bulk path began within {0:?}")]
    Silent(Duration),
    #[error("no TLS handshake within {0:?}")]
    NoTls(Duration),
    #[error("no call with a valid token within {0:?}")]
    NoToken(Duration),
    #[error("closed: other clients were waiting for the memory that this connection held")]
    Stalled,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
    #[error(transparent)]
    Bulk(#[from] bulk::Failure),
}

/// An accepted socket that is not registered with a thread's scheduler yet.
#[derive(Debug)]
pub(crate) enum Accepted {
    Tcp(std::net::TcpStream, Option<ServerTls>),
    Local(std::os::unix::net::UnixStream),
}

impl Accepted {
    async fn into_socket(self) -> Result<Socket, ConnectionError> {
        match self {
            Self::Tcp(socket, None) => Ok(Socket::over_tcp(TcpStream::from_std(socket)?)?),
            Self::Tcp(socket, Some(tls)) => {
                let shaking = Socket::accept_tls(TcpStream::from_std(socket)?, &tls);
                let shaken = tokio::time::timeout(TLS_HANDSHAKE_TIMEOUT, shaking).await;
                shaken.map_err(|_| ConnectionError::NoTls(TLS_HANDSHAKE_TIMEOUT))?.map_err(Into::into)
            }
            Self::Local(socket) => Ok(Socket::Unix(UnixStream::from_std(socket)?)),
        }
    }
}

/// A new connection, with the access rules that apply to it.
#[derive(Debug)]
pub(crate) struct IncomingConnection {
    pub(crate) socket: Accepted,
    pub(crate) peer: Arc<str>,
    pub(crate) access: Access,
}

/// Serves the requests on one connection until either side ends it.
pub(crate) async fn serve(
    incoming: IncomingConnection,
    services: Services,
    share: LoadShare,
    stopping: watch::Receiver<bool>,
) -> Result<(), ConnectionError> {
    let connection_budget = services.traffic().enter(&incoming.peer);
    tokio::select! {
        served = serve_until_cut(incoming, services, share, &connection_budget, stopping) => served,
        () = connection_budget.cut() => Err(ConnectionError::Stalled),
    }
}

async fn serve_until_cut(
    incoming: IncomingConnection,
    services: Services,
    mut share: LoadShare,
    connection_budget: &ConnectionBudget,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), ConnectionError> {
    let _count = services.count_connection();
    let IncomingConnection { socket, peer, access } = incoming;
    let token_due = Instant::now() + TOKEN_TIMEOUT;
    let opening = open(socket);
    let (socket, greeting) = tokio::select! {
        opened = opening => opened?,
        _ = stopping.wait_for(|stop| *stop) => return Ok(()),
    };
    if greeting == Greeting::Bulk {
        share.set_bulk();
        return Ok(bulk::serve(socket, services, peer, access, connection_budget).await?);
    }
    let socket = TokioIo::new(Metered::new(socket, Arc::clone(connection_budget.window())));
    let is_known = Arc::new(AtomicBool::new(matches!(access, Access::Everybody(_))));
    let service = PeerService::new(services, peer, access, Arc::clone(&is_known), connection_budget.clone());
    let calls = service.open_calls();
    let mut connection = std::pin::pin!(builder().serve_connection(socket, service));
    tokio::select! {
        result = connection.as_mut() => return Ok(result?),
        () = stays_unknown(&is_known, token_due) => return Err(ConnectionError::NoToken(TOKEN_TIMEOUT)),
        _ = stopping.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    // A client that makes progress only during its calls does not confirm that it has seen the end.
    tokio::select! {
        result = connection => Ok(result?),
        () = calls.none_for(CONFIRMATION_TIMEOUT) => Ok(()),
    }
}

/// Resolves at `due` if the client is not known by then.
async fn stays_unknown(is_known: &AtomicBool, due: Instant) {
    if !is_known.load(Ordering::Relaxed) {
        tokio::time::sleep_until(due).await;
    }
    if is_known.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

/// Opens a connection with a known protocol.
async fn open(socket: Accepted) -> Result<(Socket, Greeting), ConnectionError> {
    let socket = socket.into_socket().await?;
    let greeting = tokio::time::timeout(PREFACE_TIMEOUT, read_greeting(&socket)).await;
    Ok((socket, greeting.map_err(|_| ConnectionError::Silent(PREFACE_TIMEOUT))??))
}

fn builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(MAX_FRAME_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_concurrent_streams(MAX_STREAMS_PER_CONNECTION)
        .max_header_list_size(MAX_HEADER_BYTES)
        .keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT);
    builder
}

/// The first bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Greeting {
    /// HTTP/2, or an unknown protocol, to which the server responds with an HTTP/2 error.
    Http,
    Bulk,
}

/// The number of bytes that begin every HTTP/2 connection.
const PREFACE_BYTES: usize = 24;

/// The time between two checks on an incomplete greeting. Nearly all greetings are complete at the first check.
const PREFACE_POLL: Duration = Duration::from_millis(20);

/// Waits for a greeting, or for bytes that cannot be one. The bytes stay in the socket, where the connection reads
/// them.
async fn read_greeting(socket: &Socket) -> io::Result<Greeting> {
    let mut head = [0; PREFACE_BYTES];
    let mut before = 0;
    loop {
        socket.readable().await?;
        let seen = match socket.try_peek(&mut head) {
            Ok(seen) => seen,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        let begun = head.get(..seen).unwrap_or_default();
        if bulk::is_bulk(begun) {
            return Ok(Greeting::Bulk);
        }
        let is_possible = PREFACE.starts_with(begun) || bulk::MAGIC.starts_with(begun);
        if seen == 0 || seen == PREFACE_BYTES || !is_possible {
            return Ok(Greeting::Http);
        }
        if seen == before && is_closed(socket).await? {
            return Ok(Greeting::Http);
        }
        before = seen;
        tokio::time::sleep(PREFACE_POLL).await;
    }
}

/// Returns whether the other side has closed its half, so that no more data will arrive.
async fn is_closed(socket: &Socket) -> io::Result<bool> {
    Ok(socket.ready().await?.is_read_closed())
}

const PREFACE: &[u8; PREFACE_BYTES] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream as Pair;

    use relive_engine::Engine;
    use relive_table::TableConfig;
    use relive_tensor::{Chunk, Codec, SequenceRange, Tensor, encode_chunk};
    use relive_wire::bulk::{FrameHeader, FrameKind};
    use relive_wire::reverb::flat_trajectory::{ChunkSlice, Column};
    use relive_wire::reverb::{FlatTrajectory, PrioritizedItem};
    use relive_wire::v1::{AskBatches, OpenSampler};
    use relive_wire::{Message, item};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::*;
    use crate::access::Role;
    use crate::services::LocalSocket;

    /// The number of bytes in the only item: more than a socket can buffer.
    const ITEM_BYTES: u32 = 4 << 20;

    fn engine() -> Engine {
        let engine = Engine::builder().table(TableConfig::new("t")).build().unwrap();
        let content = Tensor::from_slice(&vec![7_u8; ITEM_BYTES as usize], [1, ITEM_BYTES]).unwrap();
        let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
        let chunk = Chunk::new(encode_chunk(1, range, &[content], false, Codec::Raw).unwrap()).unwrap();
        let chunk = Arc::new(chunk);
        let slice = ChunkSlice { chunk_key: 1, offset: 0, length: 1, index: 0 };
        let column = Column { chunk_slices: vec![slice], squeeze: true };
        let flat_trajectory = Some(FlatTrajectory { columns: vec![column] });
        let message =
            PrioritizedItem { key: 1, priority: 1.0, flat_trajectory, ..PrioritizedItem::default() };
        let item = item::decode(&message, |_| Some(Arc::clone(&chunk))).unwrap();
        let table = engine.table("t").unwrap();
        let inserted = table.insert(vec![item], &"me".into(), &Arc::default(), &mut Vec::new());
        assert_eq!(inserted.unwrap().deferred, 0);
        engine
    }

    /// A server that receives its connections from the tests.
    struct Served {
        services: Services,
        stopping: watch::Receiver<bool>,
        _stop: watch::Sender<bool>,
    }

    impl Served {
        fn start(max_bytes_in_flight: u64) -> Self {
            let (stop, stopping) = watch::channel(false);
            let services =
                Services::new(engine(), LocalSocket::default(), stopping.clone(), max_bytes_in_flight);
            Self { services, stopping, _stop: stop }
        }

        /// Creates a client that requests `batches` and has not read anything yet. Also returns the result of its
        /// connection.
        async fn sampler(&self, batches: u64) -> (UnixStream, JoinHandle<Result<(), ConnectionError>>) {
            let (ours, theirs) = Pair::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            theirs.set_nonblocking(true).unwrap();
            let (socket, access) = (Accepted::Local(theirs), Access::Everybody(Role::Read));
            let incoming = IncomingConnection { socket, peer: "a client".into(), access };
            let task = tokio::spawn(serve(
                incoming,
                self.services.clone(),
                LoadShare::default(),
                self.stopping.clone(),
            ));
            let mut ours = UnixStream::from_std(ours).unwrap();
            let open = OpenSampler {
                table: "t".to_owned(),
                batch_size: 1,
                window_bytes: u64::MAX,
                ..OpenSampler::default()
            };
            let ask = AskBatches { batches, ..AskBatches::default() };
            ours.write_all(bulk::MAGIC).await.unwrap();
            for (kind, head) in
                [(FrameKind::OpenSampler, open.encode_to_vec()), (FrameKind::Ask, ask.encode_to_vec())]
            {
                let header = FrameHeader::new(kind, head.len(), 0).unwrap().encode();
                ours.write_all(&[&header, head.as_slice()].concat()).await.unwrap();
            }
            (ours, task)
        }

        async fn bytes_in_flight(&self) -> u64 {
            settle(Duration::from_millis(50)).await;
            self.services.traffic().status().bytes
        }
    }

    /// Lets `time` pass on a clock that does not advance while any task can run. Afterwards, no task has work left.
    async fn settle(time: Duration) {
        timeout(time, std::future::pending::<()>()).await.unwrap_err();
    }

    async fn read_an_item(client: &mut UnixStream) {
        let mut item = vec![0; ITEM_BYTES as usize];
        client.read_exact(&mut item).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_do_not_read_hold_at_most_the_memory_bound() {
        let served = Served::start(u64::from(ITEM_BYTES) * 3 / 2);
        let mut idle = Vec::new();
        for _ in 0..8 {
            idle.push(served.sampler(100).await);
        }
        let (bytes, two) = (served.bytes_in_flight().await, 2 * u64::from(ITEM_BYTES));
        assert!((two..two + 8192).contains(&bytes), "{bytes}");
        assert_eq!(served.services.traffic().status().waiting, 6);
        drop(idle);
        assert_eq!(served.bytes_in_flight().await, 0);
        assert_eq!(served.services.open_connections(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_client_is_disconnected_once_another_needs_its_memory() {
        let served = Served::start(1);
        let (_stalled, task) = served.sampler(1).await;
        assert!(served.bytes_in_flight().await > u64::from(ITEM_BYTES));
        settle(Duration::from_secs(600)).await;
        assert!(!task.is_finished(), "no other connection needs its place yet");
        let (mut reading, _task) = served.sampler(2).await;
        read_an_item(&mut reading).await;
        assert!(matches!(task.await.unwrap(), Err(ConnectionError::Stalled)));
        read_an_item(&mut reading).await;
        let status = served.services.traffic().status();
        assert_eq!((status.cut, status.waiting), (1, 0));
    }
}
