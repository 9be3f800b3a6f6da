//! Server configurations in protobuf text, as dm-reverb's server reads them.

use relive_wire::{table, textproto};

/// Checks that text becomes valid table configurations, or an error.
pub fn check(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let Ok(config) = textproto::server_config(text) else { return false };
    let mut accepted = !config.tables.is_empty();
    for message in &config.tables {
        match table::config_from_wire(message) {
            Ok(table) => table.validate().expect("a configuration that was accepted"),
            Err(_) => accepted = false,
        }
    }
    accepted
}
