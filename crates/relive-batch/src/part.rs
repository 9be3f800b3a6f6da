//! Rows of one tensor, and decoding many of them side by side.

use relive_tensor::{ChunkFault, EncodedTensor, touch, touch_starts};
use smallvec::SmallVec;

/// Parts that are decoded side by side: enough to keep a processor's memory requests busy, and small ones fit its
/// first cache.
const STAGE: usize = 64;

type Stage<T> = SmallVec<[T; STAGE]>;

/// Parts on their way to their places.
#[derive(Default)]
pub(crate) struct Staged<'a, 'o> {
    /// Rows that are only to be copied.
    rows: Stage<&'a [u8]>,
    rows_places: Stage<&'o mut [u8]>,
    parts: Stage<Part<'a>>,
    parts_places: Stage<&'o mut [u8]>,
}

impl<'a, 'o> Staged<'a, 'o> {
    /// Adds rows that are stored as they are.
    pub(crate) fn copy(&mut self, rows: &'a [u8], place: &'o mut [u8]) {
        self.rows.push(rows);
        self.rows_places.push(place);
        if self.rows.len() == STAGE {
            self.copy_all();
        }
    }

    /// Adds a part that is stored in another way, or may be.
    pub(crate) fn decode(&mut self, part: Part<'a>, place: &'o mut [u8]) -> Result<(), ChunkFault> {
        self.parts.push(part);
        self.parts_places.push(place);
        if self.parts.len() < STAGE { Ok(()) } else { self.decode_all() }
    }

    /// Has all of them in their places.
    pub(crate) fn end(&mut self) -> Result<(), ChunkFault> {
        self.copy_all();
        self.decode_all()
    }

    fn copy_all(&mut self) {
        touch(self.rows.iter().copied());
        for (rows, place) in self.rows.drain(..).zip(self.rows_places.drain(..)) {
            // They are as long by construction.
            if rows.len() == place.len() {
                place.copy_from_slice(rows);
            }
        }
    }

    fn decode_all(&mut self) -> Result<(), ChunkFault> {
        touch_starts(self.parts.iter().map(|part| part.tensor.payload.as_ref()));
        let stored: Stage<Stored<'_>> = self.parts.iter().map(Part::stored).collect();
        touch(stored.iter().map(|stored| stored.bytes()));
        for ((part, stored), place) in self.parts.iter().zip(stored).zip(self.parts_places.drain(..)) {
            match stored {
                Stored::Plain(rows) if rows.len() == place.len() => place.copy_from_slice(rows),
                Stored::Plain(_) | Stored::Coded(_) => part.decode_into(place)?,
            }
        }
        self.parts.clear();
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
