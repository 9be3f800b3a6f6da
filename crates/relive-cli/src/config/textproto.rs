//! dm-reverb's configuration, protobuf text of `deepmind.reverb.ReverbServerConfig`.

use relive_wire::reverb::PriorityTableCheckpoint;
use relive_wire::table::config_from_wire;
use relive_wire::textproto;

use super::Config;
use super::model::DEFAULT_BIND;
use super::problem::Problem;
use crate::checkpoints::Keys;
use crate::security::ServerSecurity;

/// Reads protobuf text. The port is used as given; 0 or a missing port picks a free one.
pub(super) fn parse(text: &str) -> Result<Config, Problem> {
    let whole = |text: String| Problem { line: None, text };
    let message =
        textproto::server_config(text).map_err(|error| Problem { line: error.line, text: error.reason })?;
    if message.tables.is_empty() {
        return Err(whole(
            "the configuration must have at least one table; add tables { table_name: ... }".to_owned(),
        ));
    }
    let port = u16::try_from(message.port)
        .map_err(|_| whole(format!("port must be from 0 to 65535, got {}", message.port)))?;
    let table = |table: &PriorityTableCheckpoint| {
        // Like dm-reverb's server, this accepts tables that could never be sampled.
        let config = config_from_wire(table).map(|config| config.allow_never_sampled(true));
        config.map_err(|error| whole(error.to_string()))
    };
    let tables = message.tables.iter().map(table).collect::<Result<_, _>>()?;
    let source = String::new();
    Ok(Config {
        source,
        bind: DEFAULT_BIND,
        port,
        http: None,
        max_bytes: None,
        max_bytes_wait: None,
        spill_dir: None,
        security: ServerSecurity::default(),
        checkpoints: Keys::default(),
        tables,
    })
}
