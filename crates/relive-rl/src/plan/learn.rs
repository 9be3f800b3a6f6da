//! Learning from batches, and what comes after it.

use relive_client::SampleBatch;
use relive_flow::Flow;

use super::{Crew, Progress, SharedLearner};
use crate::run::Seen;
use crate::times::Lap;
use crate::{Acted, Learner, Part, RlError, Rollout};

/// What a learner is given.
pub trait Batch: 'static {
    /// What workers have done for it, if it comes straight from them.
    fn take_acted(&mut self) -> Vec<Acted>;

    /// What may be looked at of it; none of what is no experience, as a gradient.
    fn seen(&self) -> Option<Seen<'_>>;
}

impl Batch for Rollout {
    fn take_acted(&mut self) -> Vec<Acted> {
        std::mem::take(&mut self.acted)
    }

    fn seen(&self) -> Option<Seen<'_>> {
        Some(Seen::Rollout(self))
    }
}

impl Batch for SampleBatch {
    fn take_acted(&mut self) -> Vec<Acted> {
        Vec::new()
    }

    fn seen(&self) -> Option<Seen<'_>> {
        Some(Seen::Samples(std::slice::from_ref(self)))
    }
}

/// A batch of each of several tables, for a learner of a mixture.
impl Batch for Vec<SampleBatch> {
    fn take_acted(&mut self) -> Vec<Acted> {
        Vec::new()
    }

    fn seen(&self) -> Option<Seen<'_>> {
        Some(Seen::Samples(self))
    }
}

/// Learning from batches.
pub trait Learn<B> {
    /// Learns from each batch, once or as often as the learner does, and publishes the weights.
    fn learn<L: Learner<Batch = B> + 'static>(self, learner: SharedLearner<L>) -> Flow<Progress>;
}

impl<B: Batch> Learn<B> for Flow<B> {
    fn learn<L: Learner<Batch = B> + 'static>(self, learner: SharedLearner<L>) -> Flow<Progress> {
        let learnt = self.try_for_each(move |mut batch| {
            let acted = batch.take_acted();
            let looking = learner.hooks().batch(|| batch.seen())?;
            let learnt = learner.learn(batch)?;
            looking.map_or(Ok(()), |looking| looking(&learnt))?;
            Ok::<_, RlError>(Progress { acted, learnt: Some(learnt) })
        });
        learnt.named("learn")
    }
}

/// What comes after learning.
pub trait UpdatePriorities {
    /// Writes the priorities that the learner has found to a table of the run; an item that is gone by then is passed over.
    fn update_priorities(self, crew: &Crew, table: &'static str) -> Flow<Progress>;

    /// The same for batches of several tables, as of [`replay_mixture`](Crew::replay_mixture): the first so many priorities belong to the first table, and so
    /// on; those behind the last table's are not written.
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
                    client.mutate_priorities(table, theirs, &[])?;
                    left = others;
                }
                times.add(Part::Priorities, lap.lap());
            }
            Ok::<_, RlError>(progress)
        });
        updated.named(&name)
    }
}
