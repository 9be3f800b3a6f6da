//! The transport of bulk data to a server.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_transport::{LocalAddress, Purpose, Socket, connect_local, host_id};
use relive_wire::Message;
use relive_wire::bulk::VERSION;
use relive_wire::v1::{BulkError, NegotiateRequest, NegotiateResponse};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tonic::{Code, Status};

use crate::answer::status_error;
use crate::channel::TlsTarget;
use crate::remote::{Remote, replay_stub};
use crate::transport::{Transport, TransportChoice};
use crate::{Error, ErrorKind, Result};

/// The connections on the bulk path that ended silently: they were accepted, and ended without an answer, although the
/// server claims to support the path. After several of them, gRPC is used, because the program at the address apparently
/// forwards only gRPC.
#[derive(Debug, Default)]
pub struct SilentConnections {
    consecutive: usize,
    newest: Option<Instant>,
}

/// The number of consecutive connections that may end silently.
const MAX_SILENT_CONNECTIONS: usize = 3;

/// After this time, earlier connections no longer count: servers are also killed while nothing is to be answered.
const SILENT_FOR: Duration = Duration::from_hours(1);

impl SilentConnections {
    /// The reason to use gRPC if they [are too many](Self::are_too_many).
    pub const REASON: &str = "its other connections end without an answer, as if a proxy forwarded only gRPC";

    /// Notes the end of a connection.
    pub fn note(&mut self, has_answered: bool) {
        self.note_at(has_answered, Instant::now());
    }

    fn note_at(&mut self, has_answered: bool, now: Instant) {
        let is_first = self.newest.is_none_or(|newest| now.duration_since(newest) > SILENT_FOR);
        self.consecutive = match (has_answered, is_first) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => self.consecutive + 1,
        };
        self.newest = Some(now);
    }

    /// Returns whether gRPC should be used from now on.
    #[must_use]
    pub fn are_too_many(&self) -> bool {
        self.consecutive >= MAX_SILENT_CONNECTIONS
    }
}

/// The number of times that a client tries to connect to a server's socket while the server refuses connections, and
/// the pause between these attempts.
const MAX_REFUSALS: u32 = 4;
const REFUSAL_PAUSE: Duration = Duration::from_millis(50);

/// The negotiated transports to a server.
#[derive(Debug, Default)]
pub(crate) struct Transports {
    /// The result of the negotiation, once there is one. It is `Some(None)` if the server supports only gRPC.
    found: Mutex<Option<Option<Dialer>>>,
}

/// Opens connections on the bulk path.
#[derive(Debug, Clone)]
pub struct Dialer {
    target: Target,
    /// Whether batches may be received in shared memory.
    pub shared_memory: bool,
    /// The token, for a server that requires one.
    token: Option<Arc<str>>,
    timeout: Duration,
}

/// The reason why this process cannot use a server's local socket.
#[derive(Debug, thiserror::Error)]
enum SocketUnavailable {
    #[error("it has no socket for processes on its machine")]
    None,
    #[error("it runs on another machine")]
    OtherMachine,
    #[error("cannot use its socket for processes on this machine: {0}")]
    Refuses(io::Error),
}

#[derive(Debug, Clone)]
enum Target {
    /// `host:port`.
    Tcp(String),
    Tls(TlsTarget),
    Local(LocalAddress),
}

impl Dialer {
    /// Returns the transport that the dialer's connections use.
    pub fn transport(&self) -> Transport {
        match (&self.target, self.shared_memory) {
            (Target::Tcp(_) | Target::Tls(_), _) => Transport::Tcp,
            (Target::Local(_), false) => Transport::Unix,
            (Target::Local(_), true) => Transport::SharedMemory,
        }
    }

    /// Returns the token for the first frame, which is empty if there is none.
    pub fn token(&self) -> String {
        self.token.as_deref().unwrap_or_default().to_owned()
    }

    /// Opens a new connection.
    ///
    /// # Errors
    /// No connection is established within the timeout in the options.
    pub async fn dial(&self) -> io::Result<Socket> {
        let dialing = async {
            match &self.target {
                Target::Tcp(authority) => Socket::over_tcp(TcpStream::connect(authority).await?),
                Target::Tls(target) => target.connect(Purpose::Bulk).await,
                Target::Local(address) => Ok(Socket::Unix(connect_local(address)?)),
            }
        };
        let late =
            |_| io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {:?}", self.timeout));
        timeout(self.timeout, dialing).await.map_err(late)?
    }
}

impl Transports {
    /// Returns the negotiated dialer, if any.
    pub(crate) fn known(&self) -> Option<Dialer> {
        self.found.lock().clone().flatten()
    }

    /// Uses gRPC for everything until the transport is negotiated again, because the program at the address forwards
    /// only gRPC.
    pub(crate) fn use_grpc_only(&self) {
        *self.found.lock() = Some(None);
    }

    /// Makes the next call negotiate again, because the server may be a different one.
    pub(crate) fn forget(&self) {
        *self.found.lock() = None;
    }

    /// Negotiates the transport to `remote`. Returns `None` for a server that supports only gRPC.
    ///
    /// # Errors
    /// `FailedPrecondition` if the chosen transport does not reach the server, or another error if the server is
    /// unreachable.
    pub(crate) async fn find(
        &self,
        remote: &Remote,
        choice: TransportChoice,
        timeout: Duration,
    ) -> Result<Option<Dialer>> {
        let known = self.found.lock().clone();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = negotiate(remote, choice, timeout).await?;
        *self.found.lock() = Some(found.clone());
        Ok(found)
    }
}

async fn negotiate(remote: &Remote, choice: TransportChoice, timeout: Duration) -> Result<Option<Dialer>> {
    let (answer, local) = ask_for_socket(remote, choice, timeout).await?;
    let to =
        |target, shared_memory| Dialer { target, shared_memory, token: remote.token().cloned(), timeout };
    let over_tcp = match remote.tls() {
        Some(target) => to(Target::Tls(target.clone()), false),
        None => to(Target::Tcp(remote.authority().to_owned()), false),
    };
    if answer.bulk_version != VERSION {
        return match choice {
            TransportChoice::Auto | TransportChoice::Tcp => Ok(None),
            TransportChoice::Unix | TransportChoice::SharedMemory => {
                let why = match answer.bulk_version {
                    0 => "it supports only gRPC".to_owned(),
                    version => {
                        format!("it uses version {version} of the bulk path, but this client uses {VERSION}")
                    }
                };
                Err(transport_error(remote, choice, &why))
            }
        };
    }
    if choice == TransportChoice::Tcp {
        return Ok(Some(over_tcp));
    }
    match local {
        Ok(address) => {
            let shared_memory = choice != TransportChoice::Unix;
            Ok(Some(to(Target::Local(address), shared_memory)))
        }
        Err(_) if choice == TransportChoice::Auto => Ok(Some(over_tcp)),
        Err(why) => Err(transport_error(remote, choice, &why.to_string())),
    }
}

/// Requests the server's transports and its local socket.
async fn ask_for_socket(
    remote: &Remote,
    choice: TransportChoice,
    limit: Duration,
) -> Result<(NegotiateResponse, Result<LocalAddress, SocketUnavailable>)> {
    let is_wanted = matches!(choice, TransportChoice::Unix | TransportChoice::SharedMemory);
    let mut tries = 0;
    loop {
        let answer = ask(remote, limit).await?;
        tries += 1;
        match local(&answer) {
            // The server answered while it was shutting down; another server may replace it.
            Err(SocketUnavailable::Refuses(_)) if is_wanted && tries < MAX_REFUSALS => {
                sleep(REFUSAL_PAUSE).await;
            }
            socket => return Ok((answer, socket)),
        }
    }
}

/// Requests the server's transports, and returns an empty response if the server supports only gRPC.
async fn ask(remote: &Remote, limit: Duration) -> Result<NegotiateResponse> {
    let mut stub = replay_stub(remote.channel().clone());
    match timeout(limit, stub.negotiate(NegotiateRequest {})).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) if speaks_grpc_only(&status) => Ok(NegotiateResponse::default()),
        Ok(Err(status)) => Err(status_error("negotiate", status)),
        Err(_) => {
            let text = format!("negotiate: the server at {} has not answered within {limit:?}", remote.uri());
            Err(Error::new(ErrorKind::Unavailable, text))
        }
    }
}

/// Returns whether the server is a dm-reverb server, or a Relive server without the bulk path.
fn speaks_grpc_only(status: &Status) -> bool {
    status.code() == Code::Unimplemented
}

/// Returns the server's local socket, if this process is on the same machine and may use it.
fn local(answer: &NegotiateResponse) -> Result<LocalAddress, SocketUnavailable> {
    let own = host_id();
    if answer.local_name.is_empty() {
        return Err(SocketUnavailable::None);
    }
    if own.is_empty() || own != answer.host_id {
        return Err(SocketUnavailable::OtherMachine);
    }
    let address = LocalAddress::new(answer.local_name.clone());
    match connect_local(&address) {
        Ok(_) => Ok(address),
        // The socket exists, but too many clients are connecting at once.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(address),
        Err(error) => Err(SocketUnavailable::Refuses(error)),
    }
}

/// Returns the server's reason for ending a connection, from the header of its error frame.
pub fn refusal(head: &[u8]) -> Status {
    match BulkError::decode(head) {
        Ok(error) => Status::new(Code::from(error.code), error.message),
        Err(error) => Status::internal(format!("the server sent an unreadable error: {error}")),
    }
}

fn transport_error(remote: &Remote, choice: TransportChoice, why: &str) -> Error {
    let text = format!(
        "cannot reach the server at {} with transport {:?}: {why}; use \"auto\" or \"tcp\"",
        remote.uri(),
        choice.text()
    );
    Error::new(ErrorKind::FailedPrecondition, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_connections_that_end_silently_soon_after_each_other_count() {
        let mut silent = SilentConnections::default();
        let begun = Instant::now();
        for hours in [0, 2, 4, 6] {
            silent.note_at(false, begun + Duration::from_hours(hours));
            assert!(!silent.are_too_many());
        }
        let later = |minutes| begun + Duration::from_hours(6) + Duration::from_mins(minutes);
        silent.note_at(false, later(1));
        silent.note_at(true, later(2));
        silent.note_at(false, later(3));
        silent.note_at(false, later(4));
        assert!(!silent.are_too_many());
        silent.note_at(false, later(5));
        assert!(silent.are_too_many());
    }
}
