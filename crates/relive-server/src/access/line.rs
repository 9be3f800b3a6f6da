//! The lines of a token file: `NAME ROLE TOKEN`, where the token may be replaced by its SHA-256.

use ring::digest::{SHA256, digest};

use super::role::Role;
use crate::limits::{MAX_TOKEN_BYTES, MIN_TOKEN_BYTES};

/// The hash by which a token is looked up.
pub(super) type Fingerprint = [u8; 32];

/// A malformed line of a token file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenLineError {
    /// The line does not have three words.
    #[error("it has {got} words, but a line must be NAME ROLE TOKEN")]
    Words {
        /// The number of words.
        got: usize,
    },
    /// The name is not one word, or begins like a comment.
    #[error("the name must be one word that does not begin with #")]
    Name,
    /// The role is unknown. The error does not contain the word, which may be a misplaced token.
    #[error(
        "its second word is not a role; the roles are read, write and admin, and a line must be NAME ROLE TOKEN"
    )]
    Role,
    /// The token is too short to be safe, or too long to send.
    #[error("the token must have {MIN_TOKEN_BYTES} to {MAX_TOKEN_BYTES} characters, got {got}")]
    Length {
        /// The length of the token.
        got: usize,
    },
    /// The digits after `sha256:` are malformed.
    #[error("the fingerprint after sha256: must be 64 hexadecimal digits")]
    Fingerprint,
    /// The token or the name already occurred on an earlier line.
    #[error("an earlier line has the same {what}")]
    Twice {
        /// `token` or `name`.
        what: &'static str,
    },
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenLine<'a> {
    pub(super) name: &'a str,
    pub(super) role: Role,
    pub(super) fingerprint: Fingerprint,
    /// Whether the line has the token itself, not its hash.
    pub(super) is_clear: bool,
}

/// The beginning of a token's hash in a line.
const HASHED: &str = "sha256:";

impl<'a> TokenLine<'a> {
    /// Parses a line. Returns `None` if it is empty or a comment.
    pub(super) fn parse(text: &'a str) -> Result<Option<Self>, TokenLineError> {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            return Ok(None);
        }
        let words: Vec<_> = text.split_whitespace().collect();
        let [name, role, token] = words.as_slice() else {
            return Err(TokenLineError::Words { got: words.len() });
        };
        let role = role.parse().map_err(|_| TokenLineError::Role)?;
        let fingerprint = match token.strip_prefix(HASHED) {
            Some(digits) => from_hex(digits).ok_or(TokenLineError::Fingerprint)?,
            None => fingerprint_of_new(token)?,
        };
        Ok(Some(Self { name, role, fingerprint, is_clear: !token.starts_with(HASHED) }))
    }
}

pub(super) fn fingerprint_of_new(token: &str) -> Result<Fingerprint, TokenLineError> {
    if (MIN_TOKEN_BYTES..=MAX_TOKEN_BYTES).contains(&token.len()) {
        Ok(fingerprint(token))
    } else {
        Err(TokenLineError::Length { got: token.len() })
    }
}

/// Returns the line for a token in a token file. It contains only the token's fingerprint.
///
/// # Errors
/// The name or the token cannot appear in a token file.
pub fn token_line(name: &str, role: Role, token: &str) -> Result<String, TokenLineError> {
    if name.starts_with('#') || name.is_empty() || name.contains(char::is_whitespace) {
        return Err(TokenLineError::Name);
    }
    let digits: String = fingerprint_of_new(token)?.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{name} {role} {HASHED}{digits}"))
}

/// Hashes a token, so that the duration of a lookup reveals nothing about it.
pub(super) fn fingerprint(token: &str) -> Fingerprint {
    let mut fingerprint = Fingerprint::default();
    fingerprint.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    fingerprint
}

fn from_hex(digits: &str) -> Option<Fingerprint> {
    let mut fingerprint = Fingerprint::default();
    // `from_str_radix` would also accept a sign.
    if digits.len() != 2 * fingerprint.len() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in fingerprint.iter_mut().zip(digits.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(fingerprint)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn tokens_are_identified_by_their_fingerprint() {
        let token = "0123456789abcdef";
        let line = TokenLine::parse(" learner  write\t0123456789abcdef ").unwrap().unwrap();
        assert_eq!(
            line,
            TokenLine { name: "learner", role: Role::Write, fingerprint: fingerprint(token), is_clear: true }
        );
        let line = format!("a read sha256:{ABC}");
        let hashed = TokenLine::parse(&line).unwrap().unwrap();
        assert_eq!((hashed.fingerprint, hashed.is_clear), (fingerprint("abc"), false));
        assert_eq!(TokenLine::parse("  # a comment"), Ok(None));
        assert_eq!(TokenLine::parse(""), Ok(None));
    }

    #[test]
    fn a_generated_token_line_can_be_parsed() {
        let token = "0123456789abcdef";
        let line = token_line("boss", Role::Admin, token).unwrap();
        assert_eq!(TokenLine::parse(&line).unwrap().unwrap().fingerprint, fingerprint(token));
        assert!(!line.contains(token));
        for name in ["", "two words", "#comment"] {
            assert_eq!(token_line(name, Role::Read, token), Err(TokenLineError::Name), "{name:?}");
        }
    }

    #[test]
    fn invalid_token_lines_are_reported() {
        let short = format!("a read {}", "x".repeat(MIN_TOKEN_BYTES - 1));
        let bad_digits = format!("a read sha256:{}", ABC.replace('b', "é"));
        let signs = format!("a read sha256:{}", "+f".repeat(32));
        for (line, error) in [
            ("a read", TokenLineError::Words { got: 2 }),
            ("a b c d", TokenLineError::Words { got: 4 }),
            ("a root 0123456789abcdef", TokenLineError::Role),
            (short.as_str(), TokenLineError::Length { got: MIN_TOKEN_BYTES - 1 }),
            ("a read sha256:abc", TokenLineError::Fingerprint),
            (bad_digits.as_str(), TokenLineError::Fingerprint),
            (signs.as_str(), TokenLineError::Fingerprint),
        ] {
            assert_eq!(TokenLine::parse(line), Err(error), "{line}");
        }
    }
}
