//! Compares two snapshots.

use std::collections::HashSet;
use std::sync::Arc;

use relive_table::{SelectorKind, Snapshot, StoredItem, TableConfig, TableSnapshot};
use relive_tensor::{Chunk, Column, Trajectory};

use crate::Format;

/// The result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compared {
    /// The number of items in all tables.
    pub items: u64,
    /// The number of distinct chunks.
    pub chunks: u64,
    /// Descriptions of the rules that the format cannot represent.
    pub changed: Vec<String>,
}

/// Compares a written checkpoint with its source. Keys of chunks and sequence numbers may differ: dm-reverb's format
/// requires distinct keys, and preserves only the order of sequence numbers.
pub(super) fn compare(from: &Snapshot, to: &Snapshot, format: Format) -> Result<Compared, String> {
    let mut comparison = Comparison { format, found: Compared::default(), chunks: HashSet::new() };
    if from.tables.len() != to.tables.len() {
        return Err(format!("there are {} tables instead of {}", to.tables.len(), from.tables.len()));
    }
    for table in &from.tables {
        let name = &table.config.name;
        let written = to.table(name).ok_or_else(|| format!("the table {name} is missing"))?;
        comparison.table(table, written).map_err(|difference| format!("table {name}: {difference}"))?;
    }
    comparison.found.chunks = comparison.chunks.len() as u64;
    Ok(comparison.found)
}

struct Comparison {
    format: Format,
    found: Compared,
    /// Chunks that have already been compared, as pairs of their addresses in the two snapshots.
    chunks: HashSet<(*const Chunk, *const Chunk)>,
}

impl Comparison {
    fn table(&mut self, from: &TableSnapshot, to: &TableSnapshot) -> Result<(), String> {
        self.rules(&from.config, &to.config)?;
        self.counters(from, to)?;
        self.structure(from, to)?;
        if from.items.len() != to.items.len() {
            return Err(format!("there are {} items instead of {}", to.items.len(), from.items.len()));
        }
        for (from, to) in from.items.iter().zip(&to.items) {
            self.item(from, to).map_err(|difference| format!("item {}: {difference}", from.data.key))?;
        }
        self.found.items += from.items.len() as u64;
        Ok(())
    }

    fn counters(&mut self, from: &TableSnapshot, to: &TableSnapshot) -> Result<(), String> {
        let mut expected = from.counters;
        if self.format == Format::Reverb && expected.samples < 0 {
            let text = "is saved as 0, because dm-reverb's format cannot store a negative number of samples";
            self.changed(
                &from.config,
                &format!("the limiter's number of samples, {}, {text}", expected.samples),
            );
            expected.samples = 0;
        }
        if expected != to.counters {
            return Err(format!("the counters are {:?} instead of {expected:?}", to.counters));
        }
        Ok(())
    }

    fn structure(&mut self, from: &TableSnapshot, to: &TableSnapshot) -> Result<(), String> {
        match self.format {
            Format::Relive if from.structure != to.structure => {
                return Err("the structure of the items differs".to_owned());
            }
            Format::Reverb if from.structure.is_some() => {
                let text = "the structure of the items, such as the names of columns, is omitted, because \
                            dm-reverb's format does not have it";
                self.changed(&from.config, text);
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes a property of a table that the format cannot represent.
    fn changed(&mut self, table: &TableConfig, text: &str) {
        self.found.changed.push(format!("table {}: {text}", table.name));
    }

    fn rules(&mut self, from: &TableConfig, to: &TableConfig) -> Result<(), String> {
        let expected = match self.format {
            Format::Relive => from.clone(),
            Format::Reverb => self.as_reverb_says(from),
        };
        if expected != *to {
            return Err(format!("the rules are {to:?} instead of {expected:?}"));
        }
        Ok(())
    }

    /// Returns those of the rules that dm-reverb's format can represent.
    fn as_reverb_says(&mut self, from: &TableConfig) -> TableConfig {
        let mut to = from.clone();
        for (role, selector) in [("sampler", &mut to.sampler), ("remover", &mut to.remover)] {
            if *selector == SelectorKind::WithoutReplacement {
                *selector = SelectorKind::Uniform;
                let text =
                    "without_replacement is saved as uniform, because dm-reverb's format does not have it";
                self.changed(from, &format!("the {role} {text}"));
            }
        }
        if to.max_bytes.take().is_some() {
            self.changed(from, "max_bytes is omitted, because dm-reverb's format does not have it");
        }
        to
    }

    fn item(&mut self, from: &StoredItem, to: &StoredItem) -> Result<(), &'static str> {
        let same = [
            ("the key differs", from.data.key == to.data.key),
            ("the priority differs", from.priority.to_bits() == to.priority.to_bits()),
            ("the number of times sampled differs", from.times_sampled == to.times_sampled),
            ("the time of insertion differs", from.data.inserted_at == to.data.inserted_at),
        ];
        if let Some((difference, _)) = same.into_iter().find(|(_, same)| !same) {
            return Err(difference);
        }
        self.trajectory(&from.data.trajectory, &to.data.trajectory)
    }

    fn trajectory(&mut self, from: &Trajectory, to: &Trajectory) -> Result<(), &'static str> {
        let is_same_column = |(from, to): (Column<'_>, Column<'_>)| {
            from.squeeze() == to.squeeze() && from.slices().eq(to.slices())
        };
        if from.num_columns() != to.num_columns() || !from.columns().zip(to.columns()).all(is_same_column) {
            return Err("the columns differ");
        }
        if from.chunks().len() != to.chunks().len() {
            return Err("the chunks differ");
        }
        for (from, to) in from.chunks().iter().zip(to.chunks()) {
            let are_new = self.chunks.insert((Arc::as_ptr(from), Arc::as_ptr(to)));
            if are_new && !is_same(from, to) {
                return Err("the data differ");
            }
        }
        Ok(())
    }
}

/// Returns whether two chunks have the same content, ignoring their keys and the position of the content in their
/// frames.
fn is_same(one: &Chunk, other: &Chunk) -> bool {
    one.range() == other.range()
        && one.is_delta_encoded() == other.is_delta_encoded()
        && one.num_columns() == other.num_columns()
        && (0..one.num_columns()).all(|index| is_same_column(one, other, index))
}

fn is_same_column(one: &Chunk, other: &Chunk, index: usize) -> bool {
    let (Some(header), Some(others)) = (one.column(index), other.column(index)) else { return false };
    if (header.dtype, header.rows(), header.cell_dims()) != (others.dtype, others.rows(), others.cell_dims())
    {
        return false;
    }
    // Chunks that were re-encoded because the format does not support their codec are compared after decoding.
    let is_verbatim = header.codec == others.codec
        && one
            .payload(index)
            .as_deref()
            .is_some_and(|payload| Some(payload) == other.payload(index).as_deref());
    is_verbatim
        || matches!((one.decode_column(index), other.decode_column(index)), (Ok(one), Ok(other)) if one == other)
}
