//! The rows of an episode, which correspond to Acme's steps.

use bytes::Bytes;
use relive_client::{Nest, Tensor};
use relive_env::{ArraySpec, EnvironmentSpec, TimeStep, View};
use relive_tensor::DType;

use super::row::RowColumns;
use crate::{Result, RlError};

/// Creates the rows of an episode. A row contains the observation, the action taken for it, the resulting reward and
/// discount (float32), a flag that marks the first row of an episode, and the actor's extras.
#[derive(Debug, Clone)]
pub(super) struct Steps {
    observations: RowColumns,
    actions: RowColumns,
    extras: Option<RowColumns>,
    zeros: Nest<Tensor>,
}

impl Steps {
    pub(super) fn new(spec: &EnvironmentSpec, extras: Option<&Nest<ArraySpec>>) -> Result<Steps> {
        let zeros = step_spec(spec, extras).try_map(&mut zero)?;
        Ok(Steps {
            observations: RowColumns::new(&spec.observations),
            actions: RowColumns::new(&spec.actions),
            extras: extras.map(RowColumns::new),
            zeros,
        })
    }

    /// Returns a row of zeros.
    pub(super) fn zeros(&self) -> &Nest<Tensor> {
        &self.zeros
    }

    /// Returns the fields of a row that are known before its action.
    pub(super) fn begun(&self, observation: View<'_>, is_first: bool) -> Result<Nest<Tensor>> {
        let flag = Tensor::from_bools(&[is_first], []).map_err(state_error)?;
        let observation = self.observations.tensors(observation)?;
        Ok(Nest::dict([("observation", observation), ("start_of_episode", Nest::Leaf(flag))]))
    }

    /// Returns whether a leaf is known before the action of its row.
    pub(super) fn is_begun(path: &str) -> bool {
        matches!(path.split('/').next(), Some("observation" | "start_of_episode"))
    }

    /// Returns the number of leaves that are known before the action.
    pub(super) fn begun_leaves(&self) -> usize {
        self.observations.len() + 1
    }

    /// Restores the requested fields of a row from the bytes of their leaves, which are the next elements of `cells`.
    pub(super) fn restored(
        &self,
        cells: &mut impl Iterator<Item = Vec<u8>>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Nest<Tensor>> {
        let Nest::Dict(fields) = &self.zeros else { return Ok(Nest::None) };
        let wanted = fields.iter().filter(|(name, _)| is_wanted(name));
        let restored = wanted.map(|(name, zeros)| {
            let mut of_leaf = |zeros: &Tensor| {
                let bytes = Bytes::from(cells.next().unwrap_or_default());
                Tensor::new(zeros.dtype(), zeros.shape().clone(), bytes)
            };
            let field = zeros.try_map(&mut of_leaf).map_err(|error| RlError::state("an adder", error))?;
            Ok((name.to_string(), field))
        });
        Ok(Nest::dict(restored.collect::<Result<Vec<_>>>()?))
    }

    /// Returns the remaining fields of the row.
    #[expect(clippy::cast_possible_truncation, reason = "rewards and discounts of items are float32")]
    pub(super) fn taken(&self, action: View<'_>, step: TimeStep, extras: View<'_>) -> Result<Nest<Tensor>> {
        let mut row = vec![
            ("action", self.actions.tensors(action)?),
            ("discount", Nest::Leaf(Tensor::scalar(step.discount as f32))),
            ("reward", Nest::Leaf(Tensor::scalar(step.reward as f32))),
        ];
        match &self.extras {
            Some(rows) if rows.len() == extras.num_leaves() => row.push(("extras", rows.tensors(extras)?)),
            None if extras.num_leaves() == 0 => {}
            rows => {
                let got = format!("{} leaves", extras.num_leaves());
                let expected = if rows.is_some() { "the number in the adder's spec" } else { "none at all" };
                return Err(RlError::setting("extras", got, expected));
            }
        }
        Ok(Nest::dict(row))
    }

    /// Returns the remaining fields of the last observation's row. They are zeros, because this row has no action.
    pub(super) fn untaken(&self) -> Nest<Tensor> {
        let Nest::Dict(mut fields) = self.zeros.clone() else { return Nest::None };
        fields.retain(|name, _| name != "observation" && name != "start_of_episode");
        Nest::Dict(fields)
    }
}

/// Returns the spec of a row, field by field: `action`, `discount`, `extras` (if there are any), `observation`,
/// `reward` and `start_of_episode`.
#[must_use]
pub fn step_spec(spec: &EnvironmentSpec, extras: Option<&Nest<ArraySpec>>) -> Nest<ArraySpec> {
    let scalar = |name: &str, dtype| Nest::Leaf(ArraySpec::new(name, dtype, []));
    let mut fields = vec![
        ("action", spec.actions.clone()),
        ("discount", scalar("discount", DType::Float32)),
        ("observation", spec.observations.clone()),
        ("reward", scalar("reward", DType::Float32)),
        ("start_of_episode", scalar("start_of_episode", DType::Bool)),
    ];
    fields.extend(extras.map(|extras| ("extras", extras.clone())));
    Nest::dict(fields)
}

fn zero(spec: &ArraySpec) -> Result<Tensor> {
    let bytes = spec.num_elements()? * spec.dtype.size_bytes().unwrap_or(0);
    Tensor::new(spec.dtype, spec.shape.clone(), Bytes::from(vec![0; bytes])).map_err(state_error)
}

fn state_error(error: impl std::fmt::Display) -> RlError {
    RlError::setting("a value of the environment", error, "as its spec says")
}
