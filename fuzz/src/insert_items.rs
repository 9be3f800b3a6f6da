//! `InsertItems` messages.

use std::collections::HashMap;
use std::sync::Arc;

use relive_tensor::{Chunk, TrajectoryBuilder};
use relive_wire::v1::InsertItems;
use relive_wire::{Message, chunk, item_run};

use super::trajectory;

/// Checks that items that refer to chunks of the same request become as many trajectories, which can be decoded, or
/// errors.
pub fn check(data: &[u8]) -> bool {
    let Ok(request) = InsertItems::decode(data) else { return false };
    let chunks: HashMap<u64, Arc<Chunk>> = request
        .chunks
        .iter()
        .filter_map(|message| chunk::decode(message).ok())
        .map(|chunk| (chunk.key(), Arc::new(chunk)))
        .collect();
    let (mut accepted, mut builder) = (false, TrajectoryBuilder::new());
    for run in &request.runs {
        let Ok(items) = item_run::decode(run, &mut builder, |key| chunks.get(&key).cloned()) else {
            continue;
        };
        let items: Vec<_> = items.collect();
        assert_eq!(items.len(), run.keys.len());
        for (item, &key) in items.iter().zip(&run.keys) {
            let Ok(item) = item else { continue };
            assert_eq!((item.key, item.trajectory.num_columns()), (key, run.squeeze.len()));
            trajectory::check(&item.trajectory);
            accepted = true;
        }
    }
    accepted
}
