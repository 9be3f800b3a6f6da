//! Parses the address of a server.

use std::net::IpAddr;

use crate::{Error, Result};

/// The address of a server, and whether to use TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    uri: String,
    has_tls: bool,
}

impl Address {
    /// Parses `host:port`, `http://host:port` and `https://host:port`. An address without a scheme uses TLS if
    /// `wants_tls`.
    pub(crate) fn parse(address: &str, wants_tls: bool) -> Result<Address> {
        let (has_tls, authority) = match (address.strip_prefix("https://"), address.strip_prefix("http://")) {
            (Some(authority), _) => (true, authority),
            (None, Some(_)) if wants_tls => {
                return Err(wrong(address, "http:// does not use TLS, but TLS was requested; use https://"));
            }
            (None, Some(authority)) => (false, authority),
            (None, None) => (wants_tls, address),
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        check_authority(address, authority)?;
        let scheme = if has_tls { "https" } else { "http" };
        Ok(Address { uri: format!("{scheme}://{authority}"), has_tls })
    }

    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns `host:port`.
    pub(crate) fn authority(&self) -> &str {
        self.uri.split_once("://").map_or(&self.uri, |(_, authority)| authority)
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.has_tls
    }

    /// Returns whether only processes of this machine can receive what is sent to the address.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.authority().rsplit_once(':').map_or("", |(host, _)| host);
        let ip = host.trim_matches(['[', ']']).parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        ip || host.eq_ignore_ascii_case("localhost")
    }
}

fn check_authority(address: &str, authority: &str) -> Result<()> {
    let is_socket = authority.strip_prefix("unix:").is_some_and(|path| path.parse::<u16>().is_err());
    if authority.contains("://") || is_socket {
        let why = "unsupported scheme; use host:port, http://host:port or https://host:port";
        return Err(wrong(address, why));
    }
    let (host, port) = authority.rsplit_once(':').ok_or_else(|| wrong(address, "the port is missing"))?;
    if host.is_empty() {
        return Err(wrong(address, "the host is missing"));
    }
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return Err(wrong(address, "write an IPv6 address in brackets, as in [::1]:8000"));
    }
    match port.parse::<u16>() {
        Ok(0) | Err(_) => Err(wrong(address, "the port must be a number from 1 to 65535")),
        Ok(_) => Ok(()),
    }
}

fn wrong(address: &str, why: &str) -> Error {
    Error::invalid(format!("cannot use the server address {address:?}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(address: &str) -> Result<Address> {
        Address::parse(address, false)
    }

    #[test]
    fn all_address_forms_are_parsed() {
        for (address, wants_tls, uri) in [
            ("localhost:8000", false, "http://localhost:8000"),
            ("http://10.0.0.1:80/", false, "http://10.0.0.1:80"),
            ("[::1]:8000", false, "http://[::1]:8000"),
            ("https://localhost:8000", false, "https://localhost:8000"),
            ("localhost:8000", true, "https://localhost:8000"),
        ] {
            let parsed = Address::parse(address, wants_tls).unwrap();
            assert_eq!((parsed.uri(), parsed.has_tls()), (uri, uri.starts_with("https")), "{address}");
            assert_eq!(parsed.authority(), uri.split("//").nth(1).unwrap());
        }
    }

    #[test]
    fn an_invalid_address_is_refused_with_the_reason() {
        for (address, why) in [
            ("localhost", "port is missing"),
            (":8000", "host is missing"),
            ("localhost:0", "from 1 to 65535"),
            ("localhost:http", "from 1 to 65535"),
            ("localhost:65536", "from 1 to 65535"),
            ("grpc://localhost:1", "unsupported scheme"),
            ("unix:/run/replay.sock", "unsupported scheme"),
            ("dns://replay:8000", "unsupported scheme"),
            ("::1:8000", "in brackets"),
        ] {
            let error = parse(address).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        let error = Address::parse("http://localhost:1", true).unwrap_err();
        assert!(error.to_string().contains("TLS was requested"), "{error}");
    }
}
