//! What became of a change, and what its table waits for since.

use relive_client::{Changed, Client};

use crate::units::counted;

/// A line for each rule that is other than before, and one for each operation that cannot happen now.
pub(super) async fn told(client: &Client, table: &str, changed: &Changed) -> String {
    let mut lines: Vec<String> = changed.changes.iter().map(line).collect();
    if lines.is_empty() {
        lines.push(format!("table {table}: nothing is other than before"));
    }
    if changed.evicted > 0 {
        lines.push(format!("table {table}: {} left", counted(changed.evicted, "item")));
    }
    // A change that was made is no failure because nobody says what follows from it.
    if let Ok(waits) = client.waits(table).await {
        lines.extend(waits.insert.map(|reason| format!("table {table}: an insert {reason}")));
        lines.extend(waits.sample.map(|reason| format!("table {table}: a sample {reason}")));
    }
    lines.join("\n")
}

fn line(change: &relive_client::LoggedChange) -> String {
    format!("table {}: {} was {}, is {}", change.table, change.what, change.old, change.new)
}
