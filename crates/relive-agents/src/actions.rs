//! Discrete actions, and the description of other actions in errors.

use relive_env::{ArraySpec, Buffer, EnvironmentSpec};
use relive_rl::{Result, RlError};
use relive_tensor::{DType, Nest};

/// A discrete action: a number below a given count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Discrete {
    /// The number of actions.
    pub(crate) count: usize,
    dtype: DType,
}

impl Discrete {
    /// Returns the discrete action of an environment, if it takes exactly one.
    pub(crate) fn of(spec: &EnvironmentSpec) -> Option<Discrete> {
        let Nest::Leaf(leaf) = &spec.actions else { return None };
        let count = usize::try_from(leaf.num_values()?).unwrap_or(usize::MAX);
        matches!(leaf.dtype, DType::Int32 | DType::Int64).then_some(Discrete { count, dtype: leaf.dtype })
    }

    /// Like [`of`](Self::of), but fails for other actions.
    ///
    /// # Errors
    /// [`Unsuited`](RlError::Unsuited) for other actions; the error names the unsupported leaf.
    pub(crate) fn expect(spec: &EnvironmentSpec) -> Result<Discrete> {
        let unsuited = || RlError::Unsuited { expected: "one discrete action", got: describe(&spec.actions) };
        Discrete::of(spec).ok_or_else(unsuited)
    }

    /// Writes the action with the given number to a row.
    pub(crate) fn write(self, action: usize, actions: &mut Buffer, row: usize) -> Result<()> {
        match self.dtype {
            DType::Int32 => actions.leaf_mut::<i32>(0)?[row] = i32::try_from(action).unwrap_or(i32::MAX),
            _ => actions.leaf_mut::<i64>(0)?[row] = i64::try_from(action).unwrap_or(i64::MAX),
        }
        Ok(())
    }

    /// The numbers of actions that are stored as float32, as in batches.
    ///
    /// # Errors
    /// [`Unsuited`](RlError::Unsuited): no action has this number.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "numbers of actions are whole, and far below 2^24"
    )]
    pub(crate) fn numbers(self, actions: &[f32], numbers: &mut Vec<usize>) -> Result<()> {
        if let Some(odd) = actions.iter().find(|action| !(0.0..self.count as f32).contains(*action)) {
            let got = format!("a transition with the action {odd}");
            return Err(RlError::Unsuited { expected: "actions of the environment", got });
        }
        numbers.clear();
        numbers.extend(actions.iter().map(|action| *action as usize));
        Ok(())
    }
}

/// Returns the actions of an environment and their paths, for error messages.
pub(crate) fn describe(actions: &Nest<ArraySpec>) -> String {
    let leaves: Vec<_> = actions
        .flatten_with_paths()
        .into_iter()
        .map(|(path, leaf)| match path.to_string() {
            path if path.is_empty() => leaf.to_string(),
            path => format!("{leaf} at `{path}`"),
        })
        .collect();
    match leaves.as_slice() {
        [] => "no actions".to_owned(),
        leaves => format!("actions of {}", leaves.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_actions_are_reported_with_their_path() {
        let observations = ArraySpec::new("", DType::Float32, [1]);
        let error_of = |actions: Nest<ArraySpec>| {
            Discrete::expect(&EnvironmentSpec::new(observations.clone(), actions)).unwrap_err().to_string()
        };
        let torque = ArraySpec::new("", DType::Float32, [2]).bounded(-1.0, 1.0);
        let start = "this agent takes one discrete action, but the environment has actions of ";
        assert_eq!(error_of(Nest::Leaf(torque.clone())), format!("{start}float32 (2,) in -1..=1"));
        let parts = [("grip", Nest::Leaf(ArraySpec::discrete("", 3))), ("turn", Nest::Leaf(torque))];
        assert_eq!(
            error_of(Nest::dict(parts)),
            format!("{start}a number from 0 to 2 at `grip`, float32 (2,) in -1..=1 at `turn`")
        );
    }

    #[test]
    fn actions_out_of_range_are_refused() {
        let discrete = Discrete { count: 3, dtype: DType::Int32 };
        let mut numbers = Vec::new();
        discrete.numbers(&[0.0, 2.0], &mut numbers).unwrap();
        assert_eq!(numbers, [0, 2]);
        for odd in [3.0, -1.0, f32::NAN] {
            let error = discrete.numbers(&[0.0, odd], &mut numbers).unwrap_err().to_string();
            assert!(error.contains("actions of the environment"), "{error}");
        }
    }
}
