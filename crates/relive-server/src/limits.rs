//! Bounds on connections and streams, each with the reason for its value.

use std::time::Duration;

/// The number of bytes that a client may send on one stream before the server has read them. One window must hold the
/// bytes in flight over the longest expected round trip: 8 MiB allows 800 MB/s at 10 ms.
pub const STREAM_WINDOW_BYTES: u32 = 8 << 20;

/// The number of bytes that a client may send on all streams of a connection before the server has read them. Streams
/// that are not read, because a rate limiter or the bound on memory blocks their items, fill their windows. Once they
/// have filled the connection's window, no data gets through, not even the request from the reader that would unblock
/// them. The connection's window therefore holds the windows of 32 streams.
pub const CONNECTION_WINDOW_BYTES: u32 = 32 * STREAM_WINDOW_BYTES;

/// The number of unread bytes that a connection may have regardless of the other connections. At least one frame must
/// fit.
pub const UNREAD_BYTES_PER_CONNECTION: u64 = 2 * MAX_FRAME_BYTES as u64;

/// The largest HTTP/2 frame that the server accepts. With frames of 16 KiB, the protocol's default, bulk data would
/// cost a system call per frame.
pub const MAX_FRAME_BYTES: u32 = 1 << 20;

/// The maximum number of bytes in one stream that may wait in memory for a slow reader.
pub const SEND_BUFFER_BYTES: usize = 256 << 10;

/// The maximum number of open streams on one connection; a client opens one stream per writer and per sampler worker,
/// and all clients of a process may share a connection.
pub const MAX_STREAMS_PER_CONNECTION: u32 = 2_000;

/// The largest message in a call with one response: MutatePriorities with a million keys. Its bytes count toward the
/// bytes in flight.
pub const MAX_CALL_BYTES: usize = 20 << 20;

/// The largest request to name columns: enough for 64 KiB of names and the largest number of columns. A decoded column
/// without a name takes a hundred times its encoded size.
pub const MAX_STRUCTURE_BYTES: usize = 256 << 10;

/// The largest request on a sample stream: a table's name and two numbers.
pub const MAX_SAMPLE_REQUEST_BYTES: usize = 64 << 10;

/// The largest response of a call that does not count toward the bytes in flight: no more than the headers of the
/// request.
pub const UNCOUNTED_REPLY_BYTES: usize = 16 << 10;

/// The memory of the requests on a sample stream that the server has not begun to serve. It is enough for a few
/// thousand requests, although readers need only one or a few.
pub const MAX_SAMPLE_REQUESTS_AHEAD_BYTES: usize = 1 << 20;

/// The number of bytes in one batch on the bulk path. It is bounded because the whole batch is assembled in memory.
pub const MAX_BATCH_BYTES: u64 = 2 << 30;

/// The most bytes that one step of a batch takes from a table with a disk tier, because data on disk is read into
/// memory all at once. The rest of the batch follows. Each sample counts with all of its chunks, which samples often
/// share.
pub const MAX_FETCHED_BYTES: u64 = 2 << 30;

/// The most bytes that are reserved for a request that has only been announced. More bytes are reserved as they arrive.
pub const ANNOUNCED_BYTES: u64 = 16 << 20;

/// The memory that a connection shares with its client. When the client holds all of it, further batches are sent
/// through the socket.
pub const MAX_SHARED_BYTES_PER_CONNECTION: usize = 1 << 30;

/// The number of pieces of memory that a connection shares with its client. Each piece is a memory mapping, and systems
/// limit a process to 65,530 mappings.
pub const MAX_SHARED_PIECES_PER_CONNECTION: usize = 256;

/// The approximate size of frames for samples that are sent one by one.
pub const SAMPLES_FRAME_BYTES: u64 = 64 << 20;

/// The minimum size of the parts of a batch that are sent directly from the store. For smaller parts, a copy costs less
/// than passing a separate buffer to the system.
pub const MIN_STORED_PART_BYTES: usize = 4 << 10;

/// The memory for assembling batches that a connection retains.
pub const MAX_KEPT_BATCH_BYTES: usize = 32 << 20;

/// The number of bytes in flight between clients and tables, over all connections, above which further requests and
/// samples wait: two of the largest batches, or a thousand batches of 4 MB.
pub const MAX_BYTES_IN_FLIGHT: u64 = 4 << 30;

/// The largest head of a frame from a client that has not sent a token or that only reads: names, numbers and a token.
pub const MAX_OPENING_BYTES: usize = 16 << 10;

/// The memory that is allocated up front for a request on the bulk path, and used as the request's bytes arrive. The
/// buffer of a larger request is reallocated as it grows.
pub const TRUSTED_REQUEST_BYTES: usize = 2 << 20;

/// The minimum number of bytes of a request on the bulk path that are read before they are counted. For a longer
/// request, as many bytes are read at once as have already arrived, up to [`MAX_REQUEST_PIECE_BYTES`]. The number of
/// uncounted bytes is therefore negligible, or smaller than the number of counted ones.
pub const MIN_REQUEST_PIECE_BYTES: usize = 64 << 10;

/// The largest piece of a request that is read before it is counted. Larger pieces would save only a few system calls.
pub const MAX_REQUEST_PIECE_BYTES: usize = 256 << 10;

/// The time between two checks on a stream that is waiting for room. A stream that frees room wakes other streams; the
/// checks are needed because of connections that stall.
pub const ROOM_RECHECK: Duration = Duration::from_millis(500);

/// The number of streams that are woken when there is room: more than one, because a woken stream is not necessarily
/// polled.
pub const WOKEN_FOR_ROOM: usize = 8;

/// The time that a client may waste, while others are waiting, with requests and batches whose bytes it does not
/// transfer. Transfers at [`MIN_CLIENT_BYTES_PER_SECOND`] are not counted as waste.
pub const STALLED_AFTER: Duration = Duration::from_secs(30);

/// The rate at which a client must transfer bytes while others are waiting. It must be achievable on slow networks.
pub const MIN_CLIENT_BYTES_PER_SECOND: u64 = 4 << 20;

/// The part of [`STALLED_AFTER`] that can be charged to later loads of the same host: nearly all of it, so that a host
/// that stalls again is soon disconnected, but not quite all of it, so that the host's other clients have a chance.
pub const MAX_CHARGED: Duration = Duration::from_secs(28);

/// The maximum size of the headers of one request; replay clients send a few hundred bytes.
pub const MAX_HEADER_BYTES: u32 = 16 << 10;

/// The time that a new connection has to send the HTTP/2 preface.
pub const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);

/// The time that a new connection has for its first call with a valid token, if the server requires tokens. Otherwise,
/// clients without a token could occupy all connections.
pub const TOKEN_TIMEOUT: Duration = Duration::from_secs(30);

/// The time after which the server pings a silent connection.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// The time within which a connection must answer a ping; otherwise, the server drops the connection.
pub const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a client without calls in progress may take to confirm that the server is stopping.
pub const CONFIRMATION_TIMEOUT: Duration = Duration::from_millis(500);

/// The number of chunks that one insert stream may hold for later items. A client keeps at most the chunks of its
/// history.
pub const MAX_HELD_CHUNKS_PER_STREAM: usize = 1 << 20;

/// When the server decides whether to read a stream, chunks that the stream has sent for later items do not count as
/// used memory, up to this size. It is enough for one item whose chunks are in a separate request, because only that
/// item could free these chunks.
pub const MAX_UNHELD_BYTES: u64 = 64 << 20;

/// The maximum number of a stream's chunks that are checked against [`MAX_UNHELD_BYTES`]. The check is made every few
/// milliseconds.
pub const MAX_UNHELD_CHUNKS: usize = 4_096;

/// The number of connections to metrics and the dashboard: a few scrapers and many browsers, each with a few
/// connections.
pub const MAX_HTTP_CONNECTIONS: usize = 256;

/// The maximum number of dashboards that receive updates every second.
pub const MAX_EVENT_STREAMS: usize = 64;

/// The time within which the head of an HTTP request must arrive, and within which a connection must send its next
/// request.
pub const HTTP_HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size of a head.
pub const MAX_HTTP_HEAD_BYTES: usize = 16 << 10;

/// The pause after a failure to accept a connection, such as a lack of descriptors.
pub const HTTP_ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The time between two events on a dashboard.
pub const EVENT_INTERVAL: Duration = Duration::from_secs(1);

/// The time between two points of a dashboard's history.
pub const HISTORY_INTERVAL: Duration = Duration::from_secs(2);

/// The number of points in the history, which covers ten minutes. For a hundred tables, the history takes 2 MB.
pub const MAX_HISTORY_POINTS: usize = 300;

/// The maximum number of tables that a dashboard shows; the metrics contain all tables.
pub const MAX_TABLES_SHOWN: usize = 100;

/// The number of items in a histogram: enough to show its shape, and a millisecond of work.
pub const MAX_PEEKED_ITEMS: usize = 4_096;

/// The number of requests on an insert stream that are handled, if they are ready to be read, before their
/// confirmations are sent.
pub const REQUESTS_PER_CONFIRMATION: usize = 32;

/// The number of bytes of requests on the bulk path after which a connection yields to others on its thread. If
/// requests were counted instead, a client that sends small requests would have a tenth of the others' throughput. On
/// any path, a connection also yields after validation has decoded this many bytes of compressed chunks, even within a
/// request.
pub const BYTES_PER_TURN: usize = 256 << 10;

/// The cost of a request in addition to its bytes.
pub const REQUEST_COST_BYTES: usize = 4 << 10;

/// The number of keys at which the bulk path sends a confirmation without waiting for further requests. Otherwise, a
/// writer that is waiting for room would send in bursts, and the two sides would alternately wait for each other.
pub const KEYS_PER_CONFIRMATION: usize = 1_024;

/// The maximum number of open connections; further connections are refused. Each connection costs a descriptor and
/// about ten kilobytes.
pub const MAX_CONNECTIONS: usize = 20_000;

/// The time within which a TLS handshake must be completed.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The length of the shortest permitted token. Shorter tokens could be guessed.
pub const MIN_TOKEN_BYTES: usize = 16;

/// The length of the longest permitted token. It is limited because the token is sent in a header.
pub const MAX_TOKEN_BYTES: usize = 1_024;

/// The maximum size of a token file: ten thousand lines.
pub const MAX_TOKEN_FILE_BYTES: u64 = 4 << 20;

/// The time between two checks of the token file.
pub const TOKEN_FILE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
