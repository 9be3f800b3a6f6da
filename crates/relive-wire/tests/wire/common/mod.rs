//! Recorded requests from the real dm-reverb client; see `fixtures/README.md`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use relive_tensor::{Chunk, Trajectory};
use relive_wire::reverb::{InsertStreamRequest, PrioritizedItem};
use relive_wire::{Message, chunk, item};

/// Returns the messages of a fixture: each is preceded by its length in four bytes.
pub fn recorded<M: Message + Default>(name: &str) -> Vec<M> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut rest = bytes.as_slice();
    let mut messages = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (message, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        messages.push(M::decode(message).unwrap());
        rest = after;
    }
    assert!(rest.is_empty(), "{name} ends inside a message");
    messages
}

/// The chunks and items of a recorded insert stream.
pub struct Inserted {
    pub chunks: HashMap<u64, Arc<Chunk>>,
    pub items: Vec<(PrioritizedItem, Trajectory)>,
}

pub fn inserted(name: &str) -> Inserted {
    let mut all = Inserted { chunks: HashMap::new(), items: Vec::new() };
    for request in recorded::<InsertStreamRequest>(name) {
        for message in &request.chunks {
            let chunk = chunk::decode(message).unwrap();
            assert_eq!(chunk.frame(), message, "a chunk keeps the bytes that came in");
            all.chunks.insert(chunk.key(), Arc::new(chunk));
        }
        for message in request.items {
            let decoded = item::decode(&message, |key| all.chunks.get(&key).cloned()).unwrap();
            assert_eq!(decoded.key, message.key);
            assert_eq!(decoded.priority.to_bits(), message.priority.to_bits());
            assert_eq!(Some(item::flat_trajectory(&decoded.trajectory)), message.flat_trajectory);
            all.items.push((message, decoded.trajectory));
        }
    }
    all
}
