//! Loads a snapshot from files.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use relive_table::Snapshot;
use relive_tensor::Chunk;

use super::assemble::Tables;
use super::places::Places;
use super::read_chunks::{Cause, ChunkLoss, ReadChunks, read_chunks};
use super::read_items::read_items;
use crate::Error;
use crate::Loss;
use crate::losses::Losses;
use crate::manifest::{ItemBlock, KnownChunks, Manifest, TableDescription, read_manifest};
use crate::segment::Place;
use crate::storage::Storage;
use crate::{LoadOptions, Loaded};

/// Loads the named checkpoint, and adds the places of its chunks to `places`.
pub(crate) fn load(
    storage: &dyn Storage,
    name: &str,
    options: &LoadOptions,
    places: Option<&Places>,
) -> Result<Loaded, Error> {
    let mut losses = Losses::new(options.salvages());
    let Manifest { file, description, chunks: known, items: blocks, .. } =
        read_manifest(storage, name, &mut losses)?;
    let progress = options.counter();
    let bytes = known.places().iter().map(Place::record_bytes).sum();
    progress.expect(description.tables.iter().map(|table| table.items).sum(), bytes);
    let ledger = Arc::new(options.ledger());
    let threads = options.num_threads();
    let ReadChunks { chunks, losses: lost } =
        read_chunks(storage, known.places(), options, &progress, &ledger)?;
    let lost = note(lost, &mut losses, &known, &blocks, &description.tables)?;
    if let Some(places) = places {
        remember(places, &known, &chunks);
    }
    let blocks = read_items(blocks, &known, &chunks, threads, &progress);
    let mut tables =
        Tables { file: &file, known: &known, lost, losses: &mut losses, tables: &description.tables };
    let tables = tables.assemble(blocks)?;
    Ok(Loaded {
        snapshot: Snapshot { tables, ledger, lacks_own_rules: false },
        location: file,
        losses: losses.into_found(),
    })
}

/// Records missing chunks. Returns the number of the loss for each missing chunk, by the chunk's index in the list of
/// places.
fn note(
    lost: Vec<ChunkLoss>,
    losses: &mut Losses,
    known: &KnownChunks,
    blocks: &[ItemBlock],
    tables: &[TableDescription],
) -> Result<HashMap<usize, usize>, Error> {
    let mut numbers = HashMap::new();
    for ChunkLoss { cause, chunks } in lost {
        let cause = match cause {
            Cause::Damage(loss) if !losses.salvages() => {
                let table = chunks.first().and_then(|index| table_of(*index, known, blocks, tables));
                Cause::Damage(Loss { table, ..loss })
            }
            cause => cause,
        };
        let number = cause.note(losses)?;
        numbers.extend(chunks.into_iter().map(|index| (index, number)));
    }
    Ok(numbers)
}

/// Returns the first table with an item that refers to a chunk.
fn table_of(
    index: usize,
    known: &KnownChunks,
    blocks: &[ItemBlock],
    tables: &[TableDescription],
) -> Option<String> {
    let refers = |block: &&ItemBlock| {
        let columns = block.decoded();
        columns
            .is_ok_and(|columns| columns.chunks().iter().any(|chunk| known.index_of(*chunk) == Some(index)))
    };
    let block = blocks.iter().find(refers)?;
    tables.get(block.table()).map(|table| table.config.name.clone())
}

fn remember(places: &Places, known: &KnownChunks, chunks: &[OnceLock<Arc<Chunk>>]) {
    for (place, chunk) in known.places().iter().zip(chunks) {
        if let Some(chunk) = chunk.get() {
            places.insert(chunk, *place);
        }
    }
    let mut segments: Vec<_> = known.places().iter().map(|place| place.segment).collect();
    segments.dedup();
    places.confirm(segments);
}
