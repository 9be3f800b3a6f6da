//! Writing against rate limiters.

use std::time::Duration;

use relive_client::ErrorKind;

use crate::Result;

/// For how long a writer waits for confirmations before it is asked again.
pub(super) const CONFIRMATION_TIMEOUT: Duration = Duration::from_secs(60);

/// A rate limiter holds actors back for as long as its learner takes; that is what it is for, and the table tells who waits. A table
/// that is closed ends it.
pub(super) fn until_there_is_room<T>(mut call: impl FnMut() -> relive_client::Result<T>) -> Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Timeout => {}
            done => return Ok(done?),
        }
    }
}
