//! Decodes a trajectory to tensors.

use bytes::Bytes;
use smallvec::SmallVec;

use super::TrajectoryError;
use super::slice::Slice;
use super::stored::{Column, Trajectory};
use crate::chunk::{Chunk, ChunkError};
use crate::dtype::DType;
use crate::shape::Shape;
use crate::tensor::Tensor;

impl Trajectory {
    /// Decodes all columns in flattening order. The slices of a column are concatenated, and squeezed columns lose
    /// their leading dimension.
    ///
    /// Each tensor of a chunk is decoded once, no matter how many slices refer to it. A tensor that a single slice uses
    /// completely is decoded in place. Columns that are slices of the same decoded tensor share its memory.
    ///
    /// # Errors
    /// [`TrajectoryError`] if the bytes of bools in a chunk are not valid bools.
    pub fn decode(&self) -> Result<Vec<Tensor>, TrajectoryError> {
        let mut sources = Sources::new(self, self.pattern.slices());
        let mut tensors = Vec::with_capacity(self.num_columns());
        for (index, column) in self.columns().enumerate() {
            tensors.push(sources.column(index, column)?);
        }
        Ok(tensors)
    }

    /// Decodes one column.
    ///
    /// # Errors
    /// The errors of [`decode`](Self::decode). An error is also returned if there is no such column.
    pub fn decode_column(&self, index: usize) -> Result<Tensor, TrajectoryError> {
        let columns = self.num_columns();
        let column = self.column(index).ok_or(TrajectoryError::NoSuchColumn { column: index, columns })?;
        Sources::new(self, &column.slices().collect::<SmallVec<[_; 8]>>()).column(index, column)
    }
}

/// The tensors of the chunks to which slices refer.
struct Sources<'a> {
    trajectory: &'a Trajectory,
    /// The index in `tensors` of each chunk's first tensor. Chunks are few and numbered, so this replaces a map.
    first: SmallVec<[usize; 8]>,
    /// The list is empty if no tensor is needed twice.
    tensors: Vec<Source>,
}

#[derive(Clone, Default)]
struct Source {
    /// The number of slices that refer to the tensor.
    uses: usize,
    /// The tensor, kept if more than one slice needs it.
    decoded: Option<Tensor>,
}

impl<'a> Sources<'a> {
    fn new(trajectory: &'a Trajectory, slices: &[Slice]) -> Self {
        let mut sources = Self { trajectory, first: SmallVec::new(), tensors: Vec::new() };
        // The common case: each tensor is used once, in the order of the chunks' numbers. No decoded tensor has to be
        // kept.
        if slices.is_sorted_by(|a, b| (a.chunk, a.index) < (b.chunk, b.index)) {
            return sources;
        }
        let mut total = 0;
        for chunk in trajectory.chunks() {
            sources.first.push(total);
            total += chunk.num_columns();
        }
        sources.tensors.resize(total, Source::default());
        for slice in slices {
            if let Some(source) = sources.source(slice) {
                source.uses += 1;
            }
        }
        sources
    }

    /// Decodes column number `index`.
    fn column(&mut self, index: usize, column: Column<'_>) -> Result<Tensor, TrajectoryError> {
        let mut slices = column.slices();
        let tensor = match (slices.next(), slices.next()) {
            (Some(slice), None) => self.rows(index, &slice)?,
            _ if column.dtype() == DType::String => self.joined_strings(index, column)?,
            _ => self.joined_bytes(index, column)?,
        };
        let tensor = if column.squeeze() { tensor.squeeze_leading() } else { Ok(tensor) };
        tensor.map_err(|source| TrajectoryError::Tensor { column: index, source })
    }

    fn joined_strings(&mut self, index: usize, column: Column<'_>) -> Result<Tensor, TrajectoryError> {
        let mut values: Vec<Bytes> = Vec::new();
        for slice in column.slices() {
            values.extend_from_slice(self.rows(index, &slice)?.strings().unwrap_or_default());
        }
        Tensor::from_strings(values, Shape::batched(column.rows(), column.cell_shape()))
            .map_err(|source| TrajectoryError::Tensor { column: index, source })
    }

    fn joined_bytes(&mut self, index: usize, column: Column<'_>) -> Result<Tensor, TrajectoryError> {
        let row_len = column.header().and_then(|h| usize::try_from(h.row_size()).ok()).unwrap_or(0);
        let mut data = vec![0; to_usize(column.rows()).saturating_mul(row_len)];
        let mut rest = data.as_mut_slice();
        for slice in column.slices() {
            let len = to_usize(slice.length).saturating_mul(row_len);
            let (place, after) = rest.split_at_mut_checked(len).unwrap_or_default();
            self.fill(index, &slice, place)?;
            rest = after;
        }
        Tensor::new(column.dtype(), Shape::batched(column.rows(), column.cell_shape()), data.into())
            .map_err(|source| TrajectoryError::Tensor { column: index, source })
    }

    /// Writes the rows of a slice to `place`, directly if no other slice needs the tensor.
    fn fill(&mut self, column: usize, slice: &Slice, place: &mut [u8]) -> Result<(), TrajectoryError> {
        let chunk = self.chunk(slice);
        let index = to_usize(slice.index);
        let only_use = self.source(slice).is_none_or(|source| source.uses == 1);
        if let Some(chunk) = chunk.filter(|chunk| only_use && chunk.rows(index) == Some(slice.length)) {
            return chunk
                .decode_column_into(index, place)
                .map_err(|source| TrajectoryError::Chunk { column, source });
        }
        let rows = self.rows(column, slice)?;
        // This is always true, because `place` has the length of the slice's rows.
        if let Some(bytes) = rows.bytes().filter(|bytes| bytes.len() == place.len()) {
            place.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Returns the rows of a slice as a view of the decoded tensor.
    fn rows(&mut self, column: usize, slice: &Slice) -> Result<Tensor, TrajectoryError> {
        let tensor = self.tensor(slice).map_err(|source| TrajectoryError::Chunk { column, source })?;
        if tensor.shape().rows() == Some(slice.length) {
            return Ok(tensor);
        }
        let end = slice.offset.saturating_add(slice.length);
        tensor.rows(slice.offset..end).map_err(|source| TrajectoryError::Tensor { column, source })
    }

    /// Returns the whole tensor to which a slice refers.
    fn tensor(&mut self, slice: &Slice) -> Result<Tensor, ChunkError> {
        let chunk = self.chunk(slice).expect("the builder refuses slices of unknown chunks");
        let decode = || chunk.decode_column(to_usize(slice.index));
        match self.source(slice) {
            Some(Source { decoded: Some(tensor), .. }) => Ok(tensor.clone()),
            Some(source) if source.uses > 1 => {
                let tensor = decode()?;
                source.decoded = Some(tensor.clone());
                Ok(tensor)
            }
            _ => decode(),
        }
    }

    fn chunk(&self, slice: &Slice) -> Option<&'a Chunk> {
        self.trajectory.chunks().get(to_usize(slice.chunk)).map(AsRef::as_ref)
    }

    fn source(&mut self, slice: &Slice) -> Option<&mut Source> {
        let first = self.first.get(to_usize(slice.chunk))?;
        self.tensors.get_mut(first.checked_add(to_usize(slice.index))?)
    }
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
