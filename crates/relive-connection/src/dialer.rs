//! Which transport bulk data takes to a server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

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
use crate::remote::Remote;
use crate::transport::{Transport, TransportChoice};
use crate::{Error, ErrorKind, Result};

/// Connections in a row, to a server that says that it speaks this, which end without a word. Then gRPC is used: what
/// listens at the address hands nothing else on.
pub const MAX_SILENT_CONNECTIONS: usize = 3;

/// Times that a server is asked for its socket while that refuses, and the pause between two of them.
const MAX_REFUSALS: u32 = 4;
const REFUSAL_PAUSE: Duration = Duration::from_millis(50);

/// What a client knows of the transports to its server.
#[derive(Debug, Default)]
pub(crate) struct Transports {
    /// The result of the negotiation, once there is one; in it none, if the server speaks gRPC only.
    found: Mutex<Option<Option<Dialer>>>,
}

/// Opens connections of the bulk path.
#[derive(Debug, Clone)]
pub struct Dialer {
    target: Target,
    /// Whether batches may come in shared memory.
    pub shared_memory: bool,
    /// For a server that asks for one.
    token: Option<Arc<str>>,
    timeout: Duration,
}

/// Why a server's socket for processes of this machine is none for this one.
#[derive(Debug, thiserror::Error)]
enum NoSocket {
    #[error("it has no socket for processes of its machine")]
    None,
    #[error("it runs on another machine")]
    OtherMachine,
    #[error("its socket for processes of this machine cannot be used: {0}")]
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
    /// The transport of its connections.
    pub fn transport(&self) -> Transport {
        match (&self.target, self.shared_memory) {
            (Target::Tcp(_) | Target::Tls(_), _) => Transport::Tcp,
            (Target::Local(_), false) => Transport::Unix,
            (Target::Local(_), true) => Transport::SharedMemory,
        }
    }

    /// What the first frame shows; empty if there is nothing to show.
    pub fn token(&self) -> String {
        self.token.as_deref().unwrap_or_default().to_owned()
    }

    /// A new connection.
    ///
    /// # Errors
    /// No connection within the time that the options say.
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
    /// What was found, if it was looked for.
    pub(crate) fn known(&self) -> Option<Dialer> {
        self.found.lock().clone().flatten()
    }

    /// Uses gRPC for everything: what listens at the address hands nothing else on.
    pub(crate) fn use_grpc_only(&self) {
        *self.found.lock() = Some(None);
    }

    /// Negotiates anew the next time: the server may be another one.
    pub(crate) fn forget(&self) {
        *self.found.lock() = None;
    }

    /// The transport to `remote`; none for a server that speaks gRPC only.
    ///
    /// # Errors
    /// The server is away; `FailedPrecondition` if the transport that was chosen does not reach it.
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
    let (told, local) = ask_for_socket(remote, choice, timeout).await?;
    let to =
        |target, shared_memory| Dialer { target, shared_memory, token: remote.token().cloned(), timeout };
    let over_tcp = match remote.tls() {
        Some(target) => to(Target::Tls(target.clone()), false),
        None => to(Target::Tcp(remote.authority().to_owned()), false),
    };
    if told.bulk_version != VERSION {
        return match choice {
            TransportChoice::Auto | TransportChoice::Tcp => Ok(None),
            TransportChoice::Unix | TransportChoice::SharedMemory => {
                let why = match told.bulk_version {
                    0 => "it speaks gRPC only".to_owned(),
                    version => format!("it speaks version {version} of the bulk path, this client {VERSION}"),
                };
                Err(impossible(remote, choice, &why))
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
        Err(why) => Err(impossible(remote, choice, &why.to_string())),
    }
}

/// What the server says of its ways, and its socket for processes of this machine.
async fn ask_for_socket(
    remote: &Remote,
    choice: TransportChoice,
    limit: Duration,
) -> Result<(NegotiateResponse, Result<LocalAddress, NoSocket>)> {
    let is_wanted = matches!(choice, TransportChoice::Unix | TransportChoice::SharedMemory);
    let mut tries = 0;
    loop {
        let told = ask(remote, limit).await?;
        tries += 1;
        match local(&told) {
            // A server that answered while it ended; another one may come in its place.
            Err(NoSocket::Refuses(_)) if is_wanted && tries < MAX_REFUSALS => sleep(REFUSAL_PAUSE).await,
            socket => return Ok((told, socket)),
        }
    }
}

/// What the server says of its ways; nothing, if it speaks gRPC only.
async fn ask(remote: &Remote, limit: Duration) -> Result<NegotiateResponse> {
    let mut stub = remote.own_stub();
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

/// dm-reverb's server, or Relive's before it had a bulk path.
fn speaks_grpc_only(status: &Status) -> bool {
    status.code() == Code::Unimplemented
}

/// The server's socket for processes of this machine, if this is one and may use it.
fn local(told: &NegotiateResponse) -> Result<LocalAddress, NoSocket> {
    let own = host_id();
    if told.local_name.is_empty() {
        return Err(NoSocket::None);
    }
    if own.is_empty() || own != told.host_id {
        return Err(NoSocket::OtherMachine);
    }
    let address = LocalAddress::new(told.local_name.clone());
    match connect_local(&address) {
        Ok(_) => Ok(address),
        // Many connect at once; the way is there.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(address),
        Err(error) => Err(NoSocket::Refuses(error)),
    }
}

/// Why the server ends a connection, from the head of its error frame.
pub fn refusal(head: &[u8]) -> Status {
    match BulkError::decode(head) {
        Ok(error) => Status::new(Code::from(error.code), error.message),
        Err(error) => Status::internal(format!("the server sent an error that cannot be read: {error}")),
    }
}

fn impossible(remote: &Remote, choice: TransportChoice, why: &str) -> Error {
    let text = format!(
        "the server at {} cannot be reached by transport {:?}: {why}; use \"auto\" or \"tcp\"",
        remote.uri(),
        choice.text()
    );
    Error::new(ErrorKind::FailedPrecondition, text)
}
