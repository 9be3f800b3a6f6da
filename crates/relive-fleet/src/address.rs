//! Parses the addresses of servers, and names that refer to several servers.

use relive_connection::{Error, Result};

/// The largest number of servers that a client may use. Each server costs every client a connection and a request per
/// second.
pub(crate) const MAX_SERVERS: usize = 1024;

/// The notation for a name with a server at each of its addresses.
const NAME_PREFIX: &str = "dns:///";

/// gRPC's short notation for the same. A host may also be named `dns`, as in `dns:8000`.
const SHORT_NAME_PREFIX: &str = "dns:";

/// gRPC's notations for lists of addresses.
const LIST_PREFIXES: [&str; 2] = ["ipv4:", "ipv6:"];

/// The address of a server, or a name that refers to several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// One server at this address.
    Fixed(String),
    /// One server at each address of this name, `host:port`.
    Name(String),
}

impl Source {
    /// Returns the text as users write it.
    pub(crate) fn text(&self) -> String {
        match self {
            Source::Fixed(address) => address.clone(),
            Source::Name(name) => format!("{NAME_PREFIX}{name}"),
        }
    }

    /// Returns the name to be resolved, if the source is a name.
    pub(crate) fn name(&self) -> Option<String> {
        match self {
            Source::Fixed(_) => None,
            Source::Name(name) => Some(name.clone()),
        }
    }
}

/// Returns whether `address` may denote more than one server: a comma-separated list, or a name to be resolved.
pub(crate) fn is_many(address: &str) -> bool {
    let is_list = address.contains(',') || LIST_PREFIXES.iter().any(|prefix| address.starts_with(prefix));
    is_list || name_in(address).is_some()
}

/// Returns the name in `dns:///host:port` or `dns:host:port`.
fn name_in(address: &str) -> Option<&str> {
    let is_name = |name: &&str| name.contains(':') && !name.starts_with('/');
    let short = || address.strip_prefix(SHORT_NAME_PREFIX).filter(is_name);
    address.strip_prefix(NAME_PREFIX).or_else(short)
}

/// Parses the servers in `addresses`. Each address may itself be a comma-separated list.
///
/// # Errors
/// `InvalidArgument` for an empty list, a repeated address or a malformed address.
pub(crate) fn sources<A: AsRef<str>>(addresses: &[A]) -> Result<Vec<Source>> {
    let mut found = Vec::new();
    for address in addresses {
        for part in without_list_prefix(address.as_ref()).split(',').map(str::trim) {
            let source = source(part)?;
            if found.contains(&source) {
                return Err(Error::invalid(format!(
                    "the server {part:?} is listed twice; list each server once"
                )));
            }
            found.push(source);
        }
    }
    match found.len() {
        0 => Err(Error::invalid("there is no server address; give at least one, as host:port")),
        1..=MAX_SERVERS => Ok(found),
        many => Err(Error::invalid(format!("got {many} servers; a client can have at most {MAX_SERVERS}"))),
    }
}

fn source(part: &str) -> Result<Source> {
    match name_in(part) {
        None if part.is_empty() => Err(Error::invalid("a server address is empty; addresses are host:port")),
        None => Ok(Source::Fixed(part.to_owned())),
        Some(name) => match name.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) => {
                Ok(Source::Name(name.to_owned()))
            }
            _ => Err(Error::invalid(format!(
                "cannot use {part:?}: a name needs a port, as in {NAME_PREFIX}replay.default.svc:8000"
            ))),
        },
    }
}

fn without_list_prefix(address: &str) -> &str {
    LIST_PREFIXES.iter().find_map(|prefix| address.strip_prefix(prefix)).unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_lists_and_dns_names_are_parsed() {
        let fixed = |address: &str| Source::Fixed(address.to_owned());
        let name = |address: &str| Source::Name(address.to_owned());
        for (given, expected) in [
            (vec!["a:1", "b:2"], vec![fixed("a:1"), fixed("b:2")]),
            (vec!["a:1, b:2"], vec![fixed("a:1"), fixed("b:2")]),
            (vec!["ipv4:10.0.0.1:1,10.0.0.2:1"], vec![fixed("10.0.0.1:1"), fixed("10.0.0.2:1")]),
            (vec!["dns:///replay.svc:8000", "c:3"], vec![name("replay.svc:8000"), fixed("c:3")]),
            (vec!["dns:replay.svc:8000", "dns:3"], vec![name("replay.svc:8000"), fixed("dns:3")]),
        ] {
            assert_eq!(sources(&given).unwrap(), expected, "{given:?}");
        }
        assert!(is_many("a:1,b:2") && is_many("dns:///a:1") && is_many("dns:a:1"));
        assert!(!is_many("a:1") && !is_many("dns:1") && !is_many("dns://a:1"));
    }

    #[test]
    fn invalid_address_lists_are_reported() {
        for (given, why) in [
            (vec![], "no server address"),
            (vec!["a:1,,b:2"], "is empty"),
            (vec!["a:1", "a:1"], "listed twice"),
            (vec!["dns:///replay"], "needs a port"),
            (vec!["dns:///replay:0"], "needs a port"),
        ] {
            let error = sources(&given).unwrap_err();
            assert!(error.to_string().contains(why), "{given:?}: {error}");
        }
    }
}
