//! How a client reaches its server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use relive_transport::tls::ClientTls;

use crate::transport::TransportChoice;

/// Options of a `Client`.
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
/// Only [`timeout`](Self::timeout) affects a client of tables in the same process.
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
    /// The name that certificates are held against, if the address has another.
    pub(crate) tls_name: Option<Arc<str>>,
    pub(crate) answer_timeout: Duration,
}

/// The token stays out of logs.
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
    /// Default of [`timeout`](Self::timeout).
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

    /// Default of [`connect_timeout`](Self::connect_timeout).
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

    /// Default of [`answer_timeout`](Self::answer_timeout).
    pub const DEFAULT_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

    /// How long a call may take, as [`timeout`](Self::timeout) has set it.
    pub fn call_timeout(&self) -> Duration {
        self.timeout
    }

    /// How long one of many servers may take to answer, as [`answer_timeout`](Self::answer_timeout) has set it.
    pub fn answer_limit(&self) -> Duration {
        self.answer_timeout
    }

    /// How long one of many servers may leave the question for its tables unanswered before it is asked once more,
    /// and left out a quarter of this time later; 1 s. A connection that breaks or is refused is noticed at once. Of
    /// a single server it has no meaning.
    #[must_use]
    pub fn answer_timeout(mut self, timeout: Duration) -> ClientOptions {
        self.answer_timeout = timeout;
        self
    }

    /// The same for an address of a server whose certificate is for `name`.
    #[must_use]
    pub fn tls_name(mut self, name: &str) -> ClientOptions {
        self.tls_name = Some(Arc::from(name));
        self
    }

    /// How long a call may take; 30 s. See `Client::with_timeout`.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> ClientOptions {
        self.timeout = timeout;
        self
    }

    /// Which way to the server to take; the fastest there is.
    #[must_use]
    pub fn transport(mut self, choice: TransportChoice) -> ClientOptions {
        self.transport = choice;
        self
    }

    /// What this client shows to a server that asks for a token. Without TLS it can be read on the
    /// way.
    #[must_use]
    pub fn token(mut self, token: impl Into<Arc<str>>) -> ClientOptions {
        self.token = Some(token.into());
        self
    }

    /// Whom this client trusts, and how it proves who it is. Without it an address that begins with `https://` is
    /// trusted as the system says.
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> ClientOptions {
        self.tls = Some(tls);
        self
    }

    /// How long one attempt to connect may take; 5 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> ClientOptions {
        self.connect_timeout = timeout;
        self
    }

    /// After how long a silence the system asks whether the server's machine is still there; 30 s.
    ///
    /// HTTP/2 pings are not used: gRPC servers, dm-reverb's among them, end connections that ping them often.
    #[must_use]
    pub fn tcp_keepalive(mut self, interval: Duration) -> ClientOptions {
        self.tcp_keepalive = interval;
        self
    }

    /// How many bytes the server may send ahead on a stream; 8 MiB, which is four of its largest packed messages.
    #[must_use]
    pub fn stream_window_bytes(mut self, bytes: u32) -> ClientOptions {
        self.stream_window_bytes = bytes;
        self
    }

    /// How many bytes the server may send ahead on all streams together; 32 MiB.
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
