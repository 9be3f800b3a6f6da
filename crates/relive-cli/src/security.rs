//! TLS and tokens from the command line and the configuration.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use relive_client::ClientOptions;
use relive_client::tls::{ClientTls, Identity};
use relive_host::Endpoint;
use relive_server::ServerOptions;
use relive_server::access::Role;
use serde::Deserialize;

use crate::failure::{Failure, Kind, Result};
use crate::units::BytesEntry;
use crate::units::parse_bytes;

/// The variable with the client's default token.
const TOKEN_VARIABLE: &str = "RELIVE_TOKEN";

/// The help's heading for the options with a command's credentials.
const HEADING: &str = "Security";

/// What a server requires of its clients. The options have the same names on the command line and in a configuration's
/// `[security]`.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerSecurity {
    /// Certificate of the server with its chain (PEM); all connections then use TLS
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Key for --tls-cert (PEM)
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Authorities (PEM); clients must present a certificate from one of them
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Tokens; clients must present one of them. The lines are NAME ROLE TOKEN with the role read, write or admin; see
    /// `relive token`. The server reloads the file when it changes
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A second address, without TLS and tokens, for dm-reverb's clients, which support neither
    #[arg(long, value_name = "ADDR:PORT")]
    plaintext: Option<SocketAddr>,
    /// What clients may do at --plaintext: read, write or admin [default: the configuration's, else write]
    #[arg(long, value_name = "ROLE", value_parser = role)]
    #[serde(default, deserialize_with = "role_of_text")]
    plaintext_role: Option<Role>,
    /// Maximum number of open connections; further ones are closed at once [default: the configuration's, else 20000]
    #[arg(long, value_name = "N")]
    max_connections: Option<NonZeroUsize>,
    /// Maximum number of bytes in flight between clients and tables, over all connections. Beyond this limit, further
    /// inserts and samples wait, and clients that do not make progress are disconnected [default: the
    /// configuration's, else 4GiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    #[serde(default, deserialize_with = "bytes_of_entry")]
    max_bytes_in_flight: Option<u64>,
}

/// Parses the name of a role.
pub(crate) fn role(name: &str) -> std::result::Result<Role, String> {
    name.parse().map_err(|error| format!("{error}"))
}

fn role_of_text<'de, D: serde::Deserializer<'de>>(text: D) -> std::result::Result<Option<Role>, D::Error> {
    role(&String::deserialize(text)?).map(Some).map_err(serde::de::Error::custom)
}

fn bytes_of_entry<'de, D: serde::Deserializer<'de>>(entry: D) -> std::result::Result<Option<u64>, D::Error> {
    BytesEntry::deserialize(entry)?.parse().map(Some).map_err(serde::de::Error::custom)
}

impl ServerSecurity {
    /// Returns the values given here; missing values are taken from `config`.
    ///
    /// # Errors
    /// A value is given without another that it requires.
    pub(crate) fn or(self, config: &ServerSecurity) -> Result<ServerSecurity> {
        let config = config.clone();
        let both = ServerSecurity {
            tls_cert: self.tls_cert.or(config.tls_cert),
            tls_key: self.tls_key.or(config.tls_key),
            tls_client_ca: self.tls_client_ca.or(config.tls_client_ca),
            token_file: self.token_file.or(config.token_file),
            plaintext: self.plaintext.or(config.plaintext),
            plaintext_role: self.plaintext_role.or(config.plaintext_role),
            max_connections: self.max_connections.or(config.max_connections),
            max_bytes_in_flight: self.max_bytes_in_flight.or(config.max_bytes_in_flight),
        };
        let has_one = both.tls_cert.is_some() || both.tls_key.is_some() || both.tls_client_ca.is_some();
        if has_one && (both.tls_cert.is_none() || both.tls_key.is_none()) {
            return Err(Failure::usage("TLS requires both --tls-cert and --tls-key (tls_cert and tls_key)"));
        }
        if both.plaintext_role.is_some() && both.plaintext.is_none() {
            return Err(Failure::usage("--plaintext-role requires --plaintext (plaintext_role, plaintext)"));
        }
        Ok(both)
    }

    /// Returns an endpoint at `address`.
    pub(crate) fn endpoint(&self, address: SocketAddr) -> Endpoint {
        let mut endpoint = Endpoint::new(address);
        if let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) {
            endpoint = endpoint.tls_files(cert, key, self.tls_client_ca.clone());
        }
        if let Some(path) = &self.token_file {
            endpoint = endpoint.token_file(path);
        }
        match self.plaintext {
            Some(address) => endpoint.open_entrance(address, self.plaintext_role.unwrap_or(Role::Write)),
            None => endpoint,
        }
    }

    /// Returns `options` with the given bounds.
    pub(crate) fn bound(&self, options: ServerOptions) -> ServerOptions {
        let options = match self.max_connections {
            Some(connections) => options.max_connections(connections.get()),
            None => options,
        };
        match self.max_bytes_in_flight {
            Some(bytes) => options.max_bytes_in_flight(bytes),
            None => options,
        }
    }

    /// Warns the operator if anyone can access the server.
    pub(crate) fn warn(&self, address: SocketAddr) {
        let is_open = self.token_file.is_none() && self.tls_client_ca.is_none();
        if is_open && !address.ip().is_loopback() {
            tracing::warn!(%address, "open to other machines without access control");
        }
        if self.token_file.is_some() && self.tls_cert.is_none() && !address.ip().is_loopback() {
            tracing::warn!(%address, "without TLS, others on the network can read the tokens");
        }
    }
}

/// The credentials that a command presents to a server.
///
/// Each option sets its own heading, because a heading of the whole struct would also apply to the options after it.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ClientSecurity {
    /// File with the token to present to a server that requires one [default: the token in the variable RELIVE_TOKEN]
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Authorities (PEM) to trust instead of the system's; the connection then uses TLS
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Certificate (PEM) to present to a server that requires one
    #[arg(long, help_heading = HEADING, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key for --tls-cert (PEM)
    #[arg(long, help_heading = HEADING, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Name that the server's certificate must have, if it differs from the address
    #[arg(long, help_heading = HEADING, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// A token that is known without an option.
    #[arg(skip)]
    known_token: Option<String>,
}

impl ClientSecurity {
    /// Uses a known token, unless a file is given.
    pub(crate) fn or_token(self, token: Option<String>) -> ClientSecurity {
        ClientSecurity { known_token: token, ..self }
    }

    /// Returns the options as arguments for a process that connects to the same server.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let ClientSecurity { token_file, tls_ca, tls_cert, tls_key, tls_server_name, known_token: _ } = self;
        let files = [
            ("--token-file", token_file),
            ("--tls-ca", tls_ca),
            ("--tls-cert", tls_cert),
            ("--tls-key", tls_key),
        ];
        let files = files.into_iter().filter_map(|(option, file)| Some((option, file.clone()?.into())));
        let name = tls_server_name.iter().map(|name| ("--tls-server-name", OsString::from(name)));
        files.chain(name).flat_map(|(option, value)| [option.into(), value]).collect()
    }

    /// Returns whether the options request TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.tls_ca.is_some() || self.tls_cert.is_some() || self.tls_server_name.is_some()
    }

    /// Returns whether this process has a certificate to present to others.
    pub(crate) fn has_certificate(&self) -> bool {
        self.tls_cert.is_some() && self.tls_key.is_some()
    }

    /// Adds the certificate that this process presents to an endpoint; without a certificate, the endpoint has no TLS.
    pub(crate) fn certified(&self, endpoint: Endpoint) -> Endpoint {
        match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => endpoint.tls_files(cert, key, None),
            _ => endpoint,
        }
    }

    pub(crate) fn apply(&self, options: ClientOptions) -> Result<ClientOptions> {
        let options = match self.token()? {
            Some(token) => options.token(token),
            None => options,
        };
        Ok(match self.tls()? {
            Some(tls) => options.tls(tls),
            None => options,
        })
    }

    /// Returns the token, if there is one.
    pub(crate) fn token(&self) -> Result<Option<String>> {
        let of_variable = || std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
        let known = || self.known_token.clone().or_else(of_variable);
        let Some(path) = &self.token_file else { return Ok(known()) };
        let read = std::fs::read_to_string(path);
        let text =
            read.map_err(|error| Failure::usage(format!("--token-file {}: {error}", path.display())))?;
        match text.trim() {
            "" => Err(Failure::usage(format!("--token-file {}: it has no token", path.display()))),
            token => Ok(Some(token.to_owned())),
        }
    }

    fn tls(&self) -> Result<Option<ClientTls>> {
        let unusable = |error| Failure::text(Kind::Usage, error);
        if !self.has_tls() {
            return Ok(None);
        }
        let identity = match (&self.tls_cert, &self.tls_key) {
            (Some(chain), Some(key)) => Some(Identity::from_files(chain, key).map_err(unusable)?),
            _ => None,
        };
        let tls = ClientTls::with_files(self.tls_ca.as_deref(), identity).map_err(unusable)?;
        match &self.tls_server_name {
            Some(name) => tls.server_name(name).map(Some).map_err(unusable),
            None => Ok(Some(tls)),
        }
    }
}
