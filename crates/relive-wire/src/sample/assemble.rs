//! Puts samples together from the entries of a response stream.

use std::sync::Arc;

use bytes::Bytes;
use relive_tensor::{Chunk, Trajectory};

use crate::WireError;
use crate::reverb::sample_stream_response::SampleEntry;
use crate::reverb::{PrioritizedItem, SampleInfo};
use crate::{chunk, item};

/// A sample with its chunks, still encoded.
#[derive(Debug, Clone)]
pub struct ReceivedSample {
    /// Key, priority, times sampled, probability and table size at sampling time.
    pub info: SampleInfo,
    /// Encoded `ChunkData` messages, each distinct chunk once.
    pub chunks: Vec<Bytes>,
}

/// Collects entries until a sample is whole.
#[derive(Debug, Default)]
pub struct Assembler {
    begun: Option<ReceivedSample>,
}

impl Assembler {
    /// Takes the next entry of the stream; gives the sample that it completes.
    ///
    /// # Errors
    /// An entry that continues a sample which never began, or that begins one inside another.
    pub fn push(&mut self, entry: SampleEntry) -> Result<Option<ReceivedSample>, WireError> {
        let sample = match (self.begun.take(), entry.info) {
            (None, Some(info)) => ReceivedSample { info, chunks: entry.data },
            (Some(mut begun), None) => {
                begun.chunks.extend(entry.data);
                begun
            }
            (None, None) => return Err(WireError::SampleStream("the first entry of a sample has no info")),
            (Some(_), Some(_)) => return Err(WireError::SampleStream("a sample begins inside another one")),
        };
        if entry.end_of_sequence {
            return Ok(Some(sample));
        }
        self.begun = Some(sample);
        Ok(None)
    }

    /// Whether a sample has begun and is not whole yet.
    #[must_use]
    pub fn is_mid_sample(&self) -> bool {
        self.begun.is_some()
    }
}

impl ReceivedSample {
    /// The sample's trajectory, checked and ready to be decoded.
    ///
    /// # Errors
    /// Chunks that cannot be read, and a trajectory that does not fit them.
    pub fn trajectory(&self) -> Result<Trajectory, WireError> {
        let nothing = PrioritizedItem::default();
        let item = self.info.item.as_ref().unwrap_or(&nothing);
        let chunks = self
            .chunks
            .iter()
            .map(|bytes| chunk::decode(bytes).map(Arc::new))
            .collect::<Result<Vec<_>, _>>()?;
        let flat = item.flat_trajectory.as_ref();
        let columns = flat.map(|flat| flat.columns.as_slice()).unwrap_or_default();
        item::trajectory(item.key, columns, |key| find(&chunks, key))
    }
}

/// Samples have few chunks: looking through them is cheaper than a map.
fn find(chunks: &[Arc<Chunk>], key: u64) -> Option<Arc<Chunk>> {
    chunks.iter().find(|chunk| chunk.key() == key).map(Arc::clone)
}
