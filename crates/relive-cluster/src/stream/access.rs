//! Access control of ports, and the credentials of writers.

use std::fmt;

use bytes::Bytes;
use relive_transport::is_same_token;
use relive_transport::tls::{ClientTls, ServerTls};

/// The access control of a port: either writers with its token, or all writers, may connect. TLS encrypts the
/// connection.
#[derive(Clone, Default)]
pub struct PortAccess {
    pub(super) token: Option<Bytes>,
    pub(super) tls: Option<ServerTls>,
}

/// The token and the TLS settings of a writer.
#[derive(Clone, Default)]
pub struct WriterAccess {
    pub(super) token: Bytes,
    pub(super) tls: Option<ClientTls>,
}

impl PortAccess {
    /// Requires this token.
    #[must_use]
    pub fn token(mut self, token: impl Into<Bytes>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Requires TLS.
    #[must_use]
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(tls);
        self
    }

    pub(super) fn admits(&self, shown: &[u8]) -> bool {
        self.token.as_ref().is_none_or(|token| is_same_token(shown, token))
    }
}

impl WriterAccess {
    /// Presents this token.
    #[must_use]
    pub fn token(mut self, token: impl Into<Bytes>) -> Self {
        self.token = token.into();
        self
    }

    /// Uses TLS.
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = Some(tls);
        self
    }
}

/// Keeps tokens out of logs.
impl fmt::Debug for PortAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (token, tls) = (self.token.is_some(), self.tls.is_some());
        f.debug_struct("PortAccess").field("has_token", &token).field("has_tls", &tls).finish()
    }
}

/// Keeps tokens out of logs.
impl fmt::Debug for WriterAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (token, tls) = (!self.token.is_empty(), self.tls.is_some());
        f.debug_struct("WriterAccess").field("has_token", &token).field("has_tls", &tls).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_admits_only_writers_with_its_token() {
        assert!(PortAccess::default().admits(b"anything"));
        let access = PortAccess::default().token("secret");
        assert!(access.admits(b"secret"));
        for wrong in ["", "secre", "secret ", "Secret"] {
            assert!(!access.admits(wrong.as_bytes()), "{wrong:?}");
        }
        assert_eq!(format!("{access:?}"), "PortAccess { has_token: true, has_tls: false }");
    }
}
