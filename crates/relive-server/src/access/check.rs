//! Checks whether a client may make a call.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tonic::Status;

use super::role::Role;
use super::tokens::{Holder, Tokens};

/// The access rules for a listener.
#[derive(Debug, Clone)]
pub enum Access {
    /// Every client that reaches the listener has this role.
    Everybody(Role),
    /// A client with one of these tokens has the token's role.
    Tokens(Arc<Tokens>),
}

impl Access {
    /// Checks whether a call with the given `headers` is permitted.
    pub(crate) fn check_headers(&self, headers: &HeaderMap, what: &str, needed: Role) -> Result<(), Status> {
        self.check(bearer(headers), what, needed)
    }

    /// Checks whether a client with `token` may make a call.
    pub(crate) fn check(&self, token: Option<&str>, what: &str, needed: Role) -> Result<(), Status> {
        let tokens = match self {
            Self::Everybody(role) if *role >= needed => return Ok(()),
            Self::Everybody(role) => {
                let text = format!(
                    "{what} requires the role {needed}, but at this address clients have the role {role}"
                );
                return Err(Status::permission_denied(text));
            }
            Self::Tokens(tokens) => tokens,
        };
        let Some(token) = token.filter(|token| !token.is_empty()) else {
            let text = format!(
                "{what}: this server requires a token, but the client sent none; give the client a token"
            );
            return Err(Status::unauthenticated(text));
        };
        match tokens.holder(token) {
            Some(Holder { role, .. }) if role >= needed => Ok(()),
            Some(Holder { name, role }) => {
                let text =
                    format!("{what} requires the role {needed}, but the token {name:?} has the role {role}");
                Err(Status::permission_denied(text))
            }
            None => {
                Err(Status::unauthenticated(format!("{what}: the server does not know the client's token")))
            }
        }
    }
}

/// Returns a request's token.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use tonic::Code;

    use super::*;

    fn with_tokens() -> Access {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "eye read the-token-of-the-eye").unwrap();
        Access::Tokens(Arc::new(Tokens::open(file.path()).unwrap()))
    }

    #[test]
    fn an_open_listener_has_a_role() {
        let access = Access::Everybody(Role::Write);
        assert!(access.check(None, "InsertStream", Role::Write).is_ok());
        let status = access.check(Some("x"), "Reset", Role::Admin).unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied);
        assert_eq!(
            status.message(),
            "Reset requires the role admin, but at this address clients have the role write"
        );
    }

    #[test]
    fn a_token_has_a_role() {
        let access = with_tokens();
        for (header, needed, code) in [
            ("Bearer the-token-of-the-eye", Role::Read, Code::Ok),
            ("bearer  the-token-of-the-eye ", Role::Read, Code::Ok),
            ("Bearer the-token-of-the-eye", Role::Write, Code::PermissionDenied),
            ("Bearer another", Role::Read, Code::Unauthenticated),
            ("Basic the-token-of-the-eye", Role::Read, Code::Unauthenticated),
            ("Bearer ", Role::Read, Code::Unauthenticated),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(header));
            let checked = access.check_headers(&headers, "SampleStream", needed);
            assert_eq!(checked.err().map_or(Code::Ok, |status| status.code()), code, "{header:?}");
        }
        let status = access.check_headers(&HeaderMap::new(), "SampleStream", Role::Read).unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated);
    }
}
