//! Addresses to listen on.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Returns an IP address, in brackets or not, or `localhost`.
///
/// Other names are rejected, because a name may stand for several addresses, and it would be unclear which of them is
/// open.
pub(crate) fn parse_bind(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().map_err(|_| {
        format!("{text:?} is not an IP address; use 127.0.0.1, 0.0.0.0 or [::], and --port for the port")
    })
}

/// Returns an IP address or `localhost`, and a port.
pub(crate) fn parse_socket(text: &str) -> Result<SocketAddr, String> {
    let parts =
        text.rsplit_once(':').and_then(|(host, port)| Some((parse_bind(host).ok()?, port.parse().ok()?)));
    parts.map(|(address, port)| SocketAddr::new(address, port)).ok_or_else(|| {
        format!("{text:?} is not an IP address and a port; write it as in 127.0.0.1:9090 or [::]:9090")
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
    fn an_address_with_a_port() {
        let text = |text| parse_socket(text).map(|address| address.to_string());
        assert_eq!(text("localhost:9090").as_deref(), Ok("127.0.0.1:9090"));
        assert_eq!(text("[::1]:0").as_deref(), Ok("[::1]:0"));
        let error = text("9090").unwrap_err();
        assert_eq!(
            error,
            "\"9090\" is not an IP address and a port; write it as in 127.0.0.1:9090 or [::]:9090"
        );
        assert!(text("example.org:1").is_err() && text("::1").is_err() && text("127.0.0.1:70000").is_err());
    }

    #[test]
    fn a_bare_port_or_name_is_refused_with_advice() {
        let expected =
            "\"127.0.0.1:80\" is not an IP address; use 127.0.0.1, 0.0.0.0 or [::], and --port for the port";
        assert_eq!(parse_bind("127.0.0.1:80"), Err(expected.to_owned()));
        assert!(parse_bind("example.org").is_err());
        assert!(parse_bind("[::").is_err());
    }
}
