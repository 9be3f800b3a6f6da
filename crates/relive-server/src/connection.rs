//! One connection: HTTP/2 with prior knowledge, nothing else.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::grpc::Services;
use crate::limits::{
    CONNECTION_WINDOW_BYTES, FIRST_BYTES_TIMEOUT, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT, MAX_FRAME_BYTES,
    MAX_HEADER_BYTES, MAX_STREAMS_PER_CONNECTION, SEND_BUFFER_BYTES, STREAM_WINDOW_BYTES,
};

/// Why a connection ended other than by its client's wish.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("the client sent nothing within {0:?}")]
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
    let first_bytes = tokio::time::timeout(FIRST_BYTES_TIMEOUT, socket.readable()).await;
    first_bytes.map_err(|_| ConnectionError::Silent(FIRST_BYTES_TIMEOUT))??;
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
