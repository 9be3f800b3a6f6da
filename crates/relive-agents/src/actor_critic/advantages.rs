//! Advantages: how much better actions were than the policy's average.

use relive_rl::Rollout;

/// Advantages and returns of the cells of a rollout, `[steps · rows]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Advantages {
    /// The return of the action minus the value of the state in which it was taken.
    pub advantages: Vec<f32>,
    /// The targets of the values: the advantage plus the value.
    pub returns: Vec<f32>,
}

/// Computes advantages by generalized advantage estimation (Schulman et al. 2016, equation 16): `δ_t = r_t +
/// γ·d_t·V(s_{t+1}) − V(s_t)` and `A_t = δ_t + γ·λ·d_t·A_{t+1}`, where `d_t` is the environment's discount and the sum
/// ends with the episode. If an episode is truncated, or the rollout ends first, the value of the last observation is
/// the bootstrap.
///
/// `rewards` and `values` are `[steps · rows]`, `last_values` is `[rows]`. Cells in which an episode starts are set to
/// 0.
///
/// # Panics
/// If a slice has a different length.
#[must_use]
pub fn generalized_advantages(
    rollout: &Rollout,
    (rewards, values, last_values): (&[f32], &[f32], &[f32]),
    (discount, lambda): (f32, f32),
) -> Advantages {
    let (rows, cells) = (rollout.rows, rollout.steps * rollout.rows);
    assert_eq!((rewards.len(), values.len(), last_values.len()), (cells, cells, rows), "one number a cell");
    let mut found = Advantages { advantages: vec![0.0; cells], returns: vec![0.0; cells] };
    let (mut next_values, mut next_advantages) = (last_values.to_vec(), vec![0.0_f32; rows]);
    for cell in (0..cells).rev() {
        let (row, answer) = (cell % rows, rollout.answers[cell]);
        if answer.first() {
            // The observation in this row is the last observation of the previous episode.
            (next_values[row], next_advantages[row]) = (values[cell], 0.0);
            continue;
        }
        #[expect(clippy::cast_possible_truncation, reason = "networks learn in float32")]
        let discount = discount * answer.discount as f32;
        if answer.last() {
            next_advantages[row] = 0.0;
        }
        let error = rewards[cell] + discount * next_values[row] - values[cell];
        let advantage = error + lambda * discount * next_advantages[row];
        found.advantages[cell] = advantage;
        found.returns[cell] = advantage + values[cell];
        (next_values[row], next_advantages[row]) = (values[cell], advantage);
    }
    found
}

#[cfg(test)]
mod tests {
    use relive_env::{Buffer, TimeStep};
    use relive_tensor::Nest;

    use super::*;

    fn rollout(rows: usize, answers: Vec<TimeStep>) -> Rollout {
        let nothing = || Buffer::for_nest(&Nest::None, 0).unwrap();
        let steps = answers.len() / rows;
        let (observations, actions, extras) = (nothing(), nothing(), nothing());
        Rollout { steps, rows, observations, actions, extras, answers, weights: None, acted: Vec::new() }
    }

    #[test]
    fn advantages_of_terminated_and_truncated_rows_match_a_hand_computation() {
        // Row 0: termination after two steps, then a reset. Row 1: truncation after one step, a reset, one more step.
        let (mid, end) = (TimeStep::transition(0.0), TimeStep::termination(0.0));
        let (cut, begin) = (TimeStep::truncation(0.0, 1.0), TimeStep::restart());
        let of = rollout(2, vec![mid, cut, end, begin, begin, mid]);
        let rewards = [1.0, 2.0, 3.0, 0.0, 0.0, 4.0];
        let values = [0.5, 1.0, 0.25, 8.0, 9.0, 2.0];
        let found = generalized_advantages(&of, (&rewards, &values, &[100.0, 16.0]), (0.5, 0.5));
        // Row 0: δ1 = 3 − .25, δ0 = 1 + .5·.25 − .5, A0 = δ0 + .25·δ1. The value after a termination is never used. Row
        // 1: δ0 = 2 + .5·8 − 1 with the value of the last observation; δ2 = 4 + .5·16 − 2.
        assert_eq!(found.advantages, [0.625 + 0.25 * 2.75, 5.0, 2.75, 0.0, 0.0, 10.0]);
        assert_eq!(found.returns, [0.5 + 0.625 + 0.25 * 2.75, 6.0, 3.0, 0.0, 0.0, 12.0]);
    }
}
