//! Warnings about certificates and keys that are usable, but show a mistake.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

/// Warns if every user of this machine can read the file of a private key.
pub(super) fn warn_if_readable(key: &Path) {
    if std::fs::metadata(key).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o004 != 0) {
        tracing::warn!(file = %key.display(), "every user of this machine can read the private key; chmod 600 it");
    }
}

/// Warns if clients will refuse a server's certificate because of its dates.
pub(super) fn warn_of_dates(chain: &[CertificateDer<'_>]) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    if let Some(fault) = fault_of_dates(chain, UnixTime::since_unix_epoch(now)) {
        tracing::warn!("clients will refuse the server's certificate: {fault}; renew it, or set the clock");
    }
}

/// Returns why no client accepts the first certificate at this time, if its dates are the reason. They are checked
/// before the issuer, which is therefore not needed.
fn fault_of_dates(chain: &[CertificateDer<'_>], now: UnixTime) -> Option<CertificateError> {
    let certificate = ParsedCertificate::try_from(chain.first()?).ok()?;
    let verified =
        verify_server_cert_signed_by_trust_anchor(&certificate, &RootCertStore::empty(), &[], now, &[]);
    match verified {
        Err(Error::InvalidCertificate(
            fault @ (CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }),
        )) => Some(fault),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use relive_testkit::logs::warnings;

    use super::super::{Identity, ServerTls};

    /// Returns a certificate that is valid between the starts of two years, and its key.
    fn identity(begin: i32, end: i32) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(begin, 1, 1), date_time_ymd(end, 1, 1));
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn a_server_warns_of_a_certificate_that_has_expired_or_is_not_valid_yet() {
        for (begin, end, expected) in
            [(2000, 2001, Some("expired")), (4000, 4001, Some("not valid yet")), (2000, 4000, None)]
        {
            let (chain, key) = identity(begin, end);
            let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
            let texts = warnings(|| drop(ServerTls::new(identity, None).unwrap()));
            let fits = texts.iter().all(|text| expected.is_some_and(|expected| text.contains(expected)));
            assert!(texts.len() == usize::from(expected.is_some()) && fits, "{texts:?}");
        }
    }

    #[test]
    fn a_private_key_that_everyone_can_read_is_warned_about() {
        let folder = tempfile::tempdir().unwrap();
        let [chain, key] = ["chain.pem", "key.pem"].map(|name| folder.path().join(name));
        let (chain_pem, key_pem) = identity(2000, 4000);
        std::fs::write(&chain, chain_pem).unwrap();
        std::fs::write(&key, key_pem).unwrap();
        for (mode, expected) in [(0o644, 1), (0o640, 0), (0o600, 0)] {
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
            let texts = warnings(|| drop(Identity::from_files(&chain, &key).unwrap()));
            assert_eq!(texts.len(), expected, "{mode:o}: {texts:?}");
            assert!(texts.iter().all(|text| text.contains("can read the private key")), "{texts:?}");
        }
    }
}
