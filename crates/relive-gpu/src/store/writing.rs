//! A trajectory that a thread of the controller's process is writing.
#![expect(
    unsafe_code,
    reason = "a row that is being written becomes a slice here; the block says why it is sound"
)]

use std::sync::Arc;

use super::controller::Place;
use super::inner::Inner;
use crate::bytes::{narrow, wide};
use crate::error::{Error, Result};
use crate::schema::Schema;

/// The place of a committed trajectory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inserted {
    /// The index over all ranks.
    pub index: u64,
    /// The generation of this trajectory; the row's next trajectory has a higher generation.
    pub generation: u64,
}

/// A row to write a trajectory to, in place. If it is dropped without [`commit`](Self::commit), the row is free again.
#[derive(Debug)]
pub struct Writing {
    store: Arc<Inner>,
    place: Place,
    done: bool,
    /// Whether nothing could be evicted in favor of this trajectory, so that `commit` need not try again.
    found_no_room: bool,
}

impl Writing {
    pub(super) fn new(store: Arc<Inner>, place: Place) -> Self {
        Self { store, place, done: false, found_no_room: false }
    }

    /// Returns the schema of the trajectory.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        self.store.segment.schema()
    }

    /// Returns the index that the trajectory will have.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.store.shard.global(self.place.row)
    }

    /// Returns all steps of a column, for writing in place. Initially, they contain the bytes of the row's previous
    /// trajectory.
    ///
    /// # Errors
    /// The column does not exist.
    pub fn column(&mut self, column: usize) -> Result<&mut [u8]> {
        check_column(self.schema(), column)?;
        let (start, bytes) = self.store.segment.row(column, self.place.row);
        // SAFETY: the bytes are within the mapping, which this value keeps alive. The row is in the state writing, and
        // only this value owns it; `&mut self` keeps the slice unique.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, narrow(bytes)) })
    }

    /// Returns one step of a column, for writing in place.
    ///
    /// # Errors
    /// The column or step does not exist.
    pub fn step(&mut self, column: usize, step: u64) -> Result<&mut [u8]> {
        check_column(self.schema(), column)?;
        let (bytes, most) = (self.schema().step_bytes(column), self.schema().max_steps());
        if step >= most {
            return Err(Error::invalid(format!(
                "step {step} is beyond the limit of {most} steps of a trajectory"
            )));
        }
        let begin = narrow(step * bytes);
        Ok(&mut self.column(column)?[begin..begin + narrow(bytes)])
    }

    /// Evicts what [`commit`](Self::commit) would evict. If the removal function fails, the caller can still abandon
    /// the trajectory by dropping this value.
    pub fn make_room(&mut self) {
        self.found_no_room = !self.store.make_room();
    }

    /// Makes the trajectory selectable, with the given number of steps and the given weight. With weight 0 it is kept,
    /// but never drawn.
    ///
    /// # Errors
    /// The length is 0 or beyond the schema's; the weight is negative, infinite or NaN. In these cases, the row is free
    /// again.
    pub fn commit(mut self, length: u64, weight: f32) -> Result<Inserted> {
        let length = check_length(self.schema(), length)?;
        check_weight(weight)?;
        self.done = true;
        if !self.found_no_room {
            self.store.make_room();
        }
        self.store.commit(self.place, length, weight);
        Ok(Inserted { index: self.index(), generation: self.place.generation })
    }

    /// Writes a copy of a trajectory: the bytes of each column, which [`check_columns`] has accepted.
    pub(super) fn fill(&mut self, columns: &[&[u8]]) -> Result<()> {
        for (position, bytes) in columns.iter().enumerate() {
            self.column(position)?[..bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.done {
            self.store.abort(self.place);
        }
    }
}

/// Checks that these are the bytes of all columns of a trajectory of `length` steps.
pub(super) fn check_columns(schema: &Schema, columns: &[&[u8]], length: u64) -> Result<()> {
    let expected = schema.columns().len();
    if columns.len() != expected {
        return Err(Error::invalid(format!(
            "got bytes of {} columns, but the schema has {expected}",
            columns.len()
        )));
    }
    check_length(schema, length)?;
    for (position, bytes) in columns.iter().enumerate() {
        let expected = length * schema.step_bytes(position);
        if wide(bytes.len()) != expected {
            let name = &schema.columns()[position].name;
            return Err(Error::invalid(format!(
                "column {name:?} has {} bytes, but {length} steps need {expected}",
                bytes.len()
            )));
        }
    }
    Ok(())
}

pub(crate) fn check_column(schema: &Schema, column: usize) -> Result<()> {
    let columns = schema.columns().len();
    if column >= columns {
        return Err(Error::not_found(format!("there is no column {column}; there are {columns}")));
    }
    Ok(())
}

/// Returns a length in the segment's type.
pub(crate) fn check_length(schema: &Schema, length: u64) -> Result<u32> {
    let most = schema.max_steps();
    u32::try_from(length).ok().filter(|&steps| steps > 0 && length <= most).ok_or_else(|| {
        Error::invalid(format!("a trajectory has {length} steps, but it must have 1 to {most}"))
    })
}

pub(crate) fn check_weight(weight: f32) -> Result<()> {
    if !weight.is_finite() || weight < 0.0 {
        return Err(Error::invalid(format!(
            "the weight is {weight}, but it must be finite and not negative"
        )));
    }
    Ok(())
}
