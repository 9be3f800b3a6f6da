//! Shares headers, which are usually the same for all chunks from one writer.

use std::sync::Arc;

use smallvec::SmallVec;

use super::header::ColumnHeader;
use super::headers::Headers;
use super::stored::Chunk;

/// The number of remembered headers. Several are needed because payloads in messages begin at different offsets: the
/// numbers before them (keys, episodes and steps) take 1 to 10 bytes each.
const RECENT: usize = 8;

/// The headers of recent chunks.
///
/// Code that creates many chunks should keep one such value. Chunks with equal headers then take less memory, and
/// readers find the headers in the processor's cache.
#[derive(Debug, Default)]
pub struct SharedHeaders {
    recent: SmallVec<[Arc<[ColumnHeader]>; RECENT]>,
    oldest: usize,
}

impl SharedHeaders {
    /// Returns the same chunk, sharing the headers of an earlier chunk if they are equal.
    #[must_use]
    pub fn share(&mut self, mut chunk: Chunk) -> Chunk {
        let Headers::Several(headers) = chunk.headers_mut() else { return chunk };
        if let Some(known) = self.recent.iter().find(|known| *known == headers) {
            *headers = Arc::clone(known);
            return chunk;
        }
        match self.recent.get_mut(self.oldest) {
            Some(oldest) => *oldest = Arc::clone(headers),
            None => self.recent.push(Arc::clone(headers)),
        }
        self.oldest = (self.oldest + 1) % RECENT;
        chunk
    }
}

impl Chunk {
    /// Returns whether a quick check shows that the headers of both chunks are equal. The check is possible for one
    /// column, or for several with [shared](SharedHeaders::share) headers.
    #[must_use]
    pub fn is_clearly_like(&self, other: &Self) -> bool {
        let is_same = match (self.headers(), other.headers()) {
            (Headers::One(one), Headers::One(of_other)) => one == of_other,
            (Headers::Several(one), Headers::Several(of_other)) => Arc::ptr_eq(one, of_other),
            _ => false,
        };
        is_same && self.is_delta_encoded() == other.is_delta_encoded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{SequenceRange, encode_chunk};
    use crate::codec::Codec;
    use crate::tensor::Tensor;

    fn chunk(rows: u32) -> Chunk {
        let column = Tensor::from_slice(&vec![1_u8; rows as usize], [rows]).unwrap();
        let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
        Chunk::new(encode_chunk(1, range, &[column.clone(), column], false, Codec::Raw).unwrap()).unwrap()
    }

    #[test]
    fn chunks_with_equal_headers_share_them() {
        let mut shared = SharedHeaders::default();
        let [first, other, second] = [2, 3, 2].map(|rows| shared.share(chunk(rows)));
        assert!(first.is_clearly_like(&second) && !first.is_clearly_like(&other));
        assert_eq!((first.columns(), other.columns()), (chunk(2).columns(), chunk(3).columns()));
        for rows in 3..100 {
            assert_eq!(shared.share(chunk(rows)).columns(), chunk(rows).columns());
        }
        assert_eq!(shared.recent.len(), RECENT);
        assert!(!first.is_clearly_like(&shared.share(chunk(2))), "they are forgotten");
    }
}
