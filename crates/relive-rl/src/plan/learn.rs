//! Learns from batches, and updates priorities afterwards.

use std::sync::Arc;

use relive_client::SampleBatch;
use relive_flow::Flow;

use super::{Crew, LearnerInput, Progress, SharedLearner};
use crate::remote::Team;
use crate::times::Lap;
use crate::{Acted, Learner, Part, RlError, Rollout};

/// The input of a learner.
pub trait Batch: Send + 'static {
    /// Takes the workers' reports, if the batch comes directly from workers.
    fn take_acted(&mut self) -> Vec<Acted>;

    /// Returns the experience in the batch, or `None` if it contains none, such as a gradient.
    fn learner_input(&self) -> Option<LearnerInput<'_>>;

    /// Returns the batch as a rollout, if it is one: the learners of a run divide a rollout among them. Other batches
    /// are not divided, because each learner has its own.
    fn rollout(&mut self) -> Option<&mut Rollout> {
        None
    }

    /// Converts a rollout to a batch of this type, if rollouts are such batches.
    fn of_rollouts() -> Option<fn(Rollout) -> Self>
    where
        Self: Sized,
    {
        None
    }
}

impl Batch for Rollout {
    fn take_acted(&mut self) -> Vec<Acted> {
        std::mem::take(&mut self.acted)
    }

    fn learner_input(&self) -> Option<LearnerInput<'_>> {
        Some(LearnerInput::Rollout(self))
    }

    fn rollout(&mut self) -> Option<&mut Rollout> {
        Some(self)
    }

    fn of_rollouts() -> Option<fn(Rollout) -> Rollout> {
        Some(|rollout| rollout)
    }
}

impl Batch for SampleBatch {
    fn take_acted(&mut self) -> Vec<Acted> {
        Vec::new()
    }

    fn learner_input(&self) -> Option<LearnerInput<'_>> {
        Some(LearnerInput::Samples(std::slice::from_ref(self)))
    }
}

/// One batch from each of several tables, for a learner of a mixture.
impl Batch for Vec<SampleBatch> {
    fn take_acted(&mut self) -> Vec<Acted> {
        Vec::new()
    }

    fn learner_input(&self) -> Option<LearnerInput<'_>> {
        Some(LearnerInput::Samples(self))
    }
}

/// An operator that learns from batches.
pub trait Learn<B> {
    /// Learns from each batch and publishes the weights. The learner determines how often it uses a batch.
    fn learn<L: Learner<Batch = B> + 'static>(self, learner: SharedLearner<L>) -> Flow<Progress>;
}

impl<B: Batch> Learn<B> for Flow<B> {
    fn learn<L: Learner<Batch = B> + 'static>(self, learner: SharedLearner<L>) -> Flow<Progress> {
        let batches = match (learner.followed(), B::of_rollouts()) {
            (Some(team), Some(of_rollouts)) => received(team, of_rollouts),
            _ => self,
        };
        let learnt = batches.try_for_each(move |mut batch| {
            let acted = batch.take_acted();
            let looking = learner.hooks().batch(|| batch.learner_input())?;
            if let (Some(team), Some(rollout)) = (learner.led_team(), batch.rollout()) {
                team.send(rollout)?;
            }
            let mut learnt = learner.learn(batch)?;
            if B::of_rollouts().is_none() {
                // Each learner has used this number of samples.
                learnt.samples *= u64::from(learner.learners());
            }
            looking.map_or(Ok(()), |looking| looking(&learnt))?;
            Ok::<_, RlError>(Progress { acted, learnt: Some(learnt) })
        });
        learnt.named("learn")
    }
}

/// Returns the batches that learner 0 sends to this learner.
fn received<B: Batch>(team: Arc<Team>, of_rollouts: fn(Rollout) -> B) -> Flow<B> {
    let rollouts = std::iter::from_fn(move || Some(team.receive().map(of_rollouts)));
    Flow::from_iter("learner 0", rollouts).try_for_each(|batch| batch)
}

/// An operator that updates priorities after learning.
pub trait UpdatePriorities {
    /// Writes the learner's priorities to a table of the run. Items that no longer exist are skipped.
    fn update_priorities(self, crew: &Crew, table: &'static str) -> Flow<Progress>;

    /// Like [`update_priorities`](Self::update_priorities), but for batches from several tables, as from
    /// [`replay_mixture`](Crew::replay_mixture). `tables` contains the number of priorities of each table, in order;
    /// priorities after the last table's are not written.
    fn update_priorities_in(self, crew: &Crew, tables: Vec<(String, usize)>) -> Flow<Progress>;
}

impl UpdatePriorities for Flow<Progress> {
    fn update_priorities(self, crew: &Crew, table: &'static str) -> Flow<Progress> {
        self.update_priorities_in(crew, vec![(table.to_owned(), usize::MAX)])
    }

    fn update_priorities_in(self, crew: &Crew, tables: Vec<(String, usize)>) -> Flow<Progress> {
        let (client, times) = (crew.client().clone(), crew.times().clone());
        let names: Vec<&str> = tables.iter().map(|(table, _)| &table[..]).collect();
        let name = format!("update_priorities({})", names.join(", "));
        let updated = self.try_for_each(move |mut progress| {
            let priorities = progress.learnt.as_mut().map(|learnt| std::mem::take(&mut learnt.priorities));
            if let Some(priorities) = priorities.filter(|priorities| !priorities.is_empty()) {
                let mut lap = Lap::begin();
                let mut left = &priorities[..];
                for (table, count) in &tables {
                    let (theirs, others) = left.split_at((*count).min(left.len()));
                    client.update_priorities(table, theirs)?;
                    left = others;
                }
                times.add(Part::Priorities, lap.lap());
            }
            Ok::<_, RlError>(progress)
        });
        updated.named(&name)
    }
}
