//! The gradients of critics and policy.

use relive_nn::{Network, Params, Scratch, Stream};
use relive_rl::plan::Transitions;

use super::loss::{Drawn, critic_loss, least_value_loss, targets};
use super::network::{Spaces, join};

/// What draws the actions that would follow a batch.
#[derive(Debug)]
pub(super) struct Continuation {
    pub(super) stream: Stream,
    scratch: Scratch,
    next: Drawn,
}

/// What finds the gradient of the critics.
#[derive(Debug, Default)]
pub(super) struct Criticism {
    scratch: [Scratch; 2],
    rows: Vec<f32>,
    next_rows: Vec<f32>,
    targets: Vec<f32>,
}

/// What finds the gradient of the policy.
#[derive(Debug)]
pub(super) struct Direction {
    pub(super) stream: Stream,
    drawn: Drawn,
    rows: Vec<f32>,
    by_rows: [Vec<f32>; 2],
    by_actions: Vec<f32>,
}

/// What both read.
pub(super) struct Seen<'a> {
    pub(super) spaces: &'a Spaces,
    pub(super) batch: &'a Transitions,
    pub(super) policy: (&'a Network, &'a Params),
    pub(super) critics: (&'a [Network; 2], &'a Params),
    pub(super) temperature: f32,
}

impl Continuation {
    pub(super) fn new(stream: Stream) -> Continuation {
        Continuation { stream, scratch: Scratch::default(), next: Drawn::default() }
    }

    /// Actions in the states that the batch ends in.
    pub(super) fn draw(&mut self, seen: &Seen<'_>) -> &Drawn {
        let (policy, params) = seen.policy;
        let outputs = policy.infer(params, &seen.batch.next_observations, &mut self.scratch);
        self.next.draw(outputs, seen.spaces.dimensions(), &mut self.stream);
        &self.next
    }
}

impl Criticism {
    /// Half the mean squared errors of both critics together, and their gradient. `next` gives the actions that follow, which are asked for
    /// when they are needed; where there are none, nothing is found.
    pub(super) fn find<'n>(
        &mut self,
        seen: &Seen<'_>,
        target: &Params,
        next: impl FnOnce() -> Option<&'n Drawn>,
        gradient: &mut [f32],
    ) -> Option<f32> {
        let Self { scratch: [first, second], rows, next_rows, targets: aims } = self;
        let Seen { batch, critics: ([one, other], params), .. } = seen;
        let dimensions = seen.spaces.dimensions();
        join(&batch.observations, &batch.actions, dimensions, rows);
        let of_first = one.gradient_into(params, rows, gradient, |values, by| {
            let next = next()?;
            join(&batch.next_observations, &next.actions, dimensions, next_rows);
            let next_values = [one.infer(target, next_rows, first), other.infer(target, next_rows, second)];
            targets((&batch.rewards, &batch.discounts), next_values, next, seen.temperature, aims);
            Some(critic_loss(values, aims, by))
        })?;
        Some(
            of_first
                + other.gradient_into(params, rows, gradient, |values, by| critic_loss(values, aims, by)),
        )
    }
}

impl Direction {
    pub(super) fn new(stream: Stream) -> Direction {
        let by_rows = Default::default();
        Direction { stream, drawn: Drawn::default(), rows: Vec::new(), by_rows, by_actions: Vec::new() }
    }

    /// The loss of the policy and its gradient; beside it the mean of log π.
    #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
    pub(super) fn find(&mut self, seen: &Seen<'_>, gradient: &mut [f32]) -> (f32, f32) {
        let Self { stream, drawn, rows, by_rows: [by_first, by_second], by_actions } = self;
        let Seen { batch, policy: (policy, policy_params), critics: ([one, other], params), .. } = seen;
        let (dimensions, width) = (seen.spaces.dimensions(), seen.spaces.observations.width());
        let loss =
            policy.gradient_into(policy_params, &batch.observations, gradient, |outputs, by_outputs| {
                drawn.draw(outputs, dimensions, stream);
                join(&batch.observations, &drawn.actions, dimensions, rows);
                by_first.resize(rows.len(), 0.0);
                by_second.resize(rows.len(), 0.0);
                let loss = one.input_gradient_into(params, rows, by_first, |first, by_value| {
                    other.input_gradient_into(params, rows, by_second, |second, by_other| {
                        least_value_loss([first, second], [by_value, by_other])
                    })
                });
                by_actions.clear();
                let each = width + dimensions;
                for (first, second) in by_first.chunks_exact(each).zip(by_second.chunks_exact(each)) {
                    by_actions.extend(first[width..].iter().zip(&second[width..]).map(|(a, b)| a + b));
                }
                drawn.pull_back(outputs, by_actions, seen.temperature, by_outputs);
                loss
            });
        let sum: f32 = drawn.log_probabilities.iter().sum();
        let log_probability = sum / drawn.log_probabilities.len().max(1) as f32;
        (loss + seen.temperature * log_probability, log_probability)
    }
}
