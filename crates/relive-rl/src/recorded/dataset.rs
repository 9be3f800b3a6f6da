//! Data sets in D4RL's layout: a file with arrays of consecutive transitions.

use std::path::Path;

use relive_env::{ArraySpec, Buffer, EnvironmentSpec, TimeStep};
use relive_tensor::{DType, Nest};

use super::RecordedEpisode;
use super::convert::{of_type, write};
use super::npz::{Array, Npz};
use crate::Result;
use crate::acting::is_learnable;

/// The arrays of a file, with one row per transition.
struct Arrays {
    npz: Npz,
    rows: usize,
    observations: Vec<LeafArray>,
    /// The observation after each transition, if the data set has it.
    next_observations: Option<Vec<LeafArray>>,
    actions: Vec<LeafArray>,
    rewards: Array,
    terminals: Array,
    timeouts: Option<Array>,
}

/// A leaf of an environment's nest, and its array.
struct LeafArray {
    name: String,
    spec: ArraySpec,
    /// Only actions have bounds: observations may exceed their bounds, for example at the end of an episode.
    bounds: fn(&ArraySpec, usize) -> (f64, f64),
    array: Array,
}

/// Loads the episodes in a file of numpy's `savez` with the arrays `observations`, `actions`, `rewards` and
/// `terminals`, and optionally `timeouts` and `next_observations` (Fu et al. 2020). Arrays of leaves with a
/// path are named `observations/PATH`.
///
/// An episode ends after a row with a terminal or a timeout, and after a row whose next observation is not the
/// observation of the next row, as in shuffled transitions. The observation after its last row comes from
/// `next_observations`. Without this array, a last row without a terminal is dropped, as in D4RL, since its outcome is
/// unknown.
///
/// # Errors
/// [`Dataset`](crate::RlError::Dataset) with file and array: an array is missing, lengths differ, a number is not
/// finite or exceeds the range of float32, a terminal or a timeout is neither 0 nor 1, these have Gymnasium's names
/// (`terminations`, `truncations`), or rows do not fit the environment. [`Recording`](crate::RlError::Recording): the
/// file has a different format.
pub(super) fn load(path: &Path, spec: &EnvironmentSpec) -> Result<Vec<RecordedEpisode>> {
    let arrays = Arrays::read(Npz::open(path)?, spec)?;
    let mut episodes = Vec::new();
    let (mut begin, mut jumps) = (0, 0);
    for row in 0..arrays.rows {
        let ends = arrays.terminates(row) || arrays.times_out(row) || row + 1 == arrays.rows;
        let jumps_here = !ends && !arrays.leads_to_next_row(row)?;
        jumps += usize::from(jumps_here);
        if ends || jumps_here {
            episodes.extend(arrays.episode(begin, row + 1, spec)?);
            begin = row + 1;
        }
    }
    if jumps > 0 {
        tracing::info!(
            "{jumps} of {} rows of the data are truncated: they have no terminal and no timeout, but their \
             next_observations are not the observations of the next row",
            arrays.rows
        );
    }
    if episodes.is_empty() {
        return Err(arrays.npz.refused("observations", "it has no transition to learn from"));
    }
    Ok(episodes)
}

impl Arrays {
    fn read(mut npz: Npz, spec: &EnvironmentSpec) -> Result<Arrays> {
        expect_known_ends(&npz)?;
        let observations = leaves(&mut npz, "observations", &spec.observations)?;
        let has_next = npz.names().any(|name| name.split('/').next() == Some("next_observations"));
        let next_observations = match has_next {
            true => Some(leaves(&mut npz, "next_observations", &spec.observations)?),
            false => None,
        };
        let actions = leaves(&mut npz, "actions", &spec.actions)?;
        let (rewards, terminals) = (required(&mut npz, "rewards")?, required(&mut npz, "terminals")?);
        let timeouts = npz.array("timeouts")?;
        let rows = rewards.rows();
        let arrays =
            Arrays { npz, rows, observations, next_observations, actions, rewards, terminals, timeouts };
        arrays.expect_one_length()?;
        arrays.expect_numbers()?;
        Ok(arrays)
    }

    fn expect_one_length(&self) -> Result<()> {
        let named = [("rewards", &self.rewards), ("terminals", &self.terminals)].into_iter();
        let named = named.chain(self.timeouts.as_ref().map(|array| ("timeouts", array)));
        let of_leaves = self.leaves().map(|leaf| (leaf.name.as_str(), &leaf.array));
        for (name, array) in named.clone().chain(of_leaves) {
            if array.rows() != self.rows {
                let reason = format!("it has {} rows, but `rewards` has {}", array.rows(), self.rows);
                return Err(self.npz.refused(name, reason));
            }
        }
        for (name, array) in named {
            if array.shape.iter().skip(1).any(|dim| *dim != 1) {
                let reason = format!(
                    "its shape is {:?}, but it must have one number for each transition",
                    array.shape
                );
                return Err(self.npz.refused(name, reason));
            }
        }
        Ok(())
    }

    fn expect_numbers(&self) -> Result<()> {
        let of_leaves = self.leaves().map(|leaf| (leaf.name.as_str(), &leaf.array));
        for (name, array) in of_leaves.chain([("rewards", &self.rewards)]) {
            let count: usize = array.shape.iter().product();
            let odd = matches!(array.dtype, DType::Float32 | DType::Float64)
                .then(|| (0..count).find(|index| !is_learnable(array.number(*index))))
                .flatten();
            if let Some(odd) = odd {
                let (row, value) = (odd / (count / self.rows.max(1)).max(1), array.number(odd));
                let reason = "agents learn only from finite float32 numbers";
                return Err(self.npz.refused(name, format!("row {row} has {value:?}; {reason}")));
            }
        }
        let ends = [("terminals", Some(&self.terminals)), ("timeouts", self.timeouts.as_ref())];
        for (name, array) in ends.into_iter().filter_map(|(name, array)| Some((name, array?))) {
            let is_odd = |row: &usize| ![0.0, 1.0].contains(&array.number(*row));
            if let Some(row) = (0..self.rows).find(is_odd) {
                let reason = format!(
                    "row {row} has {}, but it must be 1 (the episode ends there) or 0",
                    array.number(row)
                );
                return Err(self.npz.refused(name, reason));
            }
        }
        Ok(())
    }

    fn leaves(&self) -> impl Iterator<Item = &LeafArray> {
        let next = self.next_observations.iter().flatten();
        self.observations.iter().chain(next).chain(&self.actions)
    }

    fn terminates(&self, row: usize) -> bool {
        self.terminals.number(row) != 0.0
    }

    fn times_out(&self, row: usize) -> bool {
        self.timeouts.as_ref().is_some_and(|timeouts| timeouts.number(row) != 0.0)
    }

    /// Returns whether the observation after a row is the observation of the next row. Without next observations, it
    /// is assumed to be.
    fn leads_to_next_row(&self, row: usize) -> Result<bool> {
        let Some(next) = &self.next_observations else { return Ok(true) };
        for (leaf, next) in self.observations.iter().zip(next) {
            let width = leaf.spec.num_elements()?;
            let is_single = leaf.spec.dtype == DType::Float32;
            let is_equal = |element: usize| {
                let after = next.array.number(row * width + element);
                let then = leaf.array.number((row + 1) * width + element);
                // The arrays may have different types; agents see both as the environment's type.
                #[expect(clippy::cast_possible_truncation, reason = "agents learn in float32")]
                let is_rounded = is_single && after as f32 == then as f32;
                after == then || is_rounded
            };
            if !(0..width).all(is_equal) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the episode in a range of rows, or `None` if its only row has no known outcome.
    fn episode(&self, begin: usize, end: usize, spec: &EnvironmentSpec) -> Result<Option<RecordedEpisode>> {
        let terminates = self.terminates(end - 1);
        let has_last_step = terminates || self.next_observations.is_some();
        let steps = if has_last_step { end - begin } else { end - begin - 1 };
        if steps == 0 {
            return Ok(None);
        }
        let mut observations = Buffer::for_nest(&spec.observations, steps + 1)?;
        let mut actions = Buffer::for_nest(&spec.actions, steps)?;
        for (index, leaf) in self.actions.iter().enumerate() {
            self.copy(leaf, begin..begin + steps, &mut actions, (index, 0))?;
        }
        for (index, leaf) in self.observations.iter().enumerate() {
            self.copy(leaf, begin..begin + steps, &mut observations, (index, 0))?;
            // The observation after a terminal is irrelevant.
            let (last, row) = match &self.next_observations {
                Some(next) => (&next[index], begin + steps - 1),
                None if terminates => (leaf, begin + steps - 1),
                None => (leaf, begin + steps),
            };
            self.copy(last, row..row + 1, &mut observations, (index, steps))?;
        }
        let answer = |step: usize| {
            let reward = self.rewards.number(begin + step);
            match (step + 1 == steps, terminates) {
                (false, _) => TimeStep::transition(reward),
                (true, true) => TimeStep::termination(reward),
                (true, false) => TimeStep::truncation(reward, 1.0),
            }
        };
        Ok(Some(RecordedEpisode { observations, actions, answers: (0..steps).map(answer).collect() }))
    }

    /// Copies rows of an array, starting at a given row, into a leaf of a buffer, converted to the leaf's type.
    fn copy(
        &self,
        leaf: &LeafArray,
        rows: std::ops::Range<usize>,
        buffer: &mut Buffer,
        (index, to): (usize, usize),
    ) -> Result<()> {
        let LeafArray { name, spec, bounds, array } = leaf;
        let (width, size) = (spec.num_elements()?, spec.dtype.size_bytes().unwrap_or(1));
        let all = buffer.leaf_bytes_mut(index).unwrap_or_default();
        let place = all.get_mut(to * width * size..(to + rows.len()) * width * size).unwrap_or_default();
        let numbers = rows.start * width..rows.end * width;
        for (element, number) in place.chunks_exact_mut(size).zip(numbers) {
            let value = array.number(number);
            write(spec, bounds(spec, number % width), value, element).map_err(|reason| {
                self.npz.refused(name, format!("row {} has {value}, but {reason}", number / width))
            })?;
        }
        Ok(())
    }
}

/// Returns the arrays of a nest.
fn leaves(npz: &mut Npz, name: &str, nest: &Nest<ArraySpec>) -> Result<Vec<LeafArray>> {
    let mut found = Vec::new();
    for (path, spec) in nest.flatten_with_paths() {
        let path = path.to_string();
        let name = if path.is_empty() { name.to_owned() } else { format!("{name}/{path}") };
        let array = required(npz, &name)?;
        let dims: Vec<usize> =
            spec.shape.dims().iter().map(|dim| usize::try_from(*dim).unwrap_or(usize::MAX)).collect();
        // A scalar may be stored as a scalar or as a row of one element.
        let is_scalar = dims.is_empty() && array.shape.len() == 2 && array.shape[1] == 1;
        if array.shape.get(1..) != Some(&dims[..]) && !is_scalar {
            let reason =
                format!("its shape is {:?}, but the environment has {spec} for each row", array.shape);
            return Err(npz.refused(&name, reason));
        }
        let bounds = if name.starts_with("actions") { ArraySpec::bounds } else { of_type };
        found.push(LeafArray { name, spec: spec.clone(), bounds, array });
    }
    Ok(found)
}

/// Refuses arrays with Gymnasium's names for the ends of episodes: without them, episodes would be joined.
fn expect_known_ends(npz: &Npz) -> Result<()> {
    let has = |name: &str| npz.names().any(|other| other == name);
    for (other, name) in [("terminations", "terminals"), ("truncations", "timeouts")] {
        if has(other) && !has(name) {
            return Err(npz.refused(other, format!("it must be called `{name}`; rename it")));
        }
    }
    Ok(())
}

fn required(npz: &mut Npz, name: &str) -> Result<Array> {
    let found = npz.array(name)?;
    found.ok_or_else(|| {
        let names: Vec<&str> = npz.names().collect();
        npz.refused(name, format!("it is missing; the file has {}", names.join(", ")))
    })
}
