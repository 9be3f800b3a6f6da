//! From what a user types to the address of a server.

use crate::{Error, Result};

/// The address as a URI: `host:port` and `http://host:port` are understood.
pub(crate) fn to_uri(address: &str) -> Result<String> {
    let authority = address.strip_prefix("http://").unwrap_or(address);
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    if authority.contains("://") {
        return Err(wrong(
            address,
            "only plain gRPC over HTTP/2 is spoken; use host:port or http://host:port",
        ));
    }
    let (host, port) = authority.rsplit_once(':').ok_or_else(|| wrong(address, "the port is missing"))?;
    if host.is_empty() {
        return Err(wrong(address, "the host is missing"));
    }
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return Err(wrong(address, "an IPv6 address is written in brackets, as in [::1]:8000"));
    }
    match port.parse::<u16>() {
        Ok(0) | Err(_) => Err(wrong(address, "the port must be a number from 1 to 65535")),
        Ok(_) => Ok(format!("http://{authority}")),
    }
}

fn wrong(address: &str, why: &str) -> Error {
    Error::invalid(format!("cannot use the server address {address:?}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_understood() {
        assert_eq!(to_uri("localhost:8000").unwrap(), "http://localhost:8000");
        assert_eq!(to_uri("http://10.0.0.1:80/").unwrap(), "http://10.0.0.1:80");
        assert_eq!(to_uri("[::1]:8000").unwrap(), "http://[::1]:8000");
    }

    #[test]
    fn anything_else_says_what_is_wrong() {
        for (address, why) in [
            ("localhost", "port is missing"),
            (":8000", "host is missing"),
            ("localhost:0", "from 1 to 65535"),
            ("localhost:http", "from 1 to 65535"),
            ("localhost:65536", "from 1 to 65535"),
            ("https://localhost:1", "plain gRPC"),
            ("::1:8000", "in brackets"),
        ] {
            let error = to_uri(address).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
