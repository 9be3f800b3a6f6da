//! Rows of one tensor, and decoding many of them side by side.

use relive_tensor::{ChunkFault, EncodedTensor, touch, touch_starts};
use smallvec::SmallVec;

/// Parts that are decoded side by side: enough to keep a processor's memory requests busy, and small ones fit its first cache.
const STAGE: usize = 64;

type Stage<T> = SmallVec<[T; STAGE]>;

/// Parts on their way to their places.
#[derive(Default)]
pub(crate) struct Staged<'a, 'o> {
    parts: Stage<Part<'a>>,
    places: Stage<&'o mut [u8]>,
}

impl<'a, 'o> Staged<'a, 'o> {
    /// Adds a part, and decodes those before if there are many.
    pub(crate) fn push(&mut self, part: Part<'a>, place: &'o mut [u8]) -> Result<(), ChunkFault> {
        self.parts.push(part);
        self.places.push(place);
        if self.parts.len() < STAGE { Ok(()) } else { self.decode() }
    }

    /// Decodes all parts, each into its place.
    pub(crate) fn decode(&mut self) -> Result<(), ChunkFault> {
        // Where payloads begin says how they are stored, unless that is known.
        let unknown = self.parts.iter().filter(|part| !part.tensor.is_plain());
        touch_starts(unknown.map(|part| part.tensor.payload.as_ref()));
        let stored: Stage<Stored<'_>> = self.parts.iter().map(Part::stored).collect();
        touch(stored.iter().map(|stored| stored.bytes()));
        for ((part, stored), out) in self.parts.iter().zip(stored).zip(&mut self.places) {
            match stored {
                Stored::Plain(rows) if rows.len() == out.len() => out.copy_from_slice(rows),
                Stored::Plain(_) | Stored::Coded(_) => part.decode_into(out)?,
            }
        }
        self.parts.clear();
        self.places.clear();
        Ok(())
    }
}

/// Rows of a tensor, which are all of it, or stored as they are, or seem to be.
pub(crate) struct Part<'a> {
    pub(crate) tensor: EncodedTensor<'a>,
    pub(crate) first: u32,
    pub(crate) rows: u32,
}

impl Part<'_> {
    fn stored(&self) -> Stored<'_> {
        match self.tensor.plain_rows(self.first, self.rows) {
            Some(rows) => Stored::Plain(rows),
            None => Stored::Coded(&self.tensor.payload),
        }
    }

    fn decode_into(&self, out: &mut [u8]) -> Result<(), ChunkFault> {
        if self.tensor.shape.rows() == Some(self.rows) {
            return self.tensor.decode_into(out);
        }
        self.tensor.copy_plain_rows(self.first, out).unwrap_or_else(|| self.decode_rows_into(out))
    }

    /// The way for rows that only seemed to be stored as they are.
    fn decode_rows_into(&self, out: &mut [u8]) -> Result<(), ChunkFault> {
        let size = self.tensor.size_bytes().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        let mut all = vec![0; size];
        self.tensor.decode_into(&mut all)?;
        let start = self.first as usize * (out.len() / (self.rows as usize).max(1));
        if let Some(rows) = all.get(start..start + out.len()) {
            out.copy_from_slice(rows);
        }
        Ok(())
    }
}

/// What is going to be read of a part.
#[derive(Clone, Copy)]
enum Stored<'a> {
    /// The rows as they are.
    Plain(&'a [u8]),
    /// Something to be decoded.
    Coded(&'a [u8]),
}

impl<'a> Stored<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Plain(bytes) | Self::Coded(bytes) => bytes,
        }
    }
}
