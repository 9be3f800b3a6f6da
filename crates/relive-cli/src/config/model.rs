//! The common result of all formats.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use relive_table::TableConfig;

use crate::checkpoints::Keys;
use crate::security::ServerSecurity;

/// The default address to listen on, which is unreachable from other machines.
pub(crate) const DEFAULT_BIND: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The default port.
pub(crate) const DEFAULT_PORT: u16 = 8000;

/// The contents of a configuration file.
#[derive(Debug)]
pub(crate) struct Config {
    /// The file, for messages.
    pub(crate) source: String,
    /// Address to listen on.
    pub(crate) bind: IpAddr,
    /// Port to listen on; 0 picks a free one.
    pub(crate) port: u16,
    /// The address of metrics and the dashboard.
    pub(crate) http: Option<SocketAddr>,
    /// The bound on the bytes of chunks in memory.
    pub(crate) max_bytes: Option<u64>,
    /// How long inserts wait for memory.
    pub(crate) max_bytes_wait: Option<Duration>,
    /// The folder for chunks beyond `max_bytes`.
    pub(crate) spill_dir: Option<PathBuf>,
    /// The requirements for clients.
    pub(crate) security: ServerSecurity,
    /// The checkpoint settings.
    pub(crate) checkpoints: Keys,
    /// The tables, each valid by itself.
    pub(crate) tables: Vec<TableConfig>,
}
