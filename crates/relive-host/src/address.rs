//! The addresses on which a server listens, as users write them.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use relive_server::{BindError, HttpServer, Monitor};
use tokio::net::{TcpListener, TcpSocket};

use crate::{Error, ErrorKind, Result};

/// The backlog of pending connections, which is the same as in tokio's own listeners.
const BACKLOG: u32 = 1024;

/// An address to listen on: a [`SocketAddr`], a port, or a text with an address and a port. Port 0 picks a free port.
///
/// | Text | Can be reached by |
/// |---|---|
/// | `127.0.0.1:8000`, `[::1]:8000`, `10.0.0.7:8000` | depends on the address |
/// | `:8000`, `localhost:8000`, the number 8000 | only this machine, over IPv4 |
/// | `*:8000` | every client that can reach this machine, over IPv6 and IPv4 |
/// | `name:8000` | every client that can reach the first address of the name |
///
/// If the system's setting `net.ipv6.bindv6only` is 1, `*` can only be reached over IPv6.
///
/// ```
/// use relive_host::Address;
/// assert_eq!(Address::from(8000_u16), Address::from("127.0.0.1:8000"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// The port `port` on `host`, which is an IP address, a name, or `*`.
    #[must_use]
    pub fn of_host(host: &str, port: u16) -> Self {
        Self(
            host.parse::<Ipv6Addr>()
                .map_or_else(|_| format!("{host}:{port}"), |ip| SocketAddr::from((ip, port)).to_string()),
        )
    }

    /// Returns the addresses to try, in order. Errors refer to the setting as `what`.
    async fn candidates(&self, what: &str) -> Result<Vec<SocketAddr>> {
        let text = &self.0;
        let wrong = |why: &dyn fmt::Display| {
            let text = format!("{what} must be an address such as 127.0.0.1:8000, got {text:?}: {why}");
            Error::new(ErrorKind::Bind, text)
        };
        if let Ok(address) = text.parse() {
            return Ok(vec![address]);
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| wrong(&"the port is missing"))?;
        let port: u16 = port.parse().map_err(|_| wrong(&"the port must be a number from 0 to 65535"))?;
        match host {
            "" | "localhost" => Ok(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))]),
            "*" => Ok(vec![
                SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            ]),
            name => {
                let mut found = tokio::net::lookup_host((name, port)).await.map_err(|error| wrong(&error))?;
                found.next().map(|first| vec![first]).ok_or_else(|| wrong(&"the name has no address"))
            }
        }
    }

    /// Binds the port without listening. Until [`Reserved::listen`] is called, clients are refused, and retry.
    pub(crate) async fn reserve(&self, what: &str) -> Result<Reserved> {
        let candidates = self.candidates(what).await?;
        // A free port is not bound yet, because the system might assign the same port to another program that is not
        // listening yet either.
        match candidates.iter().any(|address| address.port() == 0) {
            true => Ok(Reserved::Free(candidates)),
            false => Ok(Reserved::Taken(open(&candidates)?)),
        }
    }

    /// Serves metrics, health and the dashboard of `monitor` at this address.
    pub(crate) async fn show(&self, what: &str, monitor: Monitor) -> Result<HttpServer> {
        let listener = self.listen(what).await?;
        HttpServer::start(listener, monitor).map_err(|error| Error::new(ErrorKind::Ended, error))
    }

    async fn listen(&self, what: &str) -> Result<TcpListener> {
        self.reserve(what).await?.listen()
    }
}

/// A port to listen on.
pub(crate) enum Reserved {
    /// The port is already bound.
    Taken((TcpSocket, SocketAddr)),
    /// A free port is bound later, on the first usable one of these addresses.
    Free(Vec<SocketAddr>),
}

impl Reserved {
    pub(crate) fn listen(self) -> Result<TcpListener> {
        let (socket, address) = match self {
            Self::Taken(taken) => taken,
            Self::Free(candidates) => open(&candidates)?,
        };
        socket.listen(BACKLOG).map_err(|source| BindError { address, source }.into())
    }
}

/// Binds a socket to the first usable address; an address in use ends the search.
fn open(candidates: &[SocketAddr]) -> Result<(TcpSocket, SocketAddr), BindError> {
    let mut rest = candidates.iter();
    let mut next = || rest.next().copied();
    let mut address = next().expect("there is one at least");
    loop {
        match (socket_at(address), next()) {
            (Err(error), Some(other)) if error.source.kind() != std::io::ErrorKind::AddrInUse => {
                address = other;
            }
            (socket, _) => return Ok((socket?, address)),
        }
    }
}

fn socket_at(address: SocketAddr) -> Result<TcpSocket, BindError> {
    let made = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // As in tokio's listeners, connections of an earlier server that are still closing must not block the port.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    made().map_err(|source| BindError { address, source })
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self(address.to_string())
    }
}

impl From<u16> for Address {
    fn from(port: u16) -> Self {
        Self(SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string())
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Address {
    fn from(text: String) -> Self {
        Self(text)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    async fn bound(address: impl Into<Address>) -> SocketAddr {
        address.into().listen("bind").await.unwrap().local_addr().unwrap()
    }

    #[tokio::test]
    async fn common_address_forms_are_accepted() {
        for near in ["127.0.0.1:0", ":0", "localhost:0"] {
            assert_eq!(bound(near).await.ip(), IpAddr::from(Ipv4Addr::LOCALHOST), "{near}");
        }
        assert_eq!(bound(0_u16).await.ip(), IpAddr::from(Ipv4Addr::LOCALHOST));
        assert_eq!(bound(SocketAddr::from(([0, 0, 0, 0], 0))).await.ip(), IpAddr::from([0, 0, 0, 0]));
        assert!(bound("*:0").await.ip().is_unspecified());
        assert_eq!(Address::of_host("::1", 7), Address::from("[::1]:7"));
    }

    #[tokio::test]
    async fn invalid_host_addresses_are_refused_with_the_reason() {
        for (text, why) in [
            ("9090", "the port is missing"),
            ("127.0.0.1:x", "the port must be a number from 0 to 65535"),
            (":65536", "the port must be a number from 0 to 65535"),
        ] {
            let error = Address::from(text).listen("http").await.unwrap_err();
            let expected = format!("http must be an address such as 127.0.0.1:8000, got {text:?}: {why}");
            assert_eq!((error.kind(), error.to_string()), (ErrorKind::Bind, expected));
        }
    }

    #[tokio::test]
    async fn a_fixed_port_is_reserved_before_listening() {
        let address = bound(":0").await;
        let reserved = Address::from(address).reserve("bind").await.unwrap();
        assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nobody listens yet");
        let listener = reserved.listen().unwrap();
        let error = Address::from(address).reserve("bind").await.err().unwrap();
        assert!(error.to_string().contains("another server uses this port"), "{error}");
        tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    }
}
