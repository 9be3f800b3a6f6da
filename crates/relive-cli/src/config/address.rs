//! Addresses to listen on.

use std::net::{IpAddr, Ipv4Addr};

/// An IP address, in brackets or not, or `localhost`.
///
/// Other names are refused: one may stand for several addresses, and which of them is then open would be a surprise.
pub(crate) fn parse_bind(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().map_err(|_| {
        format!("{text:?} is not an IP address; use 127.0.0.1, 0.0.0.0 or [::], and --port for the port")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    #[test]
    fn addresses_with_and_without_brackets() {
        assert_eq!(parse_bind("0.0.0.0"), Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
        assert_eq!(parse_bind("[::]"), Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)));
        assert_eq!(parse_bind("::1"), Ok(IpAddr::V6(Ipv6Addr::LOCALHOST)));
        assert_eq!(parse_bind("localhost"), Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }

    #[test]
    fn a_port_or_a_name_is_refused_with_advice() {
        let expected =
            "\"127.0.0.1:80\" is not an IP address; use 127.0.0.1, 0.0.0.0 or [::], and --port for the port";
        assert_eq!(parse_bind("127.0.0.1:80"), Err(expected.to_owned()));
        assert!(parse_bind("example.org").is_err());
        assert!(parse_bind("[::").is_err());
    }
}
