//! Protects an address that serves only this machine from web pages.
//!
//! The owner of a page can let the page's host name resolve to 127.0.0.1 after a browser has loaded the page (DNS
//! rebinding). The browser then lets the page read from the server on its machine. Such a request has the page's host
//! name; requests by people and programs on this machine have an IP address or `localhost`.

use std::net::IpAddr;

use axum::response::{IntoResponse, Response};
use http::header::HOST;
use http::uri::Authority;
use http::{Request, StatusCode};

/// Returns the answer to a request with a host name other than `localhost`, or `None` for any other request.
pub(super) fn refusal<B>(request: &Request<B>) -> Option<Response> {
    if is_local(request) {
        return None;
    }
    let text = "this address serves only this machine, but the host in the request is neither an IP address nor \
                localhost; use http://localhost with this port, or let the proxy send such a host\n";
    Some((StatusCode::FORBIDDEN, text).into_response())
}

/// Programs that are not browsers may send no host.
fn is_local<B>(request: &Request<B>) -> bool {
    let header = request.headers().get(HOST).map(|host| Authority::try_from(host.as_bytes()));
    match (request.uri().authority(), header) {
        (Some(authority), _) => is_local_host(authority),
        (None, Some(Ok(authority))) => is_local_host(&authority),
        (None, Some(Err(_))) => false,
        (None, None) => true,
    }
}

fn is_local_host(authority: &Authority) -> bool {
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_foreign_host_names_are_refused() {
        for (host, status) in [
            (Some("127.0.0.1:9090"), None),
            (Some("[::1]:9090"), None),
            (Some("10.0.0.7"), None),
            (Some("LocalHost:9090"), None),
            (None, None),
            (Some("rebound.example:9090"), Some(StatusCode::FORBIDDEN)),
            (Some("localhost.example"), Some(StatusCode::FORBIDDEN)),
            (Some("127.0.0.1.example"), Some(StatusCode::FORBIDDEN)),
            (Some("not a host"), Some(StatusCode::FORBIDDEN)),
        ] {
            let request = Request::builder().uri("/plan");
            let request = host.into_iter().fold(request, |request, host| request.header(HOST, host));
            let refused = refusal(&request.body(()).unwrap());
            assert_eq!(refused.map(|response| response.status()), status, "{host:?}");
        }
    }
}
