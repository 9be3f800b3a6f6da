//! Rows of one tensor, and the decoding of many parts side by side.

use relive_prefetch::{prefetch_payloads, prefetch_starts};
use relive_tensor::{ChunkFault, EncodedTensor};
use smallvec::SmallVec;

/// The number of parts decoded side by side: enough for many memory requests in parallel, and few enough that small
/// parts fit the L1 cache.
const STAGE: usize = 64;

type Stage<T> = SmallVec<[T; STAGE]>;

/// Parts that are collected before they are copied or decoded to their destinations.
#[derive(Default)]
pub(crate) struct Staged<'a, 'o> {
    /// Rows that only need to be copied.
    rows: Stage<&'a [u8]>,
    rows_places: Stage<&'o mut [u8]>,
    parts: Stage<Part<'a>>,
    parts_places: Stage<&'o mut [u8]>,
}

impl<'a, 'o> Staged<'a, 'o> {
    /// Adds rows that are known to be stored verbatim.
    pub(crate) fn copy(&mut self, rows: &'a [u8], place: &'o mut [u8]) {
        self.rows.push(rows);
        self.rows_places.push(place);
        if self.rows.len() == STAGE {
            self.copy_all();
        }
    }

    /// Adds a part that may not be stored verbatim.
    pub(crate) fn decode(&mut self, part: Part<'a>, place: &'o mut [u8]) -> Result<(), ChunkFault> {
        self.parts.push(part);
        self.parts_places.push(place);
        if self.parts.len() < STAGE { Ok(()) } else { self.decode_all() }
    }

    /// Processes the remaining parts.
    pub(crate) fn end(&mut self) -> Result<(), ChunkFault> {
        self.copy_all();
        self.decode_all()
    }

    fn copy_all(&mut self) {
        prefetch_payloads(self.rows.iter().copied());
        for (rows, place) in self.rows.drain(..).zip(self.rows_places.drain(..)) {
            // Rows and destinations have equal lengths by construction.
            if rows.len() == place.len() {
                place.copy_from_slice(rows);
            }
        }
    }

    fn decode_all(&mut self) -> Result<(), ChunkFault> {
        prefetch_starts(self.parts.iter().map(|part| part.tensor.payload.as_ref()));
        let stored: Stage<Stored<'_>> = self.parts.iter().map(Part::stored).collect();
        prefetch_payloads(stored.iter().map(|stored| stored.bytes()));
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

/// Rows of a tensor: all of them, or rows that are or seem to be stored verbatim.
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

    /// The fallback for rows that seemed to be stored verbatim, but are not.
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

/// The stored bytes of a part.
#[derive(Clone, Copy)]
enum Stored<'a> {
    /// The rows, verbatim.
    Plain(&'a [u8]),
    /// Encoded bytes.
    Coded(&'a [u8]),
}

impl<'a> Stored<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Plain(bytes) | Self::Coded(bytes) => bytes,
        }
    }
}
