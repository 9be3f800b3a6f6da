//! `relive reset`: empties a table.

use clap::Args;
use relive_client::{Client, Waiter, WaiterOperation};

use crate::failure::Result;
use crate::output;
use crate::server::Target;
use crate::units::counted;

/// Options of `relive reset`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// Name of the table
    #[arg(value_name = "TABLE")]
    table: String,
}

/// Removes all items of the table.
pub(crate) async fn run(options: Options) -> Result {
    let client = options.target.connect().await?;
    client.reset(&options.table).await.map_err(|error| options.target.explain(error))?;
    let waiting = waiting_inserts(&client, &options.table).await;
    output::line(&outcome(&options.table, &waiting))?;
    Ok(())
}

/// The inserts that are still waiting after the reset.
#[derive(Debug, Default)]
struct WaitingInserts {
    known: u64,
    /// Whether the server lists only some of the waiters.
    may_be_more: bool,
}

/// Returns the waiting inserts of a table. If there are none, they may also be unknown, because dm-reverb's servers do
/// not list them.
async fn waiting_inserts(client: &Client, table: &str) -> WaitingInserts {
    let Ok(status) = client.status().await else { return WaitingInserts::default() };
    let Some(this) = status.tables.iter().find(|status| status.info.config.name == table) else {
        return WaitingInserts::default();
    };
    let is_insert = |waiter: &&Waiter| waiter.operation == WaiterOperation::Insert;
    let known = this.waiters.iter().filter(is_insert).count();
    WaitingInserts {
        known: u64::try_from(known).unwrap_or(u64::MAX),
        may_be_more: this.waiters_not_listed > 0,
    }
}

fn outcome(table: &str, waiting: &WaitingInserts) -> String {
    let inserts = counted(waiting.known, "waiting insert");
    match waiting {
        WaitingInserts { known: 0, .. } => format!("table {table} was reset"),
        WaitingInserts { may_be_more: true, .. } => {
            format!("table {table} was reset; at least {inserts} remain")
        }
        WaitingInserts { known: 1, .. } => format!("table {table} was reset; {inserts} remains"),
        WaitingInserts { .. } => format!("table {table} was reset; {inserts} remain"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_inserts_are_reported() {
        for (known, may_be_more, expected) in [
            (0, false, ""),
            (1, false, "; 1 waiting insert remains"),
            (1_200, false, "; 1,200 waiting inserts remain"),
            (1_000, true, "; at least 1,000 waiting inserts remain"),
        ] {
            let actual = outcome("t", &WaitingInserts { known, may_be_more });
            assert_eq!(actual, format!("table t was reset{expected}"));
        }
    }
}
