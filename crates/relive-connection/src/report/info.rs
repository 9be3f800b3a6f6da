//! The tables of a server.

use relive_table::TableInfo;
use relive_wire::reverb::ServerInfoResponse;
use relive_wire::table;

use crate::{Error, ErrorKind, Result};

/// The tables of a server at one point in time.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// An id that changes when the server restarts or its tables change.
    pub state_id: StateId,
    /// The tables, sorted by name.
    pub tables: Vec<TableInfo>,
}

/// The identity of a server's set of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StateId {
    /// Upper 64 bits.
    pub high: u64,
    /// The lower 64 bits.
    pub low: u64,
}

impl ServerInfo {
    /// Returns the table with the given name.
    pub fn table(&self, name: &str) -> Option<&TableInfo> {
        self.tables.iter().find(|table| table.config.name == name)
    }

    /// Converts a server's response.
    ///
    /// # Errors
    /// `Protocol` for invalid tables.
    pub fn from_message(message: &ServerInfoResponse) -> Result<ServerInfo> {
        let id = message.tables_state_id.unwrap_or_default();
        let tables = message.table_info.iter().map(table::info_from_wire).collect::<Result<Vec<_>, _>>();
        let tables = tables.map_err(|error| {
            let text = format!("server_info: the server sent an invalid description of a table: {error}");
            Error::with_source(ErrorKind::Protocol, text, error)
        })?;
        Ok(ServerInfo::new(StateId { high: id.high, low: id.low }, tables))
    }

    pub(crate) fn new(state_id: StateId, mut tables: Vec<TableInfo>) -> ServerInfo {
        tables.sort_unstable_by(|a, b| a.config.name.cmp(&b.config.name));
        ServerInfo { state_id, tables }
    }
}
