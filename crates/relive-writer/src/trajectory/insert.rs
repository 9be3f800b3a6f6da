//! Writes one step as one item with a single call.

use std::time::Instant;

use relive_connection::{Deadline, Error, Result};
use relive_fleet::Backend;
use relive_tensor::{Nest, Tensor};

use super::options::TrajectoryWriterOptions;
use super::writer::TrajectoryWriter;

/// Writes one step as one item into each table in `priorities` (pairs of name and priority), and waits until the items
/// are confirmed. See [`TrajectoryWriterOptions::check_names`] for `check_names`. If a table refuses its item, this
/// function still waits until the items for the tables before it are confirmed, as dm-reverb's client does, and then
/// returns the error.
///
/// # Errors
/// `InvalidArgument` for an empty list of tables, a NaN priority, or a step that a table's signature or the server
/// refuses; `NotFound` for an unknown table; `Timeout` after the backend's timeout.
pub async fn insert(
    backend: &Backend,
    step: &Nest<Tensor>,
    priorities: &[(&str, f64)],
    check_names: bool,
) -> Result<()> {
    if priorities.is_empty() {
        return Err(Error::invalid("insert: give at least one table with a priority"));
    }
    let options = TrajectoryWriterOptions::new(1).signature_per_step(true).check_names(check_names);
    let mut writer = TrajectoryWriter::new(backend.clone(), &options)?;
    writer.append(step)?;
    let (started, deadline) = (Instant::now(), Deadline::after(backend.timeout()));
    let create = create_each(&mut writer, step, priorities);
    let created = deadline.run(create).await.unwrap_or_else(|| Err(backend.timed_out("insert")));
    let closed = writer.close_with_timeout(backend.timeout().saturating_sub(started.elapsed())).await;
    created.and(closed).map_err(|error| error.renamed("insert"))
}

/// Creates an item from the newest step for each table.
async fn create_each(
    writer: &mut TrajectoryWriter,
    step: &Nest<Tensor>,
    priorities: &[(&str, f64)],
) -> Result<()> {
    for (table, priority) in priorities {
        while !writer.agree_on_columns(table, step)? {
            writer.wait_until_ready(table).await?;
        }
        let columns = writer.newest_step()?;
        writer.create_item(table, *priority, columns).await?;
    }
    Ok(())
}
