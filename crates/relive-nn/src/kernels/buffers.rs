//! Buffers that are used again. A learner asks for the same sizes at every step; fresh memory would have to be
//! touched, page by page, each time.

use std::cell::RefCell;

/// Most buffers that a thread keeps. A step of the largest agents has some dozen in use at once.
const MAX_KEPT: usize = 32;

thread_local! {
    static KEPT: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of this thread's store, which goes back there when dropped, on whichever thread.
///
/// The memory behind it keeps its whole length, so that no part of it is cleared each time that the size changes.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    values: Vec<f32>,
    len: usize,
}

impl Buffer {
    /// A buffer of `len` numbers, whatever they were before.
    pub(crate) fn take(len: usize) -> Self {
        let mut values = KEPT.with_borrow_mut(|kept| pick(kept, len)).unwrap_or_default();
        if values.len() < len {
            values.resize(len, 0.0);
        }
        Self { values, len }
    }
}

/// The smallest that is large enough, or the largest there is.
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
        // The store is gone when a thread ends; so is the buffer then.
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
    fn buffers_come_back() {
        let first = Buffer::take(1000);
        let place = first.as_ptr();
        drop(first);
        let small = Buffer::take(10);
        assert_eq!((small.as_ptr(), small.len()), (place, 10));
        assert_ne!(Buffer::take(10).as_ptr(), place);
    }
}
