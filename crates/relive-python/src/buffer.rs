//! Memory that Rust fills and numpy then owns, and that comes back for the next batch when numpy lets go of it.
#![expect(unsafe_code, reason = "numpy's C interface takes pointers; each block says why it is sound")]

use std::sync::Arc;

use numpy::npyffi::{self, NPY_ARRAY_CARRAY, PY_ARRAY_API};
use parking_lot::Mutex;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use relive_client::ColumnMemory;
use relive_tensor::DType;
use smallvec::SmallVec;

use crate::array::descr_of;

/// A cache line: what array memory is aligned to.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; LINE_BYTES]);

pub(crate) const LINE_BYTES: usize = 64;

/// Blocks of one pool that wait to be used again; more than a pipeline keeps in use at once.
const MAX_IDLE_BLOCKS: usize = 32;

/// Bytes that a pool keeps at most.
const MAX_IDLE_BYTES: usize = 256 << 20;

/// A run of bytes for the elements of one array.
pub(crate) struct Block {
    lines: Vec<Line>,
    len: usize,
}

impl Block {
    /// A block of zeros, if there is the memory. Empty ones have a line, too: numpy wants a pointer even for no elements.
    pub(crate) fn new(len: usize) -> Result<Block, OutOfMemory> {
        let lines =
            bytemuck::allocation::try_zeroed_vec(lines_of(len)).map_err(|()| OutOfMemory { bytes: len })?;
        Ok(Block { lines, len })
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.lines);
        bytes.get_mut(..self.len).unwrap_or_default()
    }
}

/// There is not as much memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutOfMemory {
    bytes: usize,
}

impl From<OutOfMemory> for PyErr {
    fn from(error: OutOfMemory) -> PyErr {
        PyMemoryError::new_err(format!("there is no memory for an array of {} bytes", error.bytes))
    }
}

fn lines_of(len: usize) -> usize {
    len.div_ceil(LINE_BYTES).max(1)
}

/// Blocks that numpy gave back. Fresh memory costs a page fault per 4 KiB, which for batches of megabytes is as much as
/// filling them.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    blocks: Vec<Vec<Line>>,
    bytes: usize,
}

impl Pool {
    /// A block of `len` bytes with unspecified content.
    pub(crate) fn take(&self, len: usize) -> Result<Block, OutOfMemory> {
        let wanted = lines_of(len);
        let mut idle = self.idle.lock();
        let found = idle.blocks.iter().rposition(|lines| lines.len() == wanted);
        let Some(lines) = found.map(|index| idle.blocks.swap_remove(index)) else {
            drop(idle);
            return Block::new(len);
        };
        idle.bytes -= lines.len() * LINE_BYTES;
        Ok(Block { lines, len })
    }

    fn give_back(&self, lines: Vec<Line>) {
        let bytes = lines.len() * LINE_BYTES;
        let mut idle = self.idle.lock();
        if idle.blocks.len() < MAX_IDLE_BLOCKS && idle.bytes + bytes <= MAX_IDLE_BYTES {
            idle.bytes += bytes;
            idle.blocks.push(lines);
        }
    }
}

/// What an array's memory belongs to.
#[pyclass(frozen, module = "relive._native")]
struct Owner(Memory);

enum Memory {
    Block {
        lines: Mutex<Vec<Line>>,
        pool: Option<Arc<Pool>>,
    },
    /// Of a batch that came from a server, and perhaps shared with it.
    Batch {
        _column: ColumnMemory,
    },
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Memory::Block { lines, pool: Some(pool) } = &mut self.0 {
            pool.give_back(std::mem::take(lines.get_mut()));
        }
    }
}

/// A block as a writable array of `dims`, which must take exactly its bytes. When the array and all views of it are gone,
/// the block returns to `pool`.
pub(crate) fn into_array<'py>(
    py: Python<'py>,
    block: Block,
    dtype: DType,
    dims: &[usize],
    pool: Option<&Arc<Pool>>,
) -> PyResult<Bound<'py, PyAny>> {
    let elements: usize = dims.iter().product();
    assert_eq!(
        Some(block.len),
        dtype.size_bytes().map(|size| size * elements),
        "a block holds exactly its array"
    );
    Shared::new(py, block, pool)?.array(0, dtype, dims)
}

/// A column of a batch as a writable array of `dims`, where it is.
pub(crate) fn over_column<'py>(
    py: Python<'py>,
    column: ColumnMemory,
    dtype: DType,
    dims: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let (data, len) = (column.as_mut_ptr(), column.len());
    let owner = Bound::new(py, Owner(Memory::Batch { _column: column }))?;
    Shared { owner, data, len }.array(0, dtype, dims)
}

/// A block that several arrays are parts of. It returns to its pool when all of them are gone.
pub(crate) struct Shared<'py> {
    owner: Bound<'py, Owner>,
    data: *mut u8,
    len: usize,
}

impl<'py> Shared<'py> {
    pub(crate) fn new(py: Python<'py>, block: Block, pool: Option<&Arc<Pool>>) -> PyResult<Shared<'py>> {
        let Block { mut lines, len } = block;
        let data = lines.as_mut_ptr().cast();
        let memory = Memory::Block { lines: Mutex::new(lines), pool: pool.map(Arc::clone) };
        let owner = Bound::new(py, Owner(memory))?;
        Ok(Shared { owner, data, len })
    }

    /// The bytes from `offset` on as a writable array, which must lie in the block. No other array may have them.
    pub(crate) fn array(&self, offset: usize, dtype: DType, dims: &[usize]) -> PyResult<Bound<'py, PyAny>> {
        let py = self.owner.py();
        let size = dtype.size_bytes().map(|size| dims.iter().product::<usize>() * size);
        let end = size.and_then(|size| offset.checked_add(size));
        assert!(end.is_some_and(|end| end <= self.len), "the array lies in its block");
        assert_eq!(offset % LINE_BYTES, 0, "the array begins with a line");
        let descr = descr_of(py, dtype)?;
        let mut shape: SmallVec<[npyffi::npy_intp; 8]> = dims.iter().map(|&dim| dim.cast_signed()).collect();
        let rank = i32::try_from(dims.len()).unwrap_or(i32::MAX);
        // SAFETY: from `data` + `offset` on there are as many bytes as `dims` and the dtype need (asserted), aligned to 64. They
        // live in a Vec inside `owner` (whose move leaves them in place, and, unlike a box's, claims nothing about them) or in
        // the batch that it keeps, which are never touched while `owner` lives and which the array keeps alive as its base;
        // nothing else has a reference to them. NewFromDescr steals the reference to the descriptor, SetBaseObject the one to the owner.
        unsafe {
            let array = PY_ARRAY_API.PyArray_NewFromDescr(
                py,
                npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
                descr.into_ptr().cast(),
                rank,
                shape.as_mut_ptr(),
                std::ptr::null_mut(),
                self.data.add(offset).cast(),
                NPY_ARRAY_CARRAY,
                std::ptr::null_mut(),
            );
            let array = Bound::from_owned_ptr_or_err(py, array)?;
            let owner = self.owner.clone().into_ptr();
            if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner) < 0 {
                return Err(PyErr::fetch(py));
            }
            Ok(array)
        }
    }
}
