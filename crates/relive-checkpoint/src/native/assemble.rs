//! Assembles tables from items, and checks their counts.

use std::collections::HashMap;
use std::sync::Arc;

use relive_table::{StoredItem, TableSnapshot};

use super::read_items::ReadBlock;
use crate::Error;
use crate::Loss;
use crate::losses::Losses;
use crate::manifest::{KnownChunks, TableDescription};

/// Assembles tables from items.
pub(crate) struct Tables<'a> {
    /// The checkpoint file's name in messages.
    pub(crate) file: &'a str,
    pub(crate) known: &'a KnownChunks,
    /// The numbers of losses, by index in the list of places.
    pub(crate) lost: HashMap<usize, usize>,
    pub(crate) losses: &'a mut Losses,
    pub(crate) tables: &'a [TableDescription],
}

impl Tables<'_> {
    pub(crate) fn assemble(&mut self, blocks: Vec<ReadBlock>) -> Result<Vec<TableSnapshot>, Error> {
        let mut found: Vec<IntactItems> = self.tables.iter().map(|_| IntactItems::default()).collect();
        for block in blocks {
            let number = usize::try_from(block.head.subject).unwrap_or(usize::MAX);
            let (Some(table), Some(found)) = (self.tables.get(number), found.get_mut(number)) else {
                let reason = format!(
                    "the block has items of table number {number}, but there are {} tables",
                    self.tables.len()
                );
                self.losses.damage(self.file, block.offset, reason)?;
                continue;
            };
            let name = &table.config.name;
            self.attribute(name, &block)?;
            found.seen += u64::from(block.head.count);
            if found.follows(&block) {
                found.whole += block.whole;
                found.last = block.order.map(|(_, last)| last).or(found.last);
                found.items.extend(block.items);
                continue;
            }
            let reason = "the items are not in the order of their insertion";
            let loss = Loss::of(self.file, block.offset, reason);
            self.losses.note(Loss { table: Some(name.clone()), items: block.whole, ..loss })?;
        }
        self.tables.iter().zip(found).map(|(table, found)| self.table(table, found)).collect()
    }

    /// Records the missing items of a block.
    fn attribute(&mut self, table: &str, block: &ReadBlock) -> Result<(), Error> {
        for (reason, items) in &block.faults {
            let loss = Loss {
                table: Some(table.to_owned()),
                items: *items,
                ..Loss::of(self.file, block.offset, reason)
            };
            self.losses.note(loss)?;
        }
        for (position, items) in &block.missing_chunks {
            let index = self.known.index_of(*position);
            if index.is_none() && self.losses.first_offset().is_none() {
                let reason = format!("an item refers to chunk {position}, which has no description");
                self.losses.note(Loss {
                    table: Some(table.to_owned()),
                    ..Loss::of(self.file, block.offset, reason)
                })?;
            }
            let number = index.and_then(|index| self.lost.get(&index).copied());
            self.losses.attribute(number.unwrap_or_else(|| self.known.loss_of(*position)), table, *items);
        }
        Ok(())
    }

    fn table(&mut self, table: &TableDescription, found: IntactItems) -> Result<TableSnapshot, Error> {
        let name = &table.config.name;
        if found.seen != table.items {
            let reason = format!("the count is {} items, but there are {}", table.items, found.seen);
            // Blocks that were lost together with their heads are detected only here; other lost blocks have already
            // been counted.
            let charged = self.losses.items_of(name);
            let items = table.items.saturating_sub(found.whole).saturating_sub(charged);
            let offset = self.losses.first_offset().unwrap_or(0);
            if items > 0 || charged == 0 {
                self.losses.note(Loss {
                    table: Some(name.clone()),
                    items,
                    ..Loss::of(self.file, offset, reason)
                })?;
            }
        }
        let mut counters = table.counters;
        let lost = table.items.saturating_sub(found.whole);
        counters.deletes = counters.deletes.saturating_add(i64::try_from(lost).unwrap_or(i64::MAX));
        let (config, structure) = (Arc::clone(&table.config), table.structure.clone());
        Ok(TableSnapshot { config, counters, items: found.items, structure })
    }
}

/// The intact part of a table.
#[derive(Default)]
struct IntactItems {
    items: Vec<StoredItem>,
    /// The number of intact items.
    whole: u64,
    /// The number of items in the blocks found, including lost ones.
    seen: u64,
    /// The sequence number of the last item.
    last: Option<u64>,
}

impl IntactItems {
    /// Checks that the items of a block are in order and follow the earlier ones.
    fn follows(&self, block: &ReadBlock) -> bool {
        let comes_after = block.order.is_none_or(|(first, _)| self.last.is_none_or(|last| last < first));
        block.is_sorted && comes_after
    }
}
