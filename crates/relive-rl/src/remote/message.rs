//! Messages from workers to the driver of a run.

use std::time::Duration;

use relive_env::{ArraySpec, Buffer, EnvironmentSpec, State, TimeStep};
use relive_tensor::Nest;

use crate::contracts::MakePolicy;
use crate::seeds::{EnvironmentUser, actor_key};
use crate::{Acted, Episode, PolicyContext, Purpose, Result, RlError, Rollout, state};

const WHAT: &str = "a rollout";

/// An item that a worker's process sends to the driver, which learns from it: a rollout, or data that an agent computes
/// from one.
///
/// The same list of fields is used for writing and for reading, as in saved states.
pub trait Message: Send + Sized + 'static {
    /// Returns an empty message, to be [filled](Self::visit).
    ///
    /// # Errors
    /// A message with this layout does not fit in memory.
    fn empty(layouts: &Layouts) -> Result<Self>;

    /// Writes or reads all fields.
    ///
    /// # Errors
    /// The fields' layout differs from this run's.
    fn visit(&mut self, state: &mut State<'_>) -> Result<()>;
}

/// Returns the bytes of a message.
///
/// # Errors
/// An error of [`Message::visit`].
pub(crate) fn to_bytes<T: Message>(message: &mut T) -> Result<Vec<u8>> {
    let mut visited = Ok(());
    let bytes = state::save(|state| visited = message.visit(state));
    visited.map(|()| bytes)
}

/// Returns the message of a run with these layouts, which is called `what` in errors.
///
/// # Errors
/// The bytes are damaged, or belong to a run with other layouts.
pub(crate) fn from_bytes<T: Message>(what: &'static str, bytes: &[u8], layouts: &Layouts) -> Result<T> {
    let (mut message, mut visited) = (T::empty(layouts)?, Ok(()));
    let restored = state::restore(what, bytes, |state| visited = message.visit(state));
    // After an error of the message, unread bytes are only its consequence.
    visited?;
    restored.map(|()| message)
}

/// The layout of rows of a run's environments.
#[derive(Debug, Clone)]
pub struct Layouts {
    /// The spec of the environments.
    pub spec: EnvironmentSpec,
    /// The policy's extras.
    pub extras: Nest<ArraySpec>,
}

impl Layouts {
    /// Returns the layouts of an agent's run in such an environment.
    pub(crate) fn of(agent: &dyn MakePolicy, spec: &EnvironmentSpec, seed: u64) -> Result<Layouts> {
        let keys = [actor_key(seed, EnvironmentUser::Actor(0))];
        let policy = agent.policy(&PolicyContext::alone(spec, Purpose::Training, &keys))?;
        Ok(Layouts { spec: spec.clone(), extras: policy.extras() })
    }
}

impl Message for Rollout {
    fn empty(layouts: &Layouts) -> Result<Rollout> {
        Ok(Rollout {
            steps: 0,
            rows: 0,
            observations: Buffer::for_nest(&layouts.spec.observations, 0)?,
            actions: Buffer::for_nest(&layouts.spec.actions, 0)?,
            extras: Buffer::for_nest(&layouts.extras, 0)?,
            answers: Vec::new(),
            weights: None,
            acted: Vec::new(),
        })
    }

    fn visit(&mut self, state: &mut State<'_>) -> Result<()> {
        let (mut steps, mut rows) = (self.steps as u64, self.rows as u64);
        state.field(&mut steps);
        state.field(&mut rows);
        self.steps = usize::try_from(steps).unwrap_or(usize::MAX);
        self.rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let cells = self.steps.saturating_mul(self.rows);
        visit_buffer(state, &mut self.observations, cells.saturating_add(self.rows))?;
        visit_buffer(state, &mut self.actions, cells)?;
        visit_buffer(state, &mut self.extras, cells)?;
        state.list(&mut self.answers, TimeStep::restart, visit_answer);
        if self.answers.len() != cells {
            return Err(RlError::state(WHAT, "its number of time steps is not that of its rows"));
        }
        self.acted.visit(state)
    }
}

impl Message for Vec<Acted> {
    fn empty(_: &Layouts) -> Result<Self> {
        Ok(Vec::new())
    }

    fn visit(&mut self, state: &mut State<'_>) -> Result<()> {
        state.list(self, Acted::default, |state, acted| {
            state.field(&mut acted.worker);
            state.field(&mut acted.env_steps);
            let (mut is_known, mut version) = (acted.version.is_some(), acted.version.unwrap_or_default());
            state.field(&mut is_known);
            state.field(&mut version);
            acted.version = is_known.then_some(version);
            acted.times.visit(state);
            let none = || Episode { length: 0, episode_return: 0.0, duration: Duration::ZERO, ended_at: 0 };
            state.list(&mut acted.episodes, none, visit_episode);
        });
        Ok(())
    }
}

fn visit_episode(state: &mut State<'_>, episode: &mut Episode) {
    let mut seconds = episode.duration.as_secs_f64();
    state.field(&mut episode.length);
    state.field(&mut episode.episode_return);
    state.field(&mut seconds);
    state.field(&mut episode.ended_at);
    episode.duration = Duration::try_from_secs_f64(seconds).unwrap_or_default();
}

fn visit_answer(state: &mut State<'_>, answer: &mut TimeStep) {
    state.field(&mut answer.step_type);
    state.field(&mut answer.reward);
    state.field(&mut answer.discount);
}

/// Visits the `rows` rows of a buffer.
fn visit_buffer(state: &mut State<'_>, buffer: &mut Buffer, rows: usize) -> Result<()> {
    let refused = || RlError::state(WHAT, "its rows have a different layout than this run's");
    if let Some(unread) = state.unread() {
        // A damaged count must not allocate more memory than the message has bytes.
        buffer.row_bytes().checked_mul(rows).filter(|bytes| *bytes <= unread).ok_or_else(refused)?;
        *buffer = buffer.with_rows(rows)?;
    }
    for leaf in 0..buffer.num_leaves() {
        let bytes = buffer.leaf_bytes_mut(leaf).unwrap_or_default();
        let mut length = bytes.len() as u64;
        state.field(&mut length);
        if length != bytes.len() as u64 {
            return Err(refused());
        }
        state.raw_bytes(bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use relive_tensor::DType;

    use super::*;
    use crate::{Part, Times};

    fn layouts() -> Layouts {
        let spec = EnvironmentSpec::new(ArraySpec::new("", DType::Float32, [2]), ArraySpec::discrete("", 3));
        Layouts { spec, extras: Nest::Leaf(ArraySpec::new("", DType::Float64, [])) }
    }

    fn rollout() -> Rollout {
        let (layouts, episode_return, duration) = (layouts(), -1.5, Duration::from_millis(250));
        let buffer = |nest, rows| Buffer::for_nest(nest, rows).unwrap();
        let mut rollout = Rollout {
            steps: 3,
            rows: 2,
            observations: buffer(&layouts.spec.observations, 8),
            actions: buffer(&layouts.spec.actions, 6),
            extras: buffer(&layouts.extras, 6),
            answers: vec![TimeStep::transition(0.5); 6],
            weights: None,
            acted: vec![Acted {
                worker: 1,
                env_steps: 6,
                episodes: vec![Episode { length: 4, episode_return, duration, ended_at: 4 }],
                version: Some(9),
                times: Times::default(),
            }],
        };
        rollout.acted[0].times.add(Part::Step, Duration::from_millis(3));
        rollout.answers[4] = TimeStep::termination(2.0);
        rollout.observations.leaf_mut::<f32>(0).unwrap()[15] = 7.0;
        rollout
    }

    fn read(bytes: &[u8]) -> Result<Rollout> {
        from_bytes(WHAT, bytes, &layouts())
    }

    #[test]
    fn rollouts_round_trip() {
        let bytes = to_bytes(&mut rollout()).unwrap();
        let mut back = read(&bytes).unwrap();
        assert_eq!((back.steps, back.rows, back.observations.rows()), (3, 2, 8));
        assert_eq!(back.observations.leaf::<f32>(0).unwrap()[15], 7.0);
        assert_eq!((back.answers[4], back.acted[0].episodes.len()), (TimeStep::termination(2.0), 1));
        assert_eq!(back.acted[0].times.of(Part::Step), Duration::from_millis(3));
        assert_eq!(to_bytes(&mut back).unwrap(), bytes);
    }

    #[test]
    fn damaged_rollouts_are_refused() {
        let bytes = to_bytes(&mut rollout()).unwrap();
        for end in [0, 15, 40, bytes.len() - 1] {
            assert!(read(&bytes[..end]).is_err(), "{end}");
        }
        for rows in [0, 1, 3, u64::MAX] {
            let mut changed = bytes.clone();
            changed[8..16].copy_from_slice(&rows.to_le_bytes());
            // The second message ends after the counts, so none of its rows may be allocated.
            for message in [&changed[..], &changed[..16]] {
                assert!(read(message).is_err(), "{rows}");
            }
        }
    }

    #[test]
    fn rollouts_of_another_layout_or_with_other_time_steps_are_refused() {
        let bytes = to_bytes(&mut rollout()).unwrap();
        let refused = |layouts: &Layouts, bytes: &[u8]| {
            from_bytes::<Rollout>(WHAT, bytes, layouts).unwrap_err().to_string()
        };
        let wide = ArraySpec::new("", DType::Float32, [3]);
        for extra in [wide, ArraySpec::new("", DType::Float32, [])] {
            let other = Layouts { extras: Nest::Leaf(extra), ..layouts() };
            let error = refused(&other, &bytes);
            assert!(error.ends_with("its rows have a different layout than this run's"), "{error}");
        }
        let acted = state::save(|state| rollout().acted.visit(state).unwrap());
        let last_time_step = bytes.len() - acted.len() - 17;
        let without_last = [&bytes[..last_time_step], &acted].concat();
        let mut unknown_type = bytes.clone();
        unknown_type[last_time_step] = 3;
        let mut fewer = without_last.clone();
        fewer[last_time_step - 5 * 17 - 8] = 5;
        for changed in [without_last, unknown_type, fewer] {
            assert!(refused(&layouts(), &changed).contains("a rollout is invalid: it"), "{changed:?}");
        }
    }
}
