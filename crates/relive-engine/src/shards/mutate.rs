//! Updates priorities in shards, and deletes items.

use super::sharded::ShardedTable;
use crate::error::EngineError;
use crate::table::{MUTATIONS_PER_LOCK, Mutation};

impl ShardedTable {
    /// See [`TableHandle::mutate`](crate::TableHandle::mutate). All mutations of one key are applied in the given
    /// order.
    pub(crate) fn mutate(&self, mutations: impl IntoIterator<Item = Mutation>) -> Result<(), EngineError> {
        let mut mutations = mutations.into_iter().peekable();
        let mut stage: Vec<Mutation> = Vec::new();
        loop {
            stage.clear();
            while stage.len() < MUTATIONS_PER_LOCK {
                let Some(next) = mutations.next_if(|mutation| self.can_wait(mutation)) else { break };
                stage.push(next);
            }
            self.mutate_stage(&stage)?;
            if stage.len() == MUTATIONS_PER_LOCK {
                continue;
            }
            // A mutation of an existing item was refused: the mutations before it are applied, and those after it are
            // not.
            match mutations.next() {
                Some(doubtful) => self.mutate_stage(&[doubtful])?,
                None => return Ok(()),
            }
        }
    }

    /// Returns whether the mutation may be reordered with mutations of other keys.
    fn can_wait(&self, mutation: &Mutation) -> bool {
        match *mutation {
            Mutation::Update { priority, .. } => self.accepts(priority),
            Mutation::Delete { .. } => true,
        }
    }

    /// Applies one stage of mutations. An empty stage is also checked, because a closed table must report an error.
    fn mutate_stage(&self, stage: &[Mutation]) -> Result<(), EngineError> {
        let place = |mutation: &Mutation| self.place(mutation.key());
        let places: Vec<usize> = stage.iter().map(place).collect();
        let Some(&first) = places.first() else { return self.front().mutate_at_once([].into_iter()) };
        for shard in self.beginning_with(first) {
            let theirs = stage.iter().zip(&places).filter(|(_, place)| **place == shard);
            let mut theirs = theirs.map(|(mutation, _)| *mutation).peekable();
            if let (Some(core), Some(_)) = (self.cores.get(shard), theirs.peek()) {
                core.mutate_at_once(theirs)?;
            }
        }
        Ok(())
    }
}

impl Mutation {
    fn key(&self) -> u64 {
        match *self {
            Self::Delete { key } | Self::Update { key, .. } => key,
        }
    }
}
