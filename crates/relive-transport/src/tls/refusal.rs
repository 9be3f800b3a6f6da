//! Distinguishes connections that TLS refuses from broken ones.

use std::error::Error;
use std::io;

/// Returns the message of `error` and a remedy if TLS caused it, because of an untrusted or missing certificate or a
/// peer without TLS. In these cases, a retry is useless.
#[must_use]
pub fn refusal(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls_error) = error.downcast_ref::<rustls::Error>() {
            return Some(match tls_error {
                rustls::Error::InvalidMessage(_) => {
                    format!("the server's answer is not TLS ({tls_error}); check whether the server uses TLS")
                }
                _ => format!("{tls_error}; check the certificates"),
            });
        }
        // The error that an I/O error wraps is not returned by `source`.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}
