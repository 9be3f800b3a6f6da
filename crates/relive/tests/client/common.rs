//! A server in the test's process, and a proxy whose connections can be cut.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use relive::{
    Client, ClientOptions, Nest, Sample, Server, ServerBuilder, ServerOptions, TableConfig, Tensor,
    TransportChoice,
};
use relive_engine::Engine;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// This is longer than any call in these tests takes; a test that reaches it has failed.
pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    server: Server,
}

impl TestServer {
    pub(crate) async fn start(tables: impl IntoIterator<Item = TableConfig>) -> TestServer {
        TestServer::start_at(own_host(), tables).await
    }

    pub(crate) async fn start_at(
        address: SocketAddr,
        tables: impl IntoIterator<Item = TableConfig>,
    ) -> TestServer {
        let builder = tables.into_iter().fold(Server::builder(), ServerBuilder::table);
        let options = ServerOptions::default().workers(1).drain_timeout(Duration::from_millis(200));
        let server = builder.options(options).bind(address).await.unwrap();
        TestServer { address: server.address(), server }
    }

    pub(crate) fn client(&self) -> Client {
        client(self.address, LONG)
    }

    /// Returns a client for the same tables that does not use the network.
    pub(crate) fn client_in_process(&self) -> Client {
        Client::in_process_with(self.server.engine().clone(), ClientOptions::default().timeout(LONG))
    }

    /// Returns clients with every transport, and one in process.
    pub(crate) fn every_client(&self) -> Vec<Client> {
        let remote = WAYS.into_iter().map(|way| client_by(way, self.address, LONG));
        remote.chain([self.client_in_process()]).collect()
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.server.engine()
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await.unwrap();
    }
}

/// Returns a host of this machine that no other server uses. When a server stops, the system may give its port to the
/// server of another test; on a host of its own, its clients never reach that server.
fn own_host() -> SocketAddr {
    static HOSTS: AtomicU16 = AtomicU16::new(1);
    let [high, low] = HOSTS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    ([127, 1, high, low], 0).into()
}

/// The transports to a server on this machine.
pub(crate) const WAYS: [TransportChoice; 3] =
    [TransportChoice::Tcp, TransportChoice::Unix, TransportChoice::SharedMemory];

/// Returns a client with the fastest available transport.
pub(crate) fn client(address: SocketAddr, timeout: Duration) -> Client {
    client_by(TransportChoice::Auto, address, timeout)
}

pub(crate) fn client_by(way: TransportChoice, address: SocketAddr, timeout: Duration) -> Client {
    let options = ClientOptions::default().timeout(timeout).transport(way);
    Client::connect_with(address, options).unwrap()
}

/// Forwards connections. `cut` closes the open connections, and `cut_after` closes them after the given number of bytes
/// has been sent to the server.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    generation: watch::Sender<usize>,
    budget: Arc<AtomicUsize>,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Proxy {
    pub(crate) async fn start(target: SocketAddr) -> Proxy {
        Proxy::forwarding(target, |_| true).await
    }

    /// Closes connections that are not HTTP/2.
    pub(crate) async fn only_grpc(target: SocketAddr) -> Proxy {
        Proxy::forwarding(target, |first| first == b'P').await
    }

    /// Forwards connections with certain first bytes.
    async fn forwarding(target: SocketAddr, is_forwarded: fn(u8) -> bool) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (generation, watching) = watch::channel(0);
        let budget = Arc::new(AtomicUsize::new(usize::MAX));
        let connections = Arc::new(AtomicUsize::new(0));
        let (left, count) = (Arc::clone(&budget), Arc::clone(&connections));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let mut cut = watching.clone();
                cut.mark_unchanged();
                let left = Arc::clone(&left);
                tokio::spawn(async move {
                    let mut first = [0];
                    if !near.peek(&mut first).await.is_ok_and(|read| read > 0) || !is_forwarded(first[0]) {
                        return;
                    }
                    if let Ok(far) = TcpStream::connect(target).await {
                        tokio::select! { () = forward(near, far, left) => {}, _ = cut.changed() => {} }
                    }
                });
            }
        });
        Proxy { address, generation, budget, connections }
    }

    pub(crate) fn cut(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// Returns a client whose connections all use this proxy.
    pub(crate) fn client(&self) -> Client {
        client_by(TransportChoice::Tcp, self.address, LONG)
    }

    /// Forwards `bytes` more bytes to the server and then cuts the connections; later connections are not limited.
    pub(crate) fn cut_after(&self, bytes: usize) {
        self.budget.store(bytes, Ordering::SeqCst);
    }
}

async fn forward(near: TcpStream, far: TcpStream, budget: Arc<AtomicUsize>) {
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    let upwards = async {
        let mut buffer = vec![0; 4096];
        loop {
            let Ok(read @ 1..) = near_in.read(&mut buffer).await else { return };
            let left = budget.load(Ordering::SeqCst);
            let passed = read.min(left);
            if far_out.write_all(&buffer[..passed]).await.is_err() {
                return;
            }
            if left != usize::MAX {
                budget.store(left - passed, Ordering::SeqCst);
            }
            if passed < read {
                budget.store(usize::MAX, Ordering::SeqCst);
                return;
            }
        }
    };
    let downwards = async { drop(tokio::io::copy(&mut far_in, &mut near_out).await) };
    tokio::select! { () = upwards => {}, () = downwards => {} }
}

pub(crate) fn leaf<T: relive_tensor::Element>(value: T) -> Nest<Tensor> {
    Nest::Leaf(Tensor::scalar(value))
}

pub(crate) fn dict(fields: &[(&str, Nest<Tensor>)]) -> Nest<Tensor> {
    Nest::Dict(fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
}

/// Returns the only column of each sample, as i64.
pub(crate) fn values(samples: &[Sample]) -> Vec<Vec<i64>> {
    samples.iter().map(|sample| sample.columns().unwrap()[0].to_vec().unwrap()).collect()
}

/// Starts a server that answers each call with the status and the body that `answer` returns for its path.
pub(crate) async fn grpc_server(
    answer: impl Fn(&str) -> (&'static str, Vec<u8>) + Clone + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let answer = answer.clone();
            let respond = move |request: Request<Incoming>| {
                let (status, body) = answer(request.uri().path());
                let response = Response::builder()
                    .header("content-type", "application/grpc")
                    .header("grpc-status", status)
                    .body(Full::new(Bytes::from(body)));
                async move { Ok::<_, Infallible>(response.unwrap()) }
            };
            tokio::spawn(
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(socket), hyper::service::service_fn(respond)),
            );
        }
    });
    address
}
