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

/// Inserts that are still waiting after the reset.
#[derive(Debug, Default)]
struct Waiting {
    known: u64,
    /// Whether the server lists only some of the waiters.
    may_be_more: bool,
}

/// An empty list means that none are known: dm-reverb's servers do not list them.
async fn waiting_inserts(client: &Client, table: &str) -> Waiting {
    let Ok(status) = client.status().await else { return Waiting::default() };
    let Some(this) = status.tables.iter().find(|status| status.info.config.name == table) else {
        return Waiting::default();
    };
    let is_insert = |waiter: &&Waiter| waiter.operation == WaiterOperation::Insert;
    let known = this.waiters.iter().filter(is_insert).count();
    Waiting { known: u64::try_from(known).unwrap_or(u64::MAX), may_be_more: this.waiters_not_listed > 0 }
}

fn outcome(table: &str, waiting: &Waiting) -> String {
    let inserts = counted(waiting.known, "waiting insert");
    match waiting {
        Waiting { known: 0, .. } => format!("table {table} was reset"),
        Waiting { may_be_more: true, .. } => format!("table {table} was reset; at least {inserts} remain"),
        Waiting { known: 1, .. } => format!("table {table} was reset; {inserts} remains"),
        Waiting { .. } => format!("table {table} was reset; {inserts} remain"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserts_that_go_on_are_told() {
        for (known, may_be_more, expected) in [
            (0, false, ""),
            (1, false, "; 1 waiting insert remains"),
            (1_200, false, "; 1,200 waiting inserts remain"),
            (1_000, true, "; at least 1,000 waiting inserts remain"),
        ] {
            let told = outcome("t", &Waiting { known, may_be_more });
            assert_eq!(told, format!("table t was reset{expected}"));
        }
    }
}
