//! `InsertStreamRequest` messages.

use std::collections::HashMap;
use std::sync::Arc;

use relive_tensor::Chunk;
use relive_wire::reverb::InsertStreamRequest;
use relive_wire::{Message, chunk, item};

use super::trajectory;

/// Checks that items that refer to chunks of the same request become trajectories, which can be decoded, or errors.
pub fn check(data: &[u8]) -> bool {
    let Ok(request) = InsertStreamRequest::decode(data) else { return false };
    let chunks: HashMap<u64, Arc<Chunk>> = request
        .chunks
        .iter()
        .filter_map(|message| chunk::decode(message).ok())
        .map(|chunk| (chunk.key(), Arc::new(chunk)))
        .collect();
    let mut accepted = false;
    for message in &request.items {
        let Ok(item) = item::decode(message, |key| chunks.get(&key).cloned()) else { continue };
        assert_eq!(item.key, message.key);
        assert_eq!(Some(&item::flat_trajectory(&item.trajectory)), message.flat_trajectory.as_ref());
        trajectory::check(&item.trajectory);
        accepted = true;
    }
    accepted
}
