//! Encodes insert frames.

use bytes::Bytes;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::frame::{FrameError, FrameHeader, FrameKind, HEADER_BYTES};
use crate::v1::InsertItems;

/// Chunks of at least this size are sent without a copy, because a copy would cost more than an additional part of a
/// write.
const UNCOPIED_BYTES: usize = 4 << 10;

/// The field number of [`InsertItems::chunks`].
const CHUNKS: u32 = 1;

/// An Insert frame: a buffer of small parts, with large chunks between them. It keeps its memory for the next frame.
#[derive(Debug, Default)]
pub struct InsertFrame {
    copied: Vec<u8>,
    /// Large chunks, and the position of each in the buffer.
    large: Vec<(usize, Bytes)>,
}

impl InsertFrame {
    /// Builds the frame of `request`, and takes ownership of its chunks.
    ///
    /// # Errors
    /// If the request exceeds the limit for a frame.
    pub fn fill(&mut self, mut request: InsertItems) -> Result<(), FrameError> {
        self.copied.clear();
        self.large.clear();
        self.copied.resize(HEADER_BYTES, 0);
        for chunk in std::mem::take(&mut request.chunks) {
            encode_key(CHUNKS, WireType::LengthDelimited, &mut self.copied);
            encode_varint(chunk.len() as u64, &mut self.copied);
            if chunk.len() < UNCOPIED_BYTES {
                self.copied.extend_from_slice(&chunk);
            } else {
                self.large.push((self.copied.len(), chunk));
            }
        }
        request.encode_raw(&mut self.copied);
        let large: usize = self.large.iter().map(|(_, chunk)| chunk.len()).sum();
        let header = FrameHeader::new(FrameKind::Insert, 0, self.copied.len() - HEADER_BYTES + large)?;
        let (start, _) = self.copied.split_at_mut(HEADER_BYTES);
        start.copy_from_slice(&header.encode());
        Ok(())
    }

    /// Iterates over the frame's bytes, including the header.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self.large.iter().map(|(end, _)| *end).chain([self.copied.len()]);
        let starts = [0].into_iter().chain(self.large.iter().map(|(end, _)| *end));
        let copied = starts.zip(ends).map(|(start, end)| self.copied.get(start..end).unwrap_or_default());
        let large = self.large.iter().map(|(_, chunk)| chunk.as_ref()).chain([&[][..]]);
        copied.zip(large).flat_map(|(copied, large)| [copied, large])
    }

    /// Releases the chunks, and also the buffer if it exceeds `kept_bytes`.
    pub fn clear(&mut self, kept_bytes: usize) {
        self.large.clear();
        if self.copied.capacity() > kept_bytes {
            self.copied = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::ItemRun;

    #[test]
    fn a_frame_matches_the_insert_request() {
        let mut frame = InsertFrame::default();
        for sizes in [vec![], vec![3], vec![5_000], vec![1, 4_096, 4_095, 9_000, 2]] {
            let chunks = sizes.iter().map(|&size| Bytes::from(vec![7; size])).collect();
            let mut run = ItemRun::new("t", [true].into_iter());
            run.begin_item(4, 0.5);
            let request = InsertItems { chunks, runs: vec![run], keep_chunk_keys: vec![1, 2] };
            frame.fill(request.clone()).unwrap();
            let bytes: Vec<u8> = frame.parts().flatten().copied().collect();
            let (header, body) = bytes.split_first_chunk().unwrap();
            let header = FrameHeader::decode(header).unwrap();
            assert_eq!(
                (header.kind, header.head_len(), header.body_len()),
                (FrameKind::Insert, 0, body.len())
            );
            assert_eq!(InsertItems::decode(body).unwrap(), request);
            assert_eq!(frame.large.len(), sizes.iter().filter(|&&size| size >= UNCOPIED_BYTES).count());
        }
    }
}
