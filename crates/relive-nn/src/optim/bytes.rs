//! The state of an optimizer as bytes, all little endian:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | `RLO1` |
//! | 4 | kind: 1 Adam, 2 RMSProp, 3 SGD |
//! | 8 | steps |
//! | 8 | numbers in the first array |
//! | 8 | numbers in the second array |
//! | 4 each | first array (means, momentum), second array (mean squares), as f32 |

use super::optimizer::Optimizer;
use crate::error::Error;

const MAGIC: &[u8; 4] = b"RLO1";
const HEADER: usize = 32;

impl Optimizer {
    /// Returns the state that the optimizer keeps between steps, for a checkpoint. The state does not include settings
    /// such as learning rates.
    pub fn to_bytes(&self) -> Vec<u8> {
        write(self.kind.tag(), self)
    }

    /// Restores the state that [`to_bytes`](Self::to_bytes) returned. The same subsequent steps then produce the same
    /// bytes.
    ///
    /// # Errors
    /// If the bytes are damaged, or belong to an optimizer of a different kind or with different parameters. In that
    /// case, nothing changes.
    pub fn set_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        read(bytes, self.kind.tag(), self)
    }
}

fn write(tag: u32, from: &Optimizer) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + 4 * (from.first.len() + from.second.len()));
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&tag.to_le_bytes());
    for number in [from.steps, from.first.len() as u64, from.second.len() as u64] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(bytemuck::cast_slice(&from.first));
    bytes.extend_from_slice(bytemuck::cast_slice(&from.second));
    bytes
}

fn read(bytes: &[u8], tag: u32, into: &mut Optimizer) -> Result<(), Error> {
    let Some((header, arrays)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(Error::damaged(format!(
            "optimizer state must have at least {HEADER} bytes, got {}",
            bytes.len()
        )));
    };
    let (magic, numbers) = header.split_at(8);
    if &magic[..4] != MAGIC {
        return Err(Error::damaged("not the state of an optimizer: it does not start with RLO1"));
    }
    if magic[4..] != tag.to_le_bytes() {
        return Err(Error::mismatch("the state belongs to a different kind of optimizer"));
    }
    let number = |index: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&numbers[8 * index..8 * index + 8]);
        u64::from_le_bytes(bytes)
    };
    let (steps, first, second) = (number(0), number(1), number(2));
    if (first, second) != (into.first.len() as u64, into.second.len() as u64) {
        return Err(Error::mismatch(format!(
            "the state has {first} and {second} numbers, but this optimizer keeps {} and {}",
            into.first.len(),
            into.second.len(),
        )));
    }
    let middle = 4 * into.first.len();
    if arrays.len() != middle + 4 * into.second.len() {
        return Err(Error::damaged(format!("{} bytes of arrays after the header", arrays.len())));
    }
    bytemuck::cast_slice_mut::<f32, u8>(&mut into.first).copy_from_slice(&arrays[..middle]);
    bytemuck::cast_slice_mut::<f32, u8>(&mut into.second).copy_from_slice(&arrays[middle..]);
    into.steps = steps;
    Ok(())
}
