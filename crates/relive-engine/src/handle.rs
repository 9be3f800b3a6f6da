//! A table that many tasks share.

use std::sync::Arc;

use relive_table::{CountError, NewItem, Sampled, Shortfall, TableConfig, TableInfo, TableSnapshot};
use relive_tensor::Nest;

use crate::EngineError;
use crate::cold::Cold;
use crate::confirmations::Confirmations;
use crate::describe::TableStatus;
use crate::listing::ItemPage;
use crate::request::{Accepted, Mutation, SampleRequest};
use crate::sample::SampleFuture;
use crate::table_core::TableCore;

/// A table that many tasks share; cheap to clone.
#[derive(Clone)]
pub struct TableHandle {
    cores: Cores,
}

/// What is behind the name.
#[derive(Clone)]
enum Cores {
    One(TableCore),
}

impl TableHandle {
    pub(crate) fn of_one(core: TableCore) -> Self {
        Self { cores: Cores::One(core) }
    }

    /// All that is behind the name, always in the same order.
    pub(crate) fn cores(&self) -> &[TableCore] {
        match &self.cores {
            Cores::One(core) => std::slice::from_ref(core),
        }
    }

    /// What the next of `parts` have of this table, which are the snapshots of its cores; items in no order.
    pub(crate) fn merged(&self, parts: &mut impl Iterator<Item = TableSnapshot>) -> Option<TableSnapshot> {
        match &self.cores {
            Cores::One(_) => parts.next(),
        }
    }

    /// The core that keeps what the table has once.
    pub(crate) fn front(&self) -> &TableCore {
        match &self.cores {
            Cores::One(core) => core,
        }
    }

    /// The disk tier, if there is one.
    pub(crate) fn cold(&self) -> Option<&Arc<Cold>> {
        self.front().shared.cold.get()
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.front().name()
    }

    /// The configuration the table was made with.
    #[must_use]
    pub fn config(&self) -> &TableConfig {
        match &self.cores {
            Cores::One(core) => core.config(),
        }
    }

    /// Inserts `items` in order.
    ///
    /// The keys of items that the table now holds are added to `confirmed`; the others wait their turn and report to
    /// `confirmations`, whether or not the caller still listens.
    ///
    /// # Errors
    /// The first item that the table refuses ends the call: an unusable priority, a closed table, a full queue. Items
    /// before it are inserted or waiting, items after it are dropped.
    pub fn insert(
        &self,
        items: impl IntoIterator<Item = NewItem>,
        who: &Arc<str>,
        confirmations: &Arc<Confirmations>,
        confirmed: &mut Vec<u64>,
    ) -> Result<Accepted, EngineError> {
        match &self.cores {
            Cores::One(core) => core.insert(items, who, confirmations, confirmed),
        }
    }

    /// Asks for a batch of samples; see [`SampleFuture`].
    pub fn sample(&self, request: SampleRequest) -> SampleFuture {
        SampleFuture::new(self.clone(), request)
    }

    /// Applies `mutations` in order; unknown keys are passed over.
    ///
    /// # Errors
    /// The first priority that the table refuses ends the call, and is not applied; the ones before it are. A closed
    /// table refuses everything.
    pub fn mutate(&self, mutations: impl IntoIterator<Item = Mutation>) -> Result<(), EngineError> {
        match &self.cores {
            Cores::One(core) => core.mutate(mutations),
        }
    }

    /// Removes every item and sets every counter to zero. Waiting operations stay and may go on.
    ///
    /// # Errors
    /// The table is closed.
    pub fn reset(&self) -> Result<(), EngineError> {
        match &self.cores {
            Cores::One(core) => core.reset(),
        }
    }

    /// Ends the table: whatever waits fails now, whatever comes later fails at once. The items stay readable.
    pub fn close(&self) {
        match &self.cores {
            Cores::One(core) => core.close(),
        }
    }

    /// Proposes `structure` as what the items of this table look like, whose columns are its leaves in the flattening order.
    /// The first proposal is kept, as long as the table lives; [`reset`](Self::reset) does not forget it. Once another one of
    /// as many columns is proposed, none counts any more: items would come back under wrong names. A table with a signature
    /// keeps that one. Tells whether `structure` is the one that counts.
    ///
    /// ```
    /// use relive_engine::Engine;
    /// use relive_table::TableConfig;
    /// use relive_tensor::Nest;
    ///
    /// let engine = Engine::builder().table(TableConfig::new("replay")).build()?;
    /// let table = engine.table("replay")?;
    /// let transition = Nest::dict([("observation", ()), ("action", ())]);
    /// assert!(table.name_columns(transition.clone())?);
    /// assert_eq!(table.columns().as_deref(), Some(&transition));
    /// assert!(!table.name_columns(Nest::dict([("state", ()), ("action", ())]))?);
    /// assert_eq!(table.columns(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for a structure without columns, or beyond one of the [limits](crate::limits).
    pub fn name_columns(&self, structure: Nest<()>) -> Result<bool, EngineError> {
        self.front().name_columns(structure)
    }

    /// What the items of this table look like: the structure of its signature, or else the one that was proposed first,
    /// unless another one was proposed since.
    #[must_use]
    pub fn columns(&self) -> Option<Arc<Nest<()>>> {
        self.front().columns()
    }

    /// Configuration, sizes and counters.
    #[must_use]
    pub fn info(&self) -> TableInfo {
        match &self.cores {
            Cores::One(core) => core.info(),
        }
    }

    /// Whether the rate limiter allows `count` inserts now.
    ///
    /// # Errors
    /// A count below 1.
    pub fn can_insert(&self, count: i64) -> Result<bool, CountError> {
        match &self.cores {
            Cores::One(core) => core.can_insert(count),
        }
    }

    /// Whether the rate limiter allows `count` samples now.
    ///
    /// # Errors
    /// A count below 1.
    pub fn can_sample(&self, count: i64) -> Result<bool, CountError> {
        match &self.cores {
            Cores::One(core) => core.can_sample(count),
        }
    }

    /// What holds an insert back now; `None` if the rate limiter allows one.
    #[must_use]
    pub fn insert_shortfall(&self) -> Option<Shortfall> {
        match &self.cores {
            Cores::One(core) => core.insert_shortfall(),
        }
    }

    /// What holds a sample back now; `None` if the rate limiter allows one.
    #[must_use]
    pub fn sample_shortfall(&self) -> Option<Shortfall> {
        match &self.cores {
            Cores::One(core) => core.sample_shortfall(),
        }
    }

    /// Bytes of the table's chunks that are in memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.front().resident_bytes()
    }

    /// Everything there is to say about the table.
    #[must_use]
    pub fn status(&self) -> TableStatus {
        match &self.cores {
            Cores::One(core) => core.status(),
        }
    }

    /// Up to `limit` items in the order of their insertion, beginning at `from`: 0, or what the page before says.
    ///
    /// A page looks through the whole table, in parts, so that others come in between: items that come or leave meanwhile may
    /// or may not be on it. Large pages are better than many.
    #[must_use]
    pub fn items(&self, from: u64, limit: usize) -> ItemPage {
        match &self.cores {
            Cores::One(core) => core.items(from, limit),
        }
    }

    /// The items of these keys, each `None` if there is none; each as if it had just been sampled, with a probability of 0.
    ///
    /// # Errors
    /// Data of an item lies on disk and cannot be read back.
    pub async fn get_items(&self, keys: &[u64]) -> Result<Vec<Option<Sampled>>, EngineError> {
        let mut found = match &self.cores {
            Cores::One(core) => core.look_up(keys),
        };
        if let Some(cold) = self.cold() {
            let near = match cold.fetch(self.name(), found.iter().flatten().cloned().collect()) {
                Ok(near) => near,
                Err(fetch) => fetch.await?,
            };
            found.iter_mut().flatten().zip(near).for_each(|(found, near)| *found = near);
        }
        Ok(found)
    }
}

impl std::fmt::Debug for TableHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableHandle").field("name", &self.name()).finish_non_exhaustive()
    }
}
