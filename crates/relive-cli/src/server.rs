//! Connects to the server of a command.

use std::error::Error as _;
use std::time::Duration;

use clap::Args;
use relive_client::{Client, ClientOptions, Error, ErrorKind, TransportChoice};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::failure::{Failure, Kind, Result};
use crate::security::ClientSecurity;
use crate::units::parse_seconds;

/// The client's text for a call during which no connection was established.
const NO_SERVER: &str = "no server listens there";

/// The client's text for an address without a port.
const PORT_MISSING: &str = "the port is missing";

/// The address of the server, and how to reach it.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// Address of the server, host:port; for many servers, host1:port,host2:port or dns:///name:port
    #[arg(value_name = "ADDR")]
    pub(crate) address: String,
    /// How long to wait for each answer
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = parse_seconds)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) security: ClientSecurity,
}

impl Target {
    /// Returns a client for this server, once a process listens there.
    ///
    /// By default, clients wait for a server to start, which suits actors. For a person, by contrast, the
    /// command should fail at once if the server is not running.
    pub(crate) async fn connect(&self) -> Result<Client> {
        let client = self.client()?;
        let hosts: Vec<&str> = client.address().split(',').map(host_and_port).collect();
        let patience = self.timeout / u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        let mut why = String::new();
        for host in hosts {
            match timeout(patience, TcpStream::connect(host)).await {
                Ok(Ok(_)) => return Ok(client),
                Ok(Err(error)) => why = error.to_string(),
                Err(_) => why = format!("no answer within {patience:?}"),
            }
        }
        Err(self.unreachable(&why))
    }

    /// Returns a client with its own connection.
    pub(crate) fn client(&self) -> Result<Client> {
        self.client_by(TransportChoice::Auto)
    }

    /// Returns a client with its own connection over a given transport.
    pub(crate) fn client_by(&self, transport: TransportChoice) -> Result<Client> {
        let options = ClientOptions::default().timeout(self.timeout).transport(transport);
        let options = self.security.apply(options)?;
        Client::connect_with(&self.address, options).map_err(|error| {
            let text = error.to_string();
            let example = format!(", as in {}:8000", self.address);
            let advice = if text.ends_with(PORT_MISSING) { example.as_str() } else { "" };
            Failure::usage(format!("{text}{advice}"))
        })
    }

    /// Converts the error of the first call on a connection to a failure. The connection was accepted, but possibly by
    /// a process that does not speak Relive's protocol.
    pub(crate) fn explain(&self, error: Error) -> Failure {
        if !is_of_transport(&error) || error.kind() == ErrorKind::PermissionDenied {
            return Failure::from(error);
        }
        let text = format!("a process listens at {}, but it does not speak Relive's protocol", self.address);
        let advice = match self.security.has_tls() || self.address.starts_with("https://") {
            true => "check the address, and whether the server uses TLS",
            false => "check the address; a server with TLS requires https:// or --tls-ca",
        };
        Failure::text(Kind::Unreachable, format!("{text}; {advice}"))
    }

    /// Returns the failure of a call after earlier calls were answered.
    pub(crate) fn lost(&self, error: Error) -> Failure {
        if kind_of(&error) != Kind::Unreachable {
            return Failure::from(error);
        }
        let advice = "check that it is still running";
        Failure::text(Kind::Unreachable, format!("lost the server at {}: {error}; {advice}", self.address))
    }

    fn unreachable(&self, why: &str) -> Failure {
        let advice = "check the address and that the server is running";
        Failure::text(Kind::Unreachable, format!("cannot connect to {}: {why}; {advice}", self.address))
    }
}

/// Returns one of a client's addresses, in the form that sockets accept.
fn host_and_port(address: &str) -> &str {
    let authority = address.split_once("://").map_or(address, |(_, authority)| authority);
    authority.trim_start_matches('/')
}

impl From<Error> for Failure {
    /// The text of a client's error is complete, and the text of its source would repeat it.
    fn from(error: Error) -> Self {
        Self::text(kind_of(&error), error)
    }
}

/// The text of an error shows whether a call waited for a server until its timeout.
fn kind_of(error: &Error) -> Kind {
    match error.kind() {
        ErrorKind::Unavailable => Kind::Unreachable,
        ErrorKind::PermissionDenied => Kind::Refused,
        _ if is_of_transport(error) => Kind::Unreachable,
        ErrorKind::Timeout if error.to_string().contains(NO_SERVER) => Kind::Unreachable,
        ErrorKind::Timeout => Kind::Timeout,
        _ => Kind::Runtime,
    }
}

/// Returns whether the error arose locally, because the connection broke or did not carry gRPC. A status that a server
/// sent has no source.
fn is_of_transport(error: &Error) -> bool {
    error.source().is_some_and(|status| status.source().is_some())
}
