//! Tests connections with handwritten HTTP/2 frames, on a clock that does not advance while any task can run.

use std::future::pending;
use std::os::unix::net::UnixStream as Pair;
use std::sync::Arc;
use std::time::Duration;

use relive_engine::Engine;
use relive_table::TableConfig;
use relive_tensor::{Chunk, Codec, SequenceRange, Tensor, encode_chunk};
use relive_wire::bulk::{FrameHeader, FrameKind, MAGIC};
use relive_wire::framing::framed;
use relive_wire::reverb::flat_trajectory::{ChunkSlice, Column};
use relive_wire::reverb::{FlatTrajectory, InsertStreamRequest, PrioritizedItem};
use relive_wire::v1::{InsertItems, ListItemsRequest};
use relive_wire::{Message, chunk, item};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

use super::connection::{Accepted, ConnectionError, IncomingConnection, serve};
use super::load::LoadShare;
use crate::access::{Access, Role, Tokens};
use crate::limits::{BYTES_PER_TURN, ROOM_RECHECK, STALLED_AFTER, TOKEN_TIMEOUT};
use crate::services::{LocalSocket, Services};

const TOKEN: &str = "0123456789abcdef";

/// The number of items in the table.
const ITEMS: u32 = 100;

fn chunk_of(key: u64, values: &[u8], codec: Codec) -> Chunk {
    let column = Tensor::from_slice(values, [1, u32::try_from(values.len()).unwrap()]).unwrap();
    let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
    Chunk::new(encode_chunk(key, range, &[column], false, codec).unwrap()).unwrap()
}

fn engine() -> Engine {
    let engine = Engine::builder().table(TableConfig::new("t")).build().unwrap();
    let chunk = Arc::new(chunk_of(1, &[7], Codec::Raw));
    let item = |key| {
        let slice = ChunkSlice { chunk_key: 1, offset: 0, length: 1, index: 0 };
        let columns = vec![Column { chunk_slices: vec![slice], squeeze: true }];
        let flat_trajectory = Some(FlatTrajectory { columns });
        let message = PrioritizedItem { key, priority: 1.0, flat_trajectory, ..PrioritizedItem::default() };
        item::decode(&message, |_| Some(Arc::clone(&chunk))).unwrap()
    };
    let items: Vec<_> = (0..u64::from(ITEMS)).map(item).collect();
    let inserted = engine.table("t").unwrap().insert(items, &"me".into(), &Arc::default(), &mut Vec::new());
    assert_eq!(inserted.unwrap().deferred, 0);
    engine
}

/// A server that receives its connections from the tests.
struct Served {
    services: Services,
    access: Access,
    stopping: watch::Receiver<bool>,
    _stop: watch::Sender<bool>,
}

type Ended = JoinHandle<Result<(), ConnectionError>>;

impl Served {
    fn start(access: Access, max_bytes_in_flight: u64) -> Self {
        let (stop, stopping) = watch::channel(false);
        let services = Services::new(engine(), LocalSocket::default(), stopping.clone(), max_bytes_in_flight);
        Self { services, access, stopping, _stop: stop }
    }

    /// Opens a connection and sends its first bytes. Also returns the connection's result.
    async fn open(&self, bytes: &[u8]) -> (UnixStream, Ended) {
        let (ours, theirs) = Pair::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let (socket, access) = (Accepted::Local(theirs), self.access.clone());
        let incoming = IncomingConnection { socket, peer: "a client".into(), access };
        let ended =
            tokio::spawn(serve(incoming, self.services.clone(), LoadShare::default(), self.stopping.clone()));
        let mut ours = UnixStream::from_std(ours).unwrap();
        ours.write_all(bytes).await.unwrap();
        (ours, ended)
    }

    fn bytes_in_flight(&self) -> u64 {
        self.services.traffic().status().bytes
    }
}

fn with_tokens() -> Access {
    Access::Tokens(Arc::new(Tokens::one("eye", Role::Read, TOKEN).unwrap()))
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[high, middle, low, kind, flags, 0, 0, 0, stream][..], payload].concat()
}

/// Returns the beginning of a connection whose client never takes any data.
fn opening() -> Vec<u8> {
    let no_window = [0, 4, 0, 0, 0, 0];
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &no_window)].concat()
}

/// Returns a call with one message. The client may send more only if `is_open`.
fn call(stream: u8, is_open: bool, path: &str, token: &str, message: &impl Message) -> Vec<u8> {
    let authorization = format!("Bearer {token}");
    let headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "x"),
        ("content-type", "application/grpc"),
        ("authorization", &authorization),
    ];
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let headers = headers.map(|(name, value)| [vec![0], text(name), text(value)].concat()).concat();
    [frame(1, 4, stream, &headers), frame(0, u8::from(!is_open), stream, &framed(message))].concat()
}

fn list(stream: u8, token: &str) -> Vec<u8> {
    let request = ListItemsRequest { table: "t".to_owned(), from: 0, limit: 1_000_000 };
    call(stream, false, "/relive.v1.ReplayService/ListItems", token, &request)
}

/// Lets `time` pass. Afterwards, no task has work left.
async fn settle(time: Duration) {
    timeout(time, pending::<()>()).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn unread_listings_count_and_their_client_is_cut() {
    let of_one = u64::from(ITEMS) * 256;
    let served = Served::start(Access::Everybody(Role::Read), 3 * of_one);
    let calls = (0..20).map(|call| list(2 * call + 1, TOKEN));
    let (_client, ended) = served.open(&[opening(), calls.flatten().collect()].concat()).await;
    settle(Duration::from_secs(1)).await;
    assert_eq!(served.bytes_in_flight(), 3 * of_one);
    assert_eq!(served.services.traffic().status().waiting, 17);
    settle(STALLED_AFTER + ROOM_RECHECK * 2).await;
    assert!(matches!(ended.await.unwrap(), Err(ConnectionError::Stalled)));
    settle(Duration::from_secs(1)).await;
    assert_eq!(served.bytes_in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_valid_token_is_disconnected() {
    let served = Served::start(with_tokens(), u64::MAX);
    let (_silent, silent) = served.open(&opening()).await;
    let (_wrong, wrong) = served.open(&[opening(), list(1, "another-token-of-ours")].concat()).await;
    let (_known, known) = served.open(&[opening(), list(1, TOKEN)].concat()).await;
    settle(TOKEN_TIMEOUT.saturating_sub(Duration::from_secs(1))).await;
    assert!(!silent.is_finished() && !wrong.is_finished());
    settle(Duration::from_secs(2)).await;
    for ended in [silent, wrong] {
        assert!(matches!(ended.await.unwrap(), Err(ConnectionError::NoToken(TOKEN_TIMEOUT))));
    }
    settle(Duration::from_secs(5)).await;
    assert!(!known.is_finished(), "it has made a call");
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_of_an_open_server_stays_connected() {
    let served = Served::start(Access::Everybody(Role::Read), u64::MAX);
    let (_silent, silent) = served.open(&opening()).await;
    settle(TOKEN_TIMEOUT + Duration::from_secs(5)).await;
    assert!(!silent.is_finished());
}

/// Chunks of a few hundred bytes that decode to more than a turn's bytes.
fn bombs() -> Vec<bytes::Bytes> {
    let values = vec![0; BYTES_PER_TURN + 1];
    (1..=8).map(|key| chunk::encode(&chunk_of(key, &values, Codec::Zstd))).collect()
}

/// Returns the numbers of chunks that another task of the same thread sees while the server stores eight more.
async fn seen_by_others(served: &Served) -> Vec<u64> {
    let ledger = served.services.engine().ledger();
    let mut seen = Vec::new();
    for _ in 0..1_000 {
        let chunks = ledger.snapshot().chunks;
        if seen.last() != Some(&chunks) {
            seen.push(chunks);
        }
        yield_now().await;
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn a_request_with_much_to_decode_yields_between_its_chunks() {
    let request = InsertStreamRequest { chunks: bombs(), ..InsertStreamRequest::default() };
    let path = "/deepmind.reverb.ReverbService/InsertStream";
    let grpc = [opening(), call(1, true, path, TOKEN, &request)].concat();
    let request = InsertItems { chunks: bombs(), ..InsertItems::default() }.encode_to_vec();
    let header = |kind, body| FrameHeader::new(kind, 0, body).unwrap().encode().to_vec();
    let (open, insert) = (header(FrameKind::OpenWriter, 0), header(FrameKind::Insert, request.len()));
    let bulk = [MAGIC.to_vec(), open, insert, request].concat();
    for bytes in [grpc, bulk] {
        let served = Served::start(Access::Everybody(Role::Write), u64::MAX);
        let client = served.open(&bytes).await;
        assert_eq!(seen_by_others(&served).await, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        drop(client);
    }
}
