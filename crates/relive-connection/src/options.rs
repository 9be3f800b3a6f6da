//! Options for a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use relive_transport::tls::ClientTls;

use crate::transport::TransportChoice;

/// Options for a `Client`.
///
/// | Option | Default | Unit |
/// |---|---|---|
/// | [`timeout`](Self::timeout) | 30 | s, as a [`Duration`] |
/// | [`connect_timeout`](Self::connect_timeout) | 5 | s, as a [`Duration`] |
/// | [`answer_timeout`](Self::answer_timeout) | 1 | s, as a [`Duration`] |
/// | [`tcp_keepalive`](Self::tcp_keepalive) | 30 | s, as a [`Duration`] |
/// | [`stream_window_bytes`](Self::stream_window_bytes) | 8 Mi | bytes |
/// | [`connection_window_bytes`](Self::connection_window_bytes) | 32 Mi | bytes |
/// | [`transport`](Self::transport) | [`Auto`](TransportChoice::Auto) | |
/// | [`token`](Self::token), [`tls`](Self::tls), [`tls_name`](Self::tls_name) | none | |
///
/// Only [`timeout`](Self::timeout) affects a client for tables in the same process.
///
/// ```
/// use std::time::Duration;
///
/// use relive_connection::ClientOptions;
///
/// let options = ClientOptions::default().timeout(Duration::from_secs(5)).token("secret");
/// assert_eq!(options.call_timeout(), Duration::from_secs(5));
/// assert_eq!(options.answer_limit(), ClientOptions::DEFAULT_ANSWER_TIMEOUT);
/// assert!(!format!("{options:?}").contains("secret"), "the token is never printed");
/// ```
#[derive(Clone)]
pub struct ClientOptions {
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) tcp_keepalive: Duration,
    pub(crate) stream_window_bytes: u32,
    pub(crate) connection_window_bytes: u32,
    pub(crate) transport: TransportChoice,
    pub(crate) token: Option<Arc<str>>,
    pub(crate) tls: Option<ClientTls>,
    /// The name that certificates must have, if it differs from the address.
    pub(crate) tls_name: Option<Arc<str>>,
    pub(crate) answer_timeout: Duration,
}

/// Does not print the token.
impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("timeout", &self.timeout)
            .field("transport", &self.transport)
            .field("token", &self.token.is_some())
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

impl ClientOptions {
    /// The default of [`timeout`](Self::timeout).
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

    /// The default of [`connect_timeout`](Self::connect_timeout).
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

    /// The default of [`answer_timeout`](Self::answer_timeout).
    pub const DEFAULT_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

    /// Returns the [`timeout`](Self::timeout) of calls.
    pub fn call_timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the [`answer_timeout`](Self::answer_timeout) of one of many servers.
    pub fn answer_limit(&self) -> Duration {
        self.answer_timeout
    }

    /// Sets how long one of many servers may take to answer a request for its tables. Default: 1 s.
    ///
    /// After this time, the client waits for another quarter of it, in case it was itself not running, and then leaves
    /// the server out. A broken or refused connection is detected immediately. This option has no effect with a single server.
    #[must_use]
    pub fn answer_timeout(mut self, timeout: Duration) -> ClientOptions {
        self.answer_timeout = timeout;
        self
    }

    /// Sets the name that the server's certificate must have, if it differs from the host of the address.
    #[must_use]
    pub fn tls_name(mut self, name: &str) -> ClientOptions {
        self.tls_name = Some(Arc::from(name));
        self
    }

    /// Sets the name that the certificate must have, unless there is one: that of the name that was resolved.
    #[must_use]
    pub fn or_tls_name(self, name: &str) -> ClientOptions {
        if self.tls_name.is_some() { self } else { self.tls_name(name) }
    }

    /// Sets how long a call may take. Default: 30 s. See `Client::with_timeout`.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> ClientOptions {
        self.timeout = timeout;
        self
    }

    /// Sets the transport to the server. Default: the fastest available.
    #[must_use]
    pub fn transport(mut self, choice: TransportChoice) -> ClientOptions {
        self.transport = choice;
        self
    }

    /// Sets the token for a server that requires one. Without TLS, others can read the token in transit.
    #[must_use]
    pub fn token(mut self, token: impl Into<Arc<str>>) -> ClientOptions {
        self.token = Some(token.into());
        self
    }

    /// Sets which certificates this client trusts, and its own certificate. Without this option, an address that begins
    /// with `https://` uses the system's trusted certificates.
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> ClientOptions {
        self.tls = Some(tls);
        self
    }

    /// Sets how long one attempt to connect may take. Default: 5 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> ClientOptions {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long no data may arrive before the system probes whether the server's machine is still reachable (TCP
    /// keepalive). Default: 30 s.
    ///
    /// HTTP/2 pings are not used: gRPC servers, including dm-reverb's, close connections that ping often.
    #[must_use]
    pub fn tcp_keepalive(mut self, interval: Duration) -> ClientOptions {
        self.tcp_keepalive = interval;
        self
    }

    /// Sets the HTTP/2 window of a stream: how many bytes the server may send before they are read. Default: 8 MiB,
    /// which is four of the server's largest packed messages.
    #[must_use]
    pub fn stream_window_bytes(mut self, bytes: u32) -> ClientOptions {
        self.stream_window_bytes = bytes;
        self
    }

    /// Sets the HTTP/2 window of a connection: how many bytes the server may send on all streams together before they
    /// are read. Default: 32 MiB.
    #[must_use]
    pub fn connection_window_bytes(mut self, bytes: u32) -> ClientOptions {
        self.connection_window_bytes = bytes;
        self
    }
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            timeout: Self::DEFAULT_TIMEOUT,
            connect_timeout: Self::DEFAULT_CONNECT_TIMEOUT,
            tcp_keepalive: Duration::from_secs(30),
            stream_window_bytes: 8 << 20,
            connection_window_bytes: 32 << 20,
            transport: TransportChoice::Auto,
            token: None,
            tls: None,
            tls_name: None,
            answer_timeout: Self::DEFAULT_ANSWER_TIMEOUT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_certificate_is_the_users_or_else_the_resolved_one() {
        let name_of =
            |options: ClientOptions| options.or_tls_name("replay").tls_name.map(|name| name.to_string());
        assert_eq!(name_of(ClientOptions::default()).as_deref(), Some("replay"));
        let given = ClientOptions::default().tls_name("relive.example");
        assert_eq!(name_of(given).as_deref(), Some("relive.example"));
    }
}
