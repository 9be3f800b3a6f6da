//! Connections that TLS does not allow, told from those that broke.

use std::error::Error;
use std::io;

/// What TLS says, and what to do, if that is what `error` comes from: a certificate that is not trusted, one that is
/// missing, or a peer without TLS. To try again is of no use.
#[must_use]
pub fn refusal(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(told) = error.downcast_ref::<rustls::Error>() {
            return Some(match told {
                rustls::Error::InvalidMessage(_) => {
                    format!("the answer is not TLS ({told}); check whether the server uses it")
                }
                _ => format!("{told}; check the certificates"),
            });
        }
        // What an I/O error wraps is no source of it.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}
