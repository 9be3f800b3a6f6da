//! Compares secrets.

/// Returns whether a token is the expected one. The duration of the comparison does not depend on where the tokens
/// differ.
///
/// ```
/// assert!(relive_transport::is_same_token(b"secret", b"secret"));
/// assert!(!relive_transport::is_same_token(b"secreT", b"secret"));
/// assert!(!relive_transport::is_same_token(b"secret and more", b"secret"));
/// ```
#[must_use]
pub fn is_same_token(shown: &[u8], expected: &[u8]) -> bool {
    let differences = shown.iter().zip(expected).fold(0, |bits, (one, other)| bits | (one ^ other));
    shown.len() == expected.len() && differences == 0
}
