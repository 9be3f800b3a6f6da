//! Bounds on connections and streams, each with the reason for its number.

use std::time::Duration;

/// Bytes that a client may send on one stream before the server has read them. One window must hold what is in flight
/// over the longest sensible round trip: 8 MiB carries 800 MB/s at 10 ms.
pub const STREAM_WINDOW_BYTES: u32 = 8 << 20;

/// The same for all streams of a connection together. Streams that are not read, because a rate limiter or the bound on
/// memory holds their items back, fill their windows, and nothing comes through once they have filled this one, be it
/// the request of the reader that would set them free. So it holds the windows of 32 of them.
pub const CONNECTION_WINDOW_BYTES: u32 = 32 * STREAM_WINDOW_BYTES;

/// Bytes that a connection may have unread in its windows whatever others have in theirs: a frame must come as a whole.
pub const UNREAD_BYTES_PER_CONNECTION: u64 = 2 * MAX_FRAME_BYTES as u64;

/// Largest HTTP/2 frame accepted. Bulk data in frames of 16 KiB, the protocol's default, costs a system call each.
pub const MAX_FRAME_BYTES: u32 = 1 << 20;

/// Bytes of one stream that wait in memory for a slow reader.
pub const SEND_BUFFER_BYTES: usize = 256 << 10;

/// Streams open at once on one connection; a client opens one per writer and per sampler worker, and all clients of a
/// process may share a connection.
pub const MAX_STREAMS_PER_CONNECTION: u32 = 2_000;

/// Largest message of a call with one answer: MutatePriorities with a million keys. What comes of one counts as in
/// flight.
pub const MAX_CALL_BYTES: usize = 20 << 20;

/// Largest request to name columns: 64 KiB of names, and as many columns as a structure may have. Decoded, a place
/// without a name takes a hundred times its bytes.
pub const MAX_STRUCTURE_BYTES: usize = 256 << 10;

/// Largest request on a sample stream: a table's name and two numbers.
pub const MAX_SAMPLE_REQUEST_BYTES: usize = 64 << 10;

/// What requests of a sample stream may take that the server has not begun with: some thousands. Readers need one or a
/// few.
pub const MAX_SAMPLE_REQUESTS_AHEAD_BYTES: usize = 1 << 20;

/// Bytes of one batch on the bulk path: it is put together in memory as a whole.
pub const MAX_BATCH_BYTES: u64 = 2 << 30;

/// Memory that a connection shares with its client: batches beyond it, because the client keeps that many, go through
/// the socket.
pub const MAX_SHARED_BYTES_PER_CONNECTION: usize = 1 << 30;

/// Pieces of it, of which each is a mapping, and systems limit those to 65,530 for a process.
pub const MAX_SHARED_PIECES_PER_CONNECTION: usize = 256;

/// Samples that are sent one by one go out in frames of about this size.
pub const SAMPLES_FRAME_BYTES: u64 = 64 << 20;

/// Parts of a batch that are sent from where they are stored, if that is as they are, have at least this size: copying
/// less costs less than naming its place to the system.
pub const MIN_STORED_PART_BYTES: usize = 4 << 10;

/// Memory for putting batches together that a connection keeps.
pub const MAX_KEPT_BATCH_BYTES: usize = 32 << 20;

/// Bytes on their way between clients and tables, over all connections, beyond which further requests and samples wait:
/// two of the largest batches, or a thousand of 4 MB.
pub const MAX_BYTES_IN_FLIGHT: u64 = 4 << 30;

/// Heads of frames from those who have not shown a token, or who only read: names, numbers and a token.
pub const MAX_OPENING_BYTES: usize = 16 << 10;

/// Memory that is asked for at once for a request of the bulk path, to be used as its bytes come: a larger one is moved
/// as it grows.
pub const TRUSTED_REQUEST_BYTES: usize = 2 << 20;

/// Bytes of a request of the bulk path that are read before they are counted: as many as have come, within these two.
/// What is not counted is less than what is, or nothing much.
pub const MIN_REQUEST_PIECE_BYTES: usize = 64 << 10;

/// Larger pieces would save system calls that are few already.
pub const MAX_REQUEST_PIECE_BYTES: usize = 256 << 10;

/// Time between two looks of a stream that waits for room: those who make room wake others, this is for connections
/// that stall.
pub const ROOM_RECHECK: Duration = Duration::from_millis(500);

/// Streams that are woken for room that there is: more than one, since a stream that is woken need not be polled.
pub const WOKEN_FOR_ROOM: usize = 8;

/// Time that a client may waste of what others wait for: with requests and batches whose bytes it does not move, …
pub const STALLED_AFTER: Duration = Duration::from_secs(30);

/// … where each so many bytes that it moves may take a second: a slow network.
pub const MIN_CLIENT_BYTES_PER_SECOND: u64 = 4 << 20;

/// What is charged of it to later loads of the same host: nearly all, so that whoever stalls and comes again is cut
/// soon, and not all, so that others of that host have a chance.
pub const MOST_CHARGED: Duration = Duration::from_secs(28);

/// Headers of one request; replay clients send a few hundred bytes.
pub const MAX_HEADER_BYTES: u32 = 16 << 10;

/// Time for a new connection to say that it speaks HTTP/2.
pub const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that is silent for this long is asked whether it still lives.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// A connection that does not answer within this time is given up.
pub const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Chunks that one insert stream may hold for items to come. A client keeps at most its history's chunks.
pub const MAX_HELD_CHUNKS_PER_STREAM: usize = 1 << 20;

/// Bytes of chunks for items to come that a stream may have when the server's memory is full, and still be read: those
/// of one item whose chunks come in a request of their own. Nothing else could set them free.
pub const MAX_UNHELD_BYTES: u64 = 64 << 20;

/// Chunks of a stream that are looked at for it, every few milliseconds.
pub const MAX_UNHELD_CHUNKS: usize = 4_096;

/// Connections to metrics and dashboard: some scrapers and many browsers, each with a few.
pub const MAX_HTTP_CONNECTIONS: usize = 256;

/// Dashboards that are told of the server every second.
pub const MAX_EVENT_STREAMS: usize = 64;

/// Time for the head of an HTTP request, and for the next request on a connection.
pub const HTTP_HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of a head that are read.
pub const MAX_HTTP_HEAD_BYTES: usize = 16 << 10;

/// Time after a connection could not be accepted, as if there were no descriptors left.
pub const HTTP_ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time between two events of a dashboard.
pub const EVENT_INTERVAL: Duration = Duration::from_secs(1);

/// Time between two points of what a dashboard shows of the past.
pub const HISTORY_INTERVAL: Duration = Duration::from_secs(2);

/// Points that are kept: ten minutes. Those of a hundred tables take 2 MB.
pub const MAX_HISTORY_POINTS: usize = 300;

/// Tables that a dashboard shows; metrics have all.
pub const MAX_TABLES_SHOWN: usize = 100;

/// Items that a histogram is made of: enough for its shape, a millisecond's work.
pub const MAX_PEEKED_ITEMS: usize = 4_096;

/// Requests of an insert stream that are handled before their confirmations are sent, if they lie ready to be read.
pub const REQUESTS_PER_CONFIRMATION: usize = 32;

/// Bytes of requests on the bulk path after which other connections of the thread have their turn. By requests, a
/// client that sends small ones would come to a tenth of what others do.
pub const BYTES_PER_TURN: usize = 256 << 10;

/// What a request counts beside its bytes.
pub const REQUEST_COST_BYTES: usize = 4 << 10;

/// Keys that are not held back for those of further requests, on the bulk path: a writer that waits for room would fill
/// it in bursts, and both sides would wait for each other in turn.
pub const KEYS_PER_CONFIRMATION: usize = 1_024;

/// Connections open at once; more are refused. Each costs a descriptor and some ten kilobytes.
pub const MAX_CONNECTIONS: usize = 20_000;

/// Time for a TLS handshake.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Characters of the shortest token: shorter ones can be guessed.
pub const MIN_TOKEN_BYTES: usize = 16;

/// Characters of the longest token, which travels in a header.
pub const MAX_TOKEN_BYTES: usize = 1_024;

/// Largest file of tokens: ten thousand lines.
pub const MAX_TOKEN_FILE_BYTES: u64 = 4 << 20;

/// Time between two looks at the file of tokens.
pub const TOKEN_FILE_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Time between two lines in the log about connections that were refused.
pub const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(10);
