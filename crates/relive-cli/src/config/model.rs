//! What every format comes to.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use relive_table::TableConfig;

use crate::checkpoints::Keys;
use crate::security::ServerSecurity;

/// Where a server listens unless told otherwise: nowhere that another machine could reach.
pub(crate) const DEFAULT_BIND: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The port of a server whose configuration names none.
pub(crate) const DEFAULT_PORT: u16 = 8000;

/// What a configuration file asks for.
#[derive(Debug)]
pub(crate) struct Config {
    /// The file, for messages.
    pub(crate) source: String,
    /// Address to listen on.
    pub(crate) bind: IpAddr,
    /// Port to listen on; 0 takes a free one.
    pub(crate) port: u16,
    /// Where metrics and the dashboard are.
    pub(crate) http: Option<SocketAddr>,
    /// The bytes of chunks that the server keeps in memory.
    pub(crate) max_bytes: Option<u64>,
    /// How long inserts wait for memory.
    pub(crate) max_bytes_wait: Option<Duration>,
    /// Where chunks beyond `max_bytes` move to.
    pub(crate) spill_dir: Option<PathBuf>,
    /// What is asked of clients.
    pub(crate) security: ServerSecurity,
    /// What is to be done about checkpoints.
    pub(crate) checkpoints: Keys,
    /// The tables, each valid by itself.
    pub(crate) tables: Vec<TableConfig>,
}
