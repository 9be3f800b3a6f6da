//! Observations and actions as numbers.

use relive_env::{Buffer, EnvironmentSpec};
use relive_rl::{Features, Result, RlError};

use crate::actions;
use crate::actor_critic::{Head, WIDEST};
use crate::images::plain_numbers;

/// Observations as rows of numbers, and actions scaled to −1..1 and back.
#[derive(Debug, Clone)]
pub(crate) struct Spaces {
    pub(crate) observations: Features,
    low: Vec<f32>,
    high: Vec<f32>,
}

impl Spaces {
    /// # Errors
    /// [`Unsuited`](RlError::Unsuited): the action is not one bounded float32 array, a component of the action has no
    /// range, or observations are not numbers.
    pub(crate) fn of(spec: &EnvironmentSpec) -> Result<Spaces> {
        let observations = plain_numbers(&spec.observations)?;
        let expected = "actions that are one array of float32 between bounds";
        match Head::of(spec) {
            Ok(Head::Normal { low, high }) if low.iter().chain(&high).all(|bound| bound.is_finite()) => {
                expect_ranges(spec, &low, &high)?;
                Ok(Spaces { observations, low, high })
            }
            Err(RlError::Unsuited { got, .. }) => Err(RlError::Unsuited { expected, got }),
            Ok(Head::Normal { low, high }) => {
                let bounds = low.iter().zip(&high).enumerate();
                let unbounded =
                    |(_, (low, high)): &(usize, (&f32, &f32))| !low.is_finite() || !high.is_finite();
                let component = bounds.clone().find(unbounded).map_or(0, |(component, _)| component);
                let got = format!(
                    "{} with the bounds {} and {} for component {component}; declare finite bounds",
                    actions::describe(&spec.actions),
                    low[component],
                    high[component]
                );
                Err(RlError::Unsuited { expected, got })
            }
            _ => Err(RlError::Unsuited { expected, got: actions::describe(&spec.actions) }),
        }
    }

    /// Returns the number of dimensions of an action.
    pub(crate) fn dimensions(&self) -> usize {
        self.low.len()
    }

    /// Returns the number of values in an observation.
    pub(crate) fn width(&self) -> usize {
        self.observations.width()
    }

    /// Scales actions of the environment to −1..1 in place. Actions outside the bounds are clamped.
    pub(crate) fn scale(&self, actions: &mut [f32]) {
        for row in actions.chunks_exact_mut(self.dimensions()) {
            for ((number, low), high) in row.iter_mut().zip(&self.low).zip(&self.high) {
                *number = (2.0 * (*number - low) / (high - low) - 1.0).clamp(-1.0, 1.0);
            }
        }
    }

    /// Writes an action in −1..1 to a row of the environment's actions.
    pub(crate) fn write(&self, scaled: &[f32], actions: &mut Buffer, row: usize) -> Result<()> {
        let width = self.dimensions();
        let place = &mut actions.leaf_mut::<f32>(0)?[row * width..(row + 1) * width];
        for (((to, scaled), low), high) in place.iter_mut().zip(scaled).zip(&self.low).zip(&self.high) {
            *to = (low + 0.5 * (scaled + 1.0) * (high - low)).clamp(*low, *high);
        }
        Ok(())
    }
}

/// Returns whether actions can be scaled by their bounds. Very wide bounds usually mean that there are none:
/// environments declare the largest float32 instead.
fn has_range(low: f32, high: f32) -> bool {
    low < high && 0.5 * high - 0.5 * low < WIDEST
}

/// Checks that each component of an action has a range: actions are scaled by it, and a component without one can
/// neither be scaled nor learned.
fn expect_ranges(spec: &EnvironmentSpec, low: &[f32], high: &[f32]) -> Result<()> {
    let Some((component, (low, high))) =
        low.iter().zip(high).enumerate().find(|(_, (low, high))| !has_range(**low, **high))
    else {
        return Ok(());
    };
    let leaf = spec.actions.leaves().next();
    let name = leaf.map_or("", |leaf| leaf.name.as_str());
    let name = if name.is_empty() { String::new() } else { format!(" of `{name}`") };
    let (expected, advice) = if low < high {
        (
            "actions between bounds that are less than 2,000,000 apart",
            "narrow the bounds to those of useful actions",
        )
    } else {
        ("actions whose lower bounds are below their upper bounds", "remove the component from the actions")
    };
    let got = format!("the bounds {low} and {high} for component {component}{name}; {advice}");
    Err(RlError::Unsuited { expected, got })
}

/// Concatenates each row of observations with its actions.
pub(crate) fn join(observations: &[f32], actions: &[f32], dimensions: usize, rows: &mut Vec<f32>) {
    rows.clear();
    append(observations, actions, dimensions, rows);
}

/// Like [`join`], but for several actions in each state: both `actions` and the rows are `[samples, batch,
/// dimensions]`.
pub(crate) fn join_many(
    observations: &[f32],
    actions: &[f32],
    (dimensions, samples): (usize, usize),
    rows: &mut Vec<f32>,
) {
    rows.clear();
    for actions in actions.chunks_exact((actions.len() / samples.max(1)).max(1)) {
        append(observations, actions, dimensions, rows);
    }
}

fn append(observations: &[f32], actions: &[f32], dimensions: usize, rows: &mut Vec<f32>) {
    let count = actions.len() / dimensions;
    let width = observations.len() / count.max(1);
    for (observation, action) in observations.chunks_exact(width.max(1)).zip(actions.chunks_exact(dimensions))
    {
        rows.extend_from_slice(observation);
        rows.extend_from_slice(action);
    }
}

#[cfg(test)]
mod tests {
    use relive_env::ArraySpec;
    use relive_tensor::DType;

    use super::*;

    #[test]
    fn actions_with_equal_bounds_are_refused_with_the_component() {
        let of = |name: &str, minimum: &[f64], maximum: &[f64]| {
            let actions = ArraySpec::new(name, DType::Float32, [2]);
            let actions = actions.bounded_each(minimum.to_vec(), maximum.to_vec());
            Spaces::of(&EnvironmentSpec::new(ArraySpec::new("", DType::Float32, [1]), actions)).map(drop)
        };
        of("torque", &[-1.0, 0.5], &[1.0, 0.75]).unwrap();
        let error = of("torque", &[-1.0, 0.5], &[1.0, 0.5]).unwrap_err().to_string();
        assert_eq!(
            error,
            "this agent takes actions whose lower bounds are below their upper bounds, but the environment has the \
             bounds 0.5 and 0.5 for component 1 of `torque`; remove the component from the actions"
        );
        let widest = f64::from(f32::MAX);
        let error = of("force", &[-1.0, -widest], &[1.0, widest]).unwrap_err().to_string();
        assert!(error.contains("for component 1 of `force`; narrow the bounds"), "{error}");
        // The bounds of each component are equal as float32, which is the type of the actions.
        let error = of("", &[1.0, -1.0], &[1.0 + 1e-12, 1.0]).unwrap_err().to_string();
        assert!(error.contains("the bounds 1 and 1 for component 0; remove"), "{error}");
    }

    #[test]
    fn several_actions_are_joined_with_the_same_observations() {
        let mut rows = Vec::new();
        join_many(&[1.0, 2.0, 3.0, 4.0], &[0.1, 0.2, 0.3, 0.4], (1, 2), &mut rows);
        assert_eq!(rows, [1.0, 2.0, 0.1, 3.0, 4.0, 0.2, 1.0, 2.0, 0.3, 3.0, 4.0, 0.4]);
    }
}
