//! Columns, steps and episodes of one writer: everything that does not need a server.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use relive_connection::{Error, ErrorKind, Result};
use relive_tensor::{ChunkLength, ChunkStatistic, Rows};
use smallvec::SmallVec;

use super::append_error::AppendFault;
use super::column_state::{ColumnName, ColumnState, Membership};
use super::group::{ChunkGroup, FinishedChunks, StepPosition, WriterContext};
use crate::chunks::ChunkSlot;
use crate::chunks::Encoder;

/// Rows of a column, with the column's number.
pub(crate) type Cell<'a> = (usize, Rows<'a>);

#[derive(Debug)]
pub(crate) struct Recorder {
    writer_id: u64,
    rng: Xoshiro256PlusPlus,
    encoder: Encoder,
    columns: Vec<ColumnState>,
    groups: Vec<ChunkGroup>,
    default_length: ChunkLength,
    delta_encoded: bool,
    configured: HashMap<String, ChunkLength>,
    episode_id: u64,
    /// Completed steps of the episode.
    episode_steps: u64,
    /// Completed steps since the history was last cleared.
    history_steps: u64,
    step_is_open: bool,
}

impl Recorder {
    pub(crate) fn new(
        default_length: ChunkLength,
        mut rng: Xoshiro256PlusPlus,
        encoder: Encoder,
    ) -> Recorder {
        Recorder {
            encoder,
            writer_id: rng.random(),
            episode_id: new_key(&mut rng),
            rng,
            columns: Vec::new(),
            groups: Vec::new(),
            default_length,
            delta_encoded: false,
            configured: HashMap::new(),
            episode_steps: 0,
            history_steps: 0,
            step_is_open: false,
        }
    }

    pub(crate) fn writer_id(&self) -> u64 {
        self.writer_id
    }

    pub(crate) fn columns(&self) -> &[ColumnState] {
        &self.columns
    }

    /// Returns the total size in bytes of those chunks of the history that no table in this process holds.
    pub(crate) fn unheld_bytes(&self) -> u64 {
        let chunks = self.columns.iter().flat_map(|column| column.cells().chunks());
        let unheld = chunks.filter_map(|chunk| chunk.shared()).filter(|chunk| !chunk.is_held());
        // Columns share chunks.
        let mut counted = HashSet::new();
        unheld.filter(|chunk| counted.insert(chunk.key())).map(|chunk| chunk.size_bytes()).sum()
    }

    pub(crate) fn episode_steps(&self) -> u64 {
        self.episode_steps
    }

    pub(crate) fn step_is_open(&self) -> bool {
        self.step_is_open
    }

    pub(crate) fn history_len(&self) -> u64 {
        self.history_steps + u64::from(self.step_is_open)
    }

    /// Returns the position of the next append in the history.
    pub(crate) fn next_position(&self) -> u64 {
        self.history_steps
    }

    pub(crate) fn episode_id(&self) -> u64 {
        self.episode_id
    }

    /// Sets whether columns added later encode integers as differences before compression.
    pub(crate) fn delta_encoded(self, delta_encoded: bool) -> Recorder {
        Recorder { delta_encoded, ..self }
    }

    /// Draws a new key for an item.
    pub(crate) fn new_key(&mut self) -> u64 {
        new_key(&mut self.rng)
    }

    /// Appends a column for each path.
    pub(crate) fn add_columns(&mut self, paths: &[Arc<str>]) -> Result<()> {
        let first = self.columns.len();
        let names = (first..).zip(paths).map(|(number, path)| ColumnName { number, path: Arc::clone(path) });
        self.add_named_columns(names)
    }

    /// Appends columns that callers identify by their own numbers.
    pub(crate) fn add_named_columns(&mut self, names: impl Iterator<Item = ColumnName>) -> Result<()> {
        for name in names {
            let length = *self.configured.get(&*name.path).unwrap_or(&self.default_length);
            self.columns.push(ColumnState::new(name, length)?);
        }
        Ok(())
    }

    /// Checks one step's `cells` against the existing columns. Cells of columns that do not exist yet are allowed.
    pub(crate) fn check(&self, cells: &[Cell<'_>]) -> Result<()> {
        self.check_episode(1)?;
        cells.iter().try_for_each(|(column, rows)| self.check_rows(*column, rows))
    }

    /// Like [`check`](Self::check), but for several steps. Returns the number of steps, or `None` if there are no
    /// columns.
    pub(crate) fn check_sequence(&self, cells: &[Cell<'_>]) -> Result<Option<u32>> {
        let expected = cells.first().map(|(_, rows)| rows.rows());
        for (column, rows) in cells {
            let got = rows.rows();
            if let Some(expected) = expected.filter(|&expected| expected != got) {
                return Err(self.name(*column).error(AppendFault::Steps { got, expected }));
            }
            self.check_rows(*column, rows)?;
        }
        self.check_episode(expected.unwrap_or(0))?;
        Ok(expected)
    }

    /// Returns the error for a sequence without a leading dimension.
    pub(crate) fn no_steps(&self, column: usize) -> Error {
        self.name(column).error(AppendFault::NoSteps)
    }

    fn check_episode(&self, steps: u32) -> Result<()> {
        if i32::try_from(self.episode_steps + u64::from(steps)).is_ok() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::FailedPrecondition,
            format!(
                "the episode has {} steps, and {steps} more would exceed the range of step numbers; end the episode",
                self.episode_steps
            ),
        ))
    }

    fn check_rows(&self, column: usize, rows: &Rows<'_>) -> Result<()> {
        match self.columns.get(column) {
            Some(state) => state.check(rows, self.history_steps),
            None => self.name(column).check_size(rows),
        }
    }

    /// Returns the name that errors use for a column; the column may not exist yet.
    fn name(&self, column: usize) -> ColumnName {
        let known = self.columns.get(column).map(|state| state.name().clone());
        known.unwrap_or_else(|| ColumnName { number: column, path: Arc::from("(new)") })
    }

    /// Stores checked cells as one step, or as a part of a step that stays open.
    pub(crate) fn append(&mut self, cells: &[Cell<'_>], partial: bool) -> Result<FinishedChunks> {
        let finished = self.store(cells)?;
        self.step_is_open = partial;
        if !partial {
            self.episode_steps += 1;
            self.history_steps += 1;
        }
        Ok(finished)
    }

    /// Stores the checked values of `steps` steps; the first step may already be open.
    pub(crate) fn append_sequence(&mut self, cells: &[Cell<'_>], steps: u32) -> Result<FinishedChunks> {
        if steps == 0 {
            return Ok(FinishedChunks::new());
        }
        let finished = self.store(cells)?;
        self.step_is_open = false;
        self.episode_steps += u64::from(steps);
        self.history_steps += u64::from(steps);
        Ok(finished)
    }

    fn store(&mut self, cells: &[Cell<'_>]) -> Result<FinishedChunks> {
        let at = StepPosition {
            position: self.history_steps,
            episode_id: self.episode_id,
            step: i32::try_from(self.episode_steps).unwrap_or(i32::MAX),
        };
        let sorted = self.by_group(cells)?;
        let mut finished = FinishedChunks::new();
        for cells in sorted.chunk_by(|(a, _), (b, _)| a.group == b.group) {
            let group = cells.first().and_then(|(member, _)| self.groups.get_mut(member.group));
            let cells: SmallVec<[Cell<'_>; 8]> =
                cells.iter().map(|(member, rows)| (member.number, *rows)).collect();
            let rng = &mut self.rng;
            let mut owner = WriterContext {
                columns: &mut self.columns,
                encoder: &mut self.encoder,
                new_key: &mut || new_key(rng),
                finished: &mut finished,
            };
            group.map_or(Ok(()), |group| group.append(&cells, at, &mut owner))?;
        }
        Ok(finished)
    }

    /// Returns the cells by group. Columns that are new or have been reconfigured join a group.
    fn by_group<'a>(&mut self, cells: &[Cell<'a>]) -> Result<SmallVec<[(Membership, Rows<'a>); 8]>> {
        let mut made: SmallVec<[usize; 4]> = SmallVec::new();
        let mut sorted: SmallVec<[(Membership, Rows<'a>); 8]> = SmallVec::with_capacity(cells.len());
        for (index, rows) in cells {
            let Some(column) = self.columns.get_mut(*index) else { continue };
            column.learn(self.writer_id, *index, rows);
            let member = match column.membership() {
                Some(member) => member,
                None => {
                    let length = column.length();
                    let takes =
                        |at: &usize| self.groups.get(*at).is_some_and(|group| group.takes(length, rows));
                    let group = match made.iter().copied().find(takes) {
                        Some(group) => group,
                        None => {
                            let group = ChunkGroup::new(length, self.delta_encoded, rows)?;
                            let at = add_group(&mut self.groups, group);
                            made.push(at);
                            at
                        }
                    };
                    let number = self.groups.get_mut(group).map_or(0, |group| group.add(*index, rows));
                    let member = Membership { group, number };
                    column.join(member);
                    member
                }
            };
            sorted.push((member, *rows));
        }
        if !sorted.is_sorted_by_key(|(member, _)| member.group) {
            sorted.sort_by_key(|(member, _)| member.group);
        }
        Ok(sorted)
    }

    /// Cuts every open chunk.
    pub(crate) fn finish_all(&mut self) -> Result<FinishedChunks> {
        self.finish_where(|_| true)
    }

    /// Cuts the open chunks for which `is_wanted` is true.
    pub(crate) fn finish_where(&mut self, is_wanted: impl Fn(&ChunkSlot) -> bool) -> Result<FinishedChunks> {
        self.finish_groups(|group| group.open().is_some_and(|slot| is_wanted(slot)))
    }

    fn finish_groups(&mut self, is_wanted: impl Fn(&ChunkGroup) -> bool) -> Result<FinishedChunks> {
        let mut finished = FinishedChunks::new();
        let mut owner = WriterContext {
            columns: &mut self.columns,
            encoder: &mut self.encoder,
            new_key: &mut || 0,
            finished: &mut finished,
        };
        let mut wanted = self.groups.iter_mut().filter(|group| is_wanted(group));
        wanted.try_for_each(|group| group.finish(&mut owner))?;
        Ok(finished)
    }

    /// Records that items were created, and cuts the open chunks that these items need if the chunks are long enough.
    pub(crate) fn note_items(&mut self) -> Result<FinishedChunks> {
        self.finish_groups(ChunkGroup::note_items)
    }

    /// Forgets all columns; the episode continues. The open chunks must already have been cut.
    pub(crate) fn forget_columns(&mut self) {
        self.columns.clear();
        self.groups.clear();
        self.history_steps = 0;
    }

    /// Starts an episode. The open chunks must already have been cut.
    pub(crate) fn start_episode(&mut self, clear_history: bool) {
        if self.step_is_open {
            self.history_steps += 1;
            self.step_is_open = false;
        }
        if clear_history {
            self.columns.iter_mut().for_each(ColumnState::clear);
            self.history_steps = 0;
        }
        self.episode_steps = 0;
        self.episode_id = new_key(&mut self.rng);
    }

    /// Sets the chunk length of the column at `path`, which may not exist yet.
    pub(crate) fn configure(&mut self, path: &str, length: ChunkLength) -> Result<()> {
        let column = self.columns.iter_mut().find(|column| column.path() == path);
        if let Some(column) = column.filter(|column| column.length() != length) {
            let member = column.membership();
            let group = member.and_then(|member| Some((self.groups.get(member.group)?, member.number)));
            let rows = group.map_or(0, |(group, place)| group.buffered_rows(place));
            if rows > 0 {
                return Err(Error::new(
                    ErrorKind::FailedPrecondition,
                    format!(
                        "column {path:?}: the chunk length cannot change while {rows} steps are buffered; flush first"
                    ),
                ));
            }
            column.configure(length);
            if let Some(group) = member.and_then(|member| self.groups.get_mut(member.group)) {
                group.leave();
            }
        }
        self.configured.insert(path.to_owned(), length);
        Ok(())
    }

    /// Returns whether the chunk length of any column is tuned.
    pub(crate) fn is_tuned(&self) -> bool {
        self.columns.iter().any(ColumnState::is_tuned)
    }

    /// Returns the group of a column that has had values.
    pub(crate) fn group_of(&self, column: usize) -> Option<usize> {
        self.columns.get(column)?.membership().map(|member| member.group)
    }

    /// Records which data of a group's columns an item uses.
    pub(crate) fn record_item(&self, group: usize, cells: u32, chunks: &[ChunkStatistic]) {
        if let Some(group) = self.groups.get(group) {
            group.record_item(cells, chunks);
        }
    }
}

/// Draws a key in the same way as dm-reverb's clients: uniformly from all 64-bit numbers except the largest.
fn new_key(rng: &mut Xoshiro256PlusPlus) -> u64 {
    rng.random_range(0..u64::MAX)
}

/// Adds a group in place of one that all columns have left, if there is one, and returns its number.
fn add_group(groups: &mut Vec<ChunkGroup>, group: ChunkGroup) -> usize {
    let free = groups.iter().position(ChunkGroup::is_unused);
    let at = free.unwrap_or(groups.len());
    match groups.get_mut(at) {
        Some(unused) => *unused = group,
        None => groups.push(group),
    }
    at
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use relive_tensor::Tensor;

    use super::*;
    use crate::chunks::ChunkForm;

    #[test]
    fn a_group_that_all_columns_have_left_is_replaced() {
        let lengths = [1, 2].map(|length| ChunkLength::constant(length, 3).unwrap());
        let rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut recorder = Recorder::new(lengths[0], rng, Encoder::new(ChunkForm::Messages, None));
        recorder.add_columns(&[Arc::from("a"), Arc::from("b")]).unwrap();
        let (one, two) = (Tensor::scalar(1_i64), Tensor::scalar(2_i64));
        for length in lengths.into_iter().cycle().take(20) {
            recorder.configure("a", length).unwrap();
            recorder.append(&[(0, Rows::step(&one)), (1, Rows::step(&two))], false).unwrap();
            recorder.finish_all().unwrap();
        }
        assert_eq!(recorder.groups.len(), 2);
    }
}
