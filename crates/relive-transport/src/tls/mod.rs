//! TLS on a TCP socket: certificates, their verification, and the encrypted connection.

mod care;
mod certificate_requested;
mod config;
mod refusal;
mod socket;

pub use config::{ClientTls, Identity, ServerTls, TlsError};
pub use refusal::refusal;
pub use socket::TlsSocket;
