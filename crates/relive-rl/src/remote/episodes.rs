//! Episodes in a queue.

use std::time::Duration;

use relive_client::blocking::Client;
use relive_client::{Nest, Sample, Tensor};

use super::tables::is_timeout;
use crate::{Episode, Result, RlError};

/// The queue of episodes that were played.
pub(super) const TABLE: &str = "episodes";

/// Who has played an episode: the number of an actor, or the evaluator.
pub(super) type Player = Option<usize>;

pub(super) fn put(client: &Client, player: Player, episode: &Episode) -> Result<()> {
    let player = player.and_then(|number| i64::try_from(number).ok()).unwrap_or(-1);
    let step = Nest::dict([
        ("length", Nest::Leaf(Tensor::scalar(episode.length))),
        ("player", Nest::Leaf(Tensor::scalar(player))),
        ("return", Nest::Leaf(Tensor::scalar(episode.episode_return))),
    ]);
    Ok(client.insert(&step, &[(TABLE, 1.0)])?)
}

/// The next episodes, up to `most` of them; none if there are none in time.
pub(super) fn take(client: &Client, most: usize, patience: Duration) -> Result<Vec<(Player, Episode)>> {
    match client.with_timeout(patience).sample(TABLE, most) {
        Err(error) if is_timeout(&error) => Ok(Vec::new()),
        samples => samples?.iter().map(read).collect(),
    }
}

fn read(sample: &Sample) -> Result<(Player, Episode)> {
    let columns = sample.columns()?;
    let [length, player, episode_return] = columns.as_slice() else {
        return Err(RlError::state("an episode", format_args!("{} columns, not 3", columns.len())));
    };
    let damaged = |error: relive_tensor::TensorError| RlError::state("an episode", error);
    let first = |values: Vec<i64>| values.first().copied().unwrap_or(-1);
    let player = usize::try_from(first(player.to_vec().map_err(damaged)?)).ok();
    let length = length.to_vec::<u64>().map_err(damaged)?.first().copied().unwrap_or_default();
    let episode_return =
        episode_return.to_vec::<f64>().map_err(damaged)?.first().copied().unwrap_or_default();
    Ok((player, Episode { length, episode_return, duration: Duration::ZERO, metrics: Vec::new() }))
}
