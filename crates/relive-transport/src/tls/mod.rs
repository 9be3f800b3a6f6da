//! TLS on a TCP socket: who may be asked, who must show a certificate, and the bytes between.

mod asked;
mod config;
mod refusal;
mod socket;

pub use config::{ClientTls, Identity, ServerTls, TlsError};
pub use refusal::refusal;
pub use socket::TlsSocket;
