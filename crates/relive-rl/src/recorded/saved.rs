//! Recorded episodes on disk, as a checkpoint with a table.

use std::fmt::Display;
use std::path::Path;

use relive_checkpoint::{ErrorKind, LoadOptions, Store};
use relive_client::blocking::Client;
use relive_engine::Engine;
use relive_env::{ArraySpec, Buffer, EnvironmentSpec, TimeStep, View};
use relive_table::{CheckpointProgress, SelectorKind, TableConfig};
use relive_tensor::{Nest, Tensor, Trajectory};

use super::{RecordedEpisode, convert, dataset};
use crate::acting::FiniteCheck;
use crate::adders::{EpisodeAdder, step_spec};
use crate::{Result, RlError};

/// The table of episodes.
pub const TABLE: &str = "episodes";

/// Writes episodes of an environment as a checkpoint in a folder, which is created if necessary.
///
/// # Errors
/// The folder cannot be written, or an episode does not fit `spec`. [`Recording`](RlError::Recording): a number is not
/// finite, or exceeds the range of float32.
pub fn save(folder: impl AsRef<Path>, spec: &EnvironmentSpec, episodes: &[RecordedEpisode]) -> Result<()> {
    let folder = folder.as_ref();
    let location = folder.to_str().ok_or_else(|| RlError::recording(folder, "its name is not UTF-8"))?;
    let (sampler, size) = (SelectorKind::Fifo, episodes.len().max(1) as u64);
    let engine = Engine::builder().table(TableConfig::new(TABLE).sampler(sampler).max_size(size)).build()?;
    let client = Client::in_process(engine.clone())?;
    expect_numbers(folder, spec, episodes)?;
    for episode in episodes {
        episode.expect(spec)?;
        // One adder per episode, since lengths differ.
        let rows = episode.answers.len() + 1;
        episode.write(&mut EpisodeAdder::new(&client, TABLE, spec, None, rows)?, View::empty())?;
    }
    std::fs::create_dir_all(folder).map_err(|error| RlError::file(folder, error))?;
    Store::open(location)?.save(engine.snapshot(), &CheckpointProgress::default())?;
    Ok(())
}

/// Loads the episodes in the newest checkpoint of a folder, in the order in which they were written, or the
/// episodes of a file in D4RL's layout, as written by numpy's `savez`.
///
/// Such a file has the arrays `observations`, `actions`, `rewards` and `terminals`, and optionally `timeouts`
/// and `next_observations`, each with one row per transition (Fu et al. 2020). If observations or actions
/// have leaves with paths, arrays are named `observations/PATH`. An episode ends with a terminal or a
/// timeout. Without `next_observations`, a last row without a terminal is dropped, since its outcome is
/// unknown.
///
/// # Errors
/// [`Recording`](RlError::Recording): the checkpoint does not exist, is damaged or has no table `episodes`; the
/// episodes do not fit the environment; or a number is not finite or exceeds the range of float32.
/// [`Dataset`](RlError::Dataset), with file and array: an array is missing, lengths differ, a number is not finite or
/// exceeds the range of float32, a terminal or a timeout is neither 0 nor 1, or rows do not fit the environment.
pub fn load(folder: impl AsRef<Path>, spec: &EnvironmentSpec) -> Result<Vec<RecordedEpisode>> {
    let folder = folder.as_ref();
    let refused = |reason: &dyn Display| RlError::recording(folder, reason);
    if !folder.exists() {
        return Err(refused(&"no folder of recorded episodes (relive rl record) and no file exists there"));
    }
    if folder.is_file() {
        return dataset::load(folder, spec);
    }
    let location = folder.to_str().ok_or_else(|| refused(&"its name is not UTF-8"))?;
    let loaded =
        relive_checkpoint::load(location, &LoadOptions::new()).map_err(|error| match error.kind() {
            ErrorKind::Location => refused(&"there is no checkpoint of recorded episodes in it"),
            _ => refused(&error),
        })?;
    let table = loaded.snapshot.tables.iter().find(|table| table.config.name == TABLE);
    let table = table.ok_or_else(|| refused(&format_args!("it has no table `{TABLE}`")))?;
    let episode = |(number, trajectory): (usize, &Trajectory)| {
        decoded(trajectory, spec).map_err(|reason| refused(&format_args!("episode {number}: {reason}")))
    };
    let trajectories = table.items.iter().map(|item| &item.data.trajectory);
    let episodes = trajectories.enumerate().map(episode).collect::<Result<Vec<_>>>()?;
    expect_numbers(folder, spec, &episodes)?;
    Ok(episodes)
}

/// Checks that a learner can use all numbers.
fn expect_numbers(folder: &Path, spec: &EnvironmentSpec, episodes: &[RecordedEpisode]) -> Result<()> {
    let mut check = FiniteCheck::new(spec);
    let mut all = episodes.iter();
    all.try_for_each(|episode| episode.check(&mut check)).map_err(|error| match error {
        RlError::NotFinite { episode, step, place, value, .. } => {
            let reason = "agents learn only from finite float32 numbers";
            // Zero-based, like a list index.
            let number = episode.saturating_sub(1);
            let text = format!("episode {number}, step {step}: the {place} is {value:?}, but {reason}");
            RlError::recording(folder, text)
        }
        error => error,
    })
}

/// A result whose error is the reason that an episode is unreadable.
type Decoded<T> = std::result::Result<T, String>;

/// Decodes an episode from the columns of its item, which are in the order of their names: action, discount,
/// observation, reward.
fn decoded(trajectory: &Trajectory, spec: &EnvironmentSpec) -> Decoded<RecordedEpisode> {
    let text = |error: &dyn Display| error.to_string();
    let columns = trajectory.decode().map_err(|error| text(&error))?;
    let expected = step_spec(spec, None).len();
    if columns.len() != expected {
        return Err(format!("it has {} columns, but the environment's steps have {expected}", columns.len()));
    }
    let rows = columns.first().and_then(|column| column.shape().dims().first().copied()).unwrap_or(0);
    let steps = usize::try_from(rows).unwrap_or(0).saturating_sub(1);
    let (actions, observations) = (spec.actions.len(), spec.observations.len());
    let numbers = |column: usize| columns[column].to_vec::<f32>().map_err(|error| text(&error));
    let (discounts, rewards) = (numbers(actions)?, numbers(actions + 1 + observations)?);
    if steps == 0 || discounts.len() != steps + 1 || rewards.len() != steps + 1 {
        return Err(format!("it has {rows} rows, but an episode must have at least 2"));
    }
    let mut of_actions = Buffer::for_nest(&spec.actions, steps).map_err(|error| text(&error))?;
    let mut of_observations =
        Buffer::for_nest(&spec.observations, steps + 1).map_err(|error| text(&error))?;
    fill(&columns[..actions], &spec.actions, &mut of_actions, "actions", ArraySpec::bounds)?;
    let of_them = &columns[actions + 1..=actions + observations];
    fill(of_them, &spec.observations, &mut of_observations, "observations", convert::of_type)?;
    let answer = |step: usize| {
        let (reward, discount) = (f64::from(rewards[step]), f64::from(discounts[step]));
        match step + 1 == steps {
            true => TimeStep::truncation(reward, discount),
            false => TimeStep { discount, ..TimeStep::transition(reward) },
        }
    };
    let answers = (0..steps).map(answer).collect();
    Ok(RecordedEpisode { observations: of_observations, actions: of_actions, answers })
}

/// The bounds of a leaf's elements.
type Bounds = fn(&ArraySpec, usize) -> (f64, f64);

/// Copies the first rows of columns into the leaves of a nest, converted to the types of the leaves. `name` is the name
/// of the nest in messages.
fn fill(
    columns: &[Tensor],
    nest: &Nest<ArraySpec>,
    buffer: &mut Buffer,
    name: &str,
    bounds: Bounds,
) -> Decoded<()> {
    for (leaf, ((path, spec), column)) in nest.flatten_with_paths().into_iter().zip(columns).enumerate() {
        let path = path.to_string();
        let name = if path.is_empty() { name.to_owned() } else { format!("{name} at `{path}`") };
        fill_leaf(column, spec, buffer.leaf_bytes_mut(leaf).unwrap_or_default(), &name, bounds)?;
    }
    Ok(())
}

fn fill_leaf(column: &Tensor, spec: &ArraySpec, out: &mut [u8], name: &str, bounds: Bounds) -> Decoded<()> {
    let dims = column.shape().dims();
    let refused = || {
        let got = format!("{} of {dims:?} for all steps", column.dtype().numpy_name());
        format!("its {name} are {got}, but the environment has {spec} for each step")
    };
    if dims.get(1..) != Some(spec.shape.dims()) {
        return Err(refused());
    }
    let short = || format!("its {name} have fewer rows than its other columns");
    if column.dtype() == spec.dtype {
        let bytes = column.bytes().map_or(&[][..], |bytes| bytes);
        out.copy_from_slice(bytes.get(..out.len()).ok_or_else(short)?);
        return Ok(());
    }
    let numbers = convert::numbers(column).map_err(|error| error.to_string())?.ok_or_else(refused)?;
    let (size, width) = (spec.dtype.size_bytes().unwrap_or(1), spec.num_elements().unwrap_or(1).max(1));
    let numbers = numbers.get(..out.len() / size).ok_or_else(short)?;
    for (index, (element, &value)) in out.chunks_exact_mut(size).zip(numbers).enumerate() {
        convert::write(spec, bounds(spec, index % width), value, element).map_err(|reason| {
            format!("step {}: one of its {name} is {value}, but {reason}", index / width)
        })?;
    }
    Ok(())
}
