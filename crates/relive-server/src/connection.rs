//! One connection: HTTP/2 with prior knowledge, nothing else.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::grpc::Services;
use crate::limits::{
    CONNECTION_WINDOW_BYTES, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT, MAX_FRAME_BYTES, MAX_HEADER_BYTES,
    MAX_STREAMS_PER_CONNECTION, PREFACE_TIMEOUT, SEND_BUFFER_BYTES, STREAM_WINDOW_BYTES,
};

/// Why a connection ended other than by its client's wish.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("no HTTP/2 preface within {0:?}")]
    Silent(Duration),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
}

/// Serves the requests of one connection until either side ends it.
pub(crate) async fn serve(
    socket: std::net::TcpStream,
    peer: SocketAddr,
    services: Services,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), ConnectionError> {
    socket.set_nodelay(true)?;
    let socket = TcpStream::from_std(socket)?;
    let greeting = tokio::time::timeout(PREFACE_TIMEOUT, wait_for_preface(&socket));
    tokio::select! {
        came = greeting => came.map_err(|_| ConnectionError::Silent(PREFACE_TIMEOUT))??,
        _ = stopping.wait_for(|stop| *stop) => return Ok(()),
    }
    let service = services.for_peer(&Arc::from(peer.to_string()));
    let connection = builder().serve_connection(TokioIo::new(socket), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        result = connection.as_mut() => return Ok(result?),
        _ = stopping.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    Ok(connection.await?)
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

/// Bytes that begin every HTTP/2 connection.
const PREFACE_BYTES: usize = 24;

/// Time between two looks at a preface that has come in part. Whole ones, all but always, need one look.
const PREFACE_POLL: Duration = Duration::from_millis(20);

/// Waits until a preface is there, or bytes that cannot be one. The bytes stay where they are: the connection reads them.
async fn wait_for_preface(socket: &TcpStream) -> io::Result<()> {
    let mut head = [0; PREFACE_BYTES];
    loop {
        let ready = socket.ready(Interest::READABLE).await?;
        let seen = socket.peek(&mut head).await?;
        let is_possible = head.get(..seen).is_some_and(|seen| PREFACE.starts_with(seen));
        if seen == PREFACE_BYTES || !is_possible || ready.is_read_closed() {
            return Ok(());
        }
        tokio::time::sleep(PREFACE_POLL).await;
    }
}

const PREFACE: &[u8; PREFACE_BYTES] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
