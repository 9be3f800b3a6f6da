//! What a run can be resumed with.

use crate::Result;

/// Something that a run can be resumed with.
pub trait Saveable {
    /// All that its future depends on, random streams included. What comes in from outside, such as a learner's weights in a policy, is no
    /// part of it.
    fn save(&mut self) -> Vec<u8>;

    /// Goes on where one of the same settings was when it was [saved](Self::save).
    ///
    /// # Errors
    /// [`State`](crate::RlError::State) if the bytes are not of such a one.
    fn restore(&mut self, state: &[u8]) -> Result<()>;
}

impl<S: Saveable + ?Sized> Saveable for Box<S> {
    fn save(&mut self) -> Vec<u8> {
        (**self).save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        (**self).restore(state)
    }
}
