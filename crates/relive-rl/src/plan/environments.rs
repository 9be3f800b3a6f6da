//! The source of a run's environments.

use std::fmt;
use std::sync::Arc;

use relive_env::{ArraySpec, BatchEnvironment, Domain, Environment, EnvironmentSpec, Vectorized};
use relive_tensor::{Nest, Path};

use crate::seeds::seed_in_generation;
use crate::{Purpose, Result, RlError};

/// Creates the environments of a run. Clones are cheap.
#[derive(Clone)]
pub struct MakeEnvironment(Arc<dyn MakeRows>);

/// Creates the factory for environments with the given name.
pub type MakeNamed<'a> = dyn Fn(&str) -> Result<MakeEnvironment> + 'a;

/// A request for environments, one per row.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// The index of the first row among the rows of all workers.
    pub first: usize,
    /// The seed of each environment.
    pub seeds: &'a [u64],
    /// 0 at the start of a run, and a different number after each checkpoint and each restart of the worker's process.
    /// Environments that are not restored then begin different episodes than before.
    pub generation: u64,
    /// What the environments are for. For training, their number must be exact; for an evaluation, there may be more, for
    /// environments that exist only as a group.
    pub purpose: Purpose,
}

/// Creates environments, including those that exist only as a group.
pub trait MakeRows: Send + Sync {
    /// Returns the spec of each environment.
    ///
    /// # Errors
    /// No environment can be created.
    fn spec(&self, seed: u64) -> Result<EnvironmentSpec>;

    /// Returns whether the environments for this purpose can [save](BatchEnvironment::save) their states.
    ///
    /// # Errors
    /// Same as [`spec`](Self::spec).
    fn are_saved(&self, seed: u64, purpose: Purpose) -> Result<bool>;

    /// Creates the environments of the given rows.
    ///
    /// # Errors
    /// The environments cannot be created.
    fn rows(&self, rows: Rows<'_>) -> Result<Box<dyn BatchEnvironment>>;
}

impl MakeEnvironment {
    /// Creates each environment on its own, with its own seed, which differs in each
    /// [generation](Rows::generation).
    #[must_use]
    pub fn new(
        make: impl Fn(u64) -> Result<Box<dyn Environment>> + Send + Sync + 'static,
    ) -> MakeEnvironment {
        MakeEnvironment(Arc::new(Each(make)))
    }

    /// Creates all environments of a worker at once.
    #[must_use]
    pub fn together(make: impl MakeRows + 'static) -> MakeEnvironment {
        MakeEnvironment(Arc::new(make))
    }

    /// Evaluates in other environments, with the same observations and actions: for example, in environments whose
    /// rewards are not clipped.
    #[must_use]
    pub fn evaluating_in(self, evaluation: MakeEnvironment) -> MakeEnvironment {
        MakeEnvironment(Arc::new(Apart { training: self, evaluation }))
    }
}

impl std::ops::Deref for MakeEnvironment {
    type Target = dyn MakeRows;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref()
    }
}

impl fmt::Debug for MakeEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeEnvironment")
    }
}

/// Environments for training, and others for evaluations.
struct Apart {
    training: MakeEnvironment,
    evaluation: MakeEnvironment,
}

impl Apart {
    fn of(&self, purpose: Purpose) -> &MakeEnvironment {
        match purpose {
            Purpose::Training => &self.training,
            Purpose::Evaluation => &self.evaluation,
        }
    }
}

impl MakeRows for Apart {
    fn spec(&self, seed: u64) -> Result<EnvironmentSpec> {
        self.training.spec(seed)
    }

    fn are_saved(&self, seed: u64, purpose: Purpose) -> Result<bool> {
        self.of(purpose).are_saved(seed, purpose)
    }

    fn rows(&self, rows: Rows<'_>) -> Result<Box<dyn BatchEnvironment>> {
        self.of(rows.purpose).rows(rows)
    }
}

/// Checks that an agent for environments of one spec can be evaluated in those of another. Names may differ, and so may
/// the bounds of observations, because agents do not use them.
pub(super) fn expect_alike(training: &EnvironmentSpec, evaluation: &EnvironmentSpec) -> Result<()> {
    let layouts = |nest: &Nest<ArraySpec>| -> Vec<_> {
        let leaves = nest.flatten_with_paths().into_iter();
        leaves.map(|(path, leaf)| (path.to_string(), leaf.dtype, leaf.shape.clone())).collect()
    };
    let domains =
        |nest: &Nest<ArraySpec>| -> Vec<_> { nest.leaves().map(|leaf| leaf.domain.clone()).collect() };
    let have_other_actions = layouts(&training.actions) != layouts(&evaluation.actions)
        || domains(&training.actions) != domains(&evaluation.actions);
    let (part, expected, got) = if layouts(&training.observations) != layouts(&evaluation.observations) {
        ("observations", &training.observations, &evaluation.observations)
    } else if have_other_actions {
        ("actions", &training.actions, &evaluation.actions)
    } else {
        return Ok(());
    };
    let expected = format!("an environment with the {part} of the training, {}", described(expected));
    Err(RlError::setting(
        "evaluation_env",
        format!("an environment with the {part} {}", described(got)),
        expected,
    ))
}

/// Returns the leaves of a nest and their paths, with the bounds of each element of a small array.
fn described(nest: &Nest<ArraySpec>) -> String {
    let described = |(path, leaf): (Path, &ArraySpec)| {
        let bounds = match &leaf.domain {
            Domain::Bounded { minimum, maximum } if (2..=8).contains(&minimum.len().max(maximum.len())) => {
                format!(" from {minimum:?} to {maximum:?}")
            }
            _ => String::new(),
        };
        let path = path.to_string();
        if path.is_empty() { format!("{leaf}{bounds}") } else { format!("{leaf}{bounds} at `{path}`") }
    };
    nest.flatten_with_paths().into_iter().map(described).collect::<Vec<_>>().join(", ")
}

/// A function from seeds to environments.
struct Each<F>(F);

impl<F: Fn(u64) -> Result<Box<dyn Environment>> + Send + Sync> MakeRows for Each<F> {
    fn spec(&self, seed: u64) -> Result<EnvironmentSpec> {
        Ok((self.0)(seed)?.spec().clone())
    }

    fn are_saved(&self, seed: u64, _purpose: Purpose) -> Result<bool> {
        Ok((self.0)(seed)?.save().is_some())
    }

    fn rows(&self, rows: Rows<'_>) -> Result<Box<dyn BatchEnvironment>> {
        let made = rows.seeds.iter().map(|seed| (self.0)(seed_in_generation(*seed, rows.generation)));
        Ok(Box::new(Vectorized::from_environments(made.collect::<Result<_>>()?)?))
    }
}

#[cfg(test)]
mod tests {
    use relive_tensor::DType;

    use super::*;

    #[test]
    fn evaluations_may_use_other_names_but_not_other_actions() {
        let spec = |name: &str, low: f64| {
            let domain = Domain::Bounded { minimum: vec![low, -1.0], maximum: vec![1.0, 1.0] };
            let actions = ArraySpec { domain, ..ArraySpec::new(name, DType::Float32, [2]) };
            EnvironmentSpec::new(ArraySpec::new(name, DType::Float32, [3]), actions)
        };
        assert!(expect_alike(&spec("torque", -1.0), &spec("", -1.0)).is_ok());
        let error = expect_alike(&spec("torque", -1.0), &spec("torque", -2.0)).unwrap_err().to_string();
        assert!(
            error.contains("from [-1.0, -1.0] to [1.0, 1.0]") && error.contains("from [-2.0, -1.0]"),
            "{error}"
        );
        assert!(!error.contains("ArraySpec"), "{error}");
    }
}
