//! Reports the outcome of a change, and the conditions that calls on its table now wait for.

use relive_client::{Changed, Client};

use crate::units::counted;

/// Returns a line for each changed rule, and one for each operation that is now blocked.
pub(super) async fn describe(client: &Client, table: &str, changed: &Changed) -> String {
    let mut lines: Vec<String> = changed.changes.iter().map(line).collect();
    if lines.is_empty() {
        lines.push(format!("table {table}: nothing changed"));
    }
    if changed.evicted > 0 {
        lines.push(format!("table {table}: {} evicted", counted(changed.evicted, "item")));
    }
    // The change has been made, so a failure to query its consequences is not an error.
    if let Ok(waits) = client.waits(table).await {
        lines.extend(waits.insert.map(|reason| format!("table {table}: an insert {reason}")));
        lines.extend(waits.sample.map(|reason| format!("table {table}: a sample {reason}")));
    }
    lines.join("\n")
}

fn line(change: &relive_client::LoggedChange) -> String {
    format!("table {}: {} was {}, is {}", change.table, change.what, change.old, change.new)
}
