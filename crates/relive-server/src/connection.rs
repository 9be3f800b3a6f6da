//! One connection: HTTP/2 with prior knowledge, or the bulk path, told apart by the first bytes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use relive_transport::Socket;
use relive_transport::tls::ServerTls;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

use crate::access::Access;
use crate::bulk;
use crate::grpc::Services;
use crate::limits::{
    CONNECTION_WINDOW_BYTES, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT, MAX_FRAME_BYTES, MAX_HEADER_BYTES,
    MAX_STREAMS_PER_CONNECTION, PREFACE_TIMEOUT, SEND_BUFFER_BYTES, STREAM_WINDOW_BYTES,
    TLS_HANDSHAKE_TIMEOUT,
};

/// Why a connection ended other than by its client's wish.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("neither HTTP/2 nor the bulk path within {0:?}")]
    Silent(Duration),
    #[error("no TLS handshake within {0:?}")]
    NoTls(Duration),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
    #[error(transparent)]
    Bulk(#[from] bulk::Failure),
}

/// A socket that was accepted and belongs to no thread's scheduler yet.
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

/// Somebody who came in, and what is asked of them.
#[derive(Debug)]
pub(crate) struct Visitor {
    pub(crate) socket: Accepted,
    pub(crate) peer: Arc<str>,
    pub(crate) access: Access,
}

/// Serves the requests of one connection until either side ends it.
pub(crate) async fn serve(
    visitor: Visitor,
    services: Services,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), ConnectionError> {
    let _count = services.count_connection();
    let Visitor { socket, peer, access } = visitor;
    let opening = open(socket);
    let (socket, greeting) = tokio::select! {
        opened = opening => opened?,
        _ = stopping.wait_for(|stop| *stop) => return Ok(()),
    };
    if greeting == Greeting::Bulk {
        return Ok(bulk::serve(socket, services, peer, access).await?);
    }
    let connection = builder().serve_connection(TokioIo::new(socket), services.for_peer(&peer, access));
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        result = connection.as_mut() => return Ok(result?),
        _ = stopping.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    Ok(connection.await?)
}

/// A connection that has said what it speaks.
async fn open(socket: Accepted) -> Result<(Socket, Greeting), ConnectionError> {
    let socket = socket.into_socket().await?;
    let greeting = tokio::time::timeout(PREFACE_TIMEOUT, greeted(&socket)).await;
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

/// What a connection begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Greeting {
    /// HTTP/2, or something that is not HTTP/2 and will be told so.
    Http,
    Bulk,
}

/// Bytes that begin every HTTP/2 connection.
const PREFACE_BYTES: usize = 24;

/// Time between two looks at a greeting that has come in part. Whole ones, all but always, need one look.
const PREFACE_POLL: Duration = Duration::from_millis(20);

/// Waits until a greeting is there, or bytes that cannot be one. The bytes stay where they are: the connection reads them.
async fn greeted(socket: &Socket) -> io::Result<Greeting> {
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

/// Whether the other side has ended its half: nothing further will come.
async fn is_closed(socket: &Socket) -> io::Result<bool> {
    Ok(socket.ready().await?.is_read_closed())
}

const PREFACE: &[u8; PREFACE_BYTES] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
