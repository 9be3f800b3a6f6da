//! The HTTP thread and its connections.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use axum::body::{Body, Bytes};
use http::header::CONTENT_TYPE;
use http_body::Frame;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::Monitor;
use super::connection_slots::{ConnectionSlot, ConnectionSlots, InUse};
use super::history::History;
use super::{host, router};
use crate::limits::{HTTP_HEAD_TIMEOUT, MAX_HTTP_CONNECTIONS, MAX_HTTP_HEAD_BYTES};

/// Serves a server's metrics, health and dashboard on its own thread. Dropping this value ends the service.
///
/// There is no access control. Every client that reaches the address can read the names and numbers of tables and
/// peers, the paths of checkpoints, the texts of errors, and, if the tables belong to a run, the run's plan with hosts
/// and process ids, but not the contents of other tables. No client can change anything.
///
/// On a loopback address, requests whose host is neither an IP address nor `localhost` are refused, so that web pages
/// cannot read from it.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Serves the data of `monitor` on `listener`.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(listener: TcpListener, monitor: Monitor) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let listener = listener.into_std()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopping) = watch::channel(false);
        let run = move || {
            if let Err(error) = runtime.block_on(serve(listener, monitor, stopping)) {
                tracing::error!(%error, "the server of metrics and dashboard ended");
            }
        };
        let thread = std::thread::Builder::new().name("relive-http".to_owned()).spawn(run)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Returns the address on which the monitor listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of metrics and dashboard panicked");
        }
    }
}

async fn serve(
    listener: std::net::TcpListener,
    monitor: Monitor,
    mut stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let is_loopback = listener.local_addr()?.ip().to_canonical().is_loopback();
    let history = Arc::new(History::default());
    let router = router::router(&monitor, &history);
    let slots = ConnectionSlots::new(MAX_HTTP_CONNECTIONS);
    tokio::spawn(history.keep(monitor));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stop| *stop) => return Ok(()),
        };
        match accepted.map(|(socket, peer)| (socket, peer, slots.take())) {
            Ok((socket, peer, Some(slot))) => {
                let router = router.clone();
                tokio::spawn(async move {
                    let ended = tokio::select! {
                        ended = answer(socket, router, is_loopback, &slot) => ended.err().map(|error| error.to_string()),
                        () = slot.must_close() => Some("it was idle, and other connections need its place".to_owned()),
                    };
                    if let Some(why) = ended {
                        tracing::debug!(%peer, why, "HTTP connection ended");
                    }
                });
            }
            // The connection is closed immediately. A scraper will retry, and memory stays bounded.
            Ok((_, peer, None)) => {
                tracing::warn!(%peer, limit = MAX_HTTP_CONNECTIONS, "too many HTTP connections");
            }
            Err(error) => {
                tracing::debug!(%error, "HTTP accept failed");
                tokio::time::sleep(crate::limits::HTTP_ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn answer(
    socket: TcpStream,
    router: axum::Router,
    is_loopback: bool,
    slot: &Arc<ConnectionSlot>,
) -> Result<(), hyper::Error> {
    let service = service_fn(|request: http::Request<Incoming>| {
        let (answering, router) = (slot.begin(), router.clone());
        async move {
            let response = match host::refusal(&request).filter(|_| is_loopback) {
                Some(refusal) => refusal,
                None => router.oneshot(request.map(Body::new)).await?,
            };
            let is_stream =
                response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
            let answering = is_stream.then_some(answering);
            Ok::<_, Infallible>(response.map(|body| Answer { body, _answering: answering }))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HTTP_HEAD_TIMEOUT).max_buf_size(MAX_HTTP_HEAD_BYTES);
    builder.serve_connection(TokioIo::new(socket), service).await
}

/// A response. A stream of events occupies its slot until the client ends the stream. Any other response occupies its
/// slot only until the response begins, so that a client that does not read its response does not occupy a slot.
struct Answer {
    body: Body,
    _answering: Option<InUse>,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::bind;

    #[tokio::test]
    async fn a_loopback_address_refuses_foreign_hosts() {
        let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let server = HttpServer::start(listener, Monitor::new()).unwrap();
        for (host, status) in [("localhost", "HTTP/1.1 200"), ("rebound.example", "HTTP/1.1 403")] {
            let mut client = TcpStream::connect(server.address()).await.unwrap();
            let request = format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            client.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with(status), "{host}: {answer}");
        }
    }
}
