//! Several learners, each in its own process, that learn together.

use relive_nn::{Key, Optimizer, Params, Stream};
use relive_rl::Result;
use relive_rl::learners::Peers;

/// Takes a step against the mean gradient of all learners. Returns the gradient's norm.
///
/// # Errors
/// Another learner has been lost.
pub(crate) fn step(
    optimizer: &mut Optimizer,
    params: &mut Params,
    gradient: &mut [f32],
    peers: &Peers,
) -> Result<f32> {
    peers.mean(gradient)?;
    Ok(optimizer.step(params, gradient))
}

/// Converts a gradient and numbers from means over this learner's cells to means over the cells of all learners.
///
/// # Errors
/// Same as [`step`].
#[expect(clippy::cast_precision_loss, reason = "cells of a batch")]
pub(crate) fn mean_over_cells<const N: usize>(
    (gradient, numbers): (&mut Vec<f32>, [f32; N]),
    (own, all): (usize, usize),
    peers: &Peers,
) -> Result<[f32; N]> {
    if peers.is_alone() {
        return Ok(numbers);
    }
    let share = own as f32 * peers.count() as f32 / all.max(1) as f32;
    let length = gradient.len();
    gradient.extend(numbers);
    gradient.iter_mut().for_each(|number| *number *= share);
    peers.mean(gradient)?;
    let mut found = numbers;
    found.copy_from_slice(&gradient[length..]);
    gradient.truncate(length);
    Ok(found)
}

/// Gives each learner its own random numbers, although all learners started from the same state.
pub(crate) fn separate_stream(stream: &mut Stream, peers: &Peers) {
    if peers.rank() > 0 {
        *stream = Key::from_seed(stream.bits()).child("learner").nth(peers.rank().into()).stream();
    }
}
