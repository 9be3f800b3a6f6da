//! Reaching the server that a command is about.

use std::time::Duration;

use clap::Args;
use relive_client::{Client, ClientOptions, Error, ErrorKind};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::failure::{Failure, Kind, Result};
use crate::units::parse_seconds;

/// Where the server is.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// Address of the server, host:port
    #[arg(value_name = "ADDR")]
    pub(crate) address: String,
    /// How long to wait for each answer
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = parse_seconds)]
    pub(crate) timeout: Duration,
}

impl Target {
    /// A client of this server, once something listens there.
    ///
    /// Clients wait for a server to come, which is right for actors; a person wants to know at once that there is none.
    pub(crate) async fn connect(&self) -> Result<Client> {
        let client = self.client()?;
        match timeout(self.timeout, TcpStream::connect(self.host_and_port(&client))).await {
            Ok(Ok(_)) => Ok(client),
            Ok(Err(error)) => Err(self.unreachable(&error.to_string())),
            Err(_) => Err(self.unreachable(&format!("no answer within {:?}", self.timeout))),
        }
    }

    /// A client with a connection of its own.
    pub(crate) fn client(&self) -> Result<Client> {
        let options = ClientOptions::default().timeout(self.timeout);
        Client::connect_with(&self.address, options).map_err(Failure::usage)
    }

    fn host_and_port<'a>(&self, client: &'a Client) -> &'a str {
        client.address().strip_prefix("http://").unwrap_or(client.address())
    }

    fn unreachable(&self, why: &str) -> Failure {
        let advice = "check the address and that the server runs";
        Failure::text(Kind::Unreachable, format!("cannot connect to {}: {why}; {advice}", self.address))
    }
}

impl From<Error> for Failure {
    /// The client's errors say everything in their own text; what they come from repeats it.
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Unavailable => Kind::Unreachable,
            ErrorKind::Timeout => Kind::Timeout,
            _ => Kind::Runtime,
        };
        Self::text(kind, error)
    }
}
