//! Buffers that are reused, because a learner requests the same sizes at every step, and each new allocation would
//! cause page faults again.

use std::cell::RefCell;

/// The limit on the number of buffers that a thread keeps. A step of the largest agents uses a few dozen at once.
const MAX_KEPT: usize = 32;

thread_local! {
    static KEPT: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer from this thread's store. When it is dropped, it returns to the store of the thread that drops it.
///
/// The memory of a buffer keeps its full length, so that no part is cleared when the size changes.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    values: Vec<f32>,
    len: usize,
}

impl Buffer {
    /// Takes a buffer of `len` numbers with unspecified values.
    pub(crate) fn take(len: usize) -> Self {
        let mut values = KEPT.with_borrow_mut(|kept| pick(kept, len)).unwrap_or_default();
        if values.len() < len {
            values.resize(len, 0.0);
        }
        Self { values, len }
    }
}

/// Returns the smallest buffer that is large enough or, if there is none, the largest buffer.
fn pick(kept: &mut Vec<Vec<f32>>, len: usize) -> Option<Vec<f32>> {
    let rank = |buffer: &Vec<f32>| match buffer.len() {
        kept if kept >= len => (0, kept),
        kept => (1, usize::MAX - kept),
    };
    let (index, _) = kept.iter().enumerate().min_by_key(|(_, buffer)| rank(buffer))?;
    Some(kept.swap_remove(index))
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let values = std::mem::take(&mut self.values);
        // Once the thread's store is destroyed, the buffer is freed instead.
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.len() < MAX_KEPT {
                kept.push(values);
            }
        });
    }
}

impl std::ops::Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values[..self.len]
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused() {
        let first = Buffer::take(1000);
        let place = first.as_ptr();
        drop(first);
        let small = Buffer::take(10);
        assert_eq!((small.as_ptr(), small.len()), (place, 10));
        assert_ne!(Buffer::take(10).as_ptr(), place);
    }
}
