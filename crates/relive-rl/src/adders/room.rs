//! Writes to tables with rate limiters.

use std::time::Duration;

use relive_client::ErrorKind;

use crate::Result;

/// How long one call waits for confirmations before it is repeated.
pub(super) const CONFIRMATION_TIMEOUT: Duration = Duration::from_secs(60);

/// Repeats a call until the rate limiter has room. A rate limiter may block actors indefinitely; the table reports
/// which callers are waiting. Closing the table ends the wait. The client cannot distinguish a blocked call from a lost
/// server, so every wait is logged.
pub(super) fn until_there_is_room<T>(mut call: impl FnMut() -> relive_client::Result<T>) -> Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Timeout => {
                tracing::info!("the adder cannot write its steps yet: {error}; still waiting");
            }
            done => return Ok(done?),
        }
    }
}

#[cfg(test)]
mod tests {
    use relive_client::blocking::Client;
    use relive_engine::Engine;
    use relive_table::TableConfig;
    use relive_testkit::logs::messages;
    use tracing::Metadata;

    use super::*;
    use crate::RlError;

    #[test]
    fn each_wait_is_logged_and_other_errors_end_it() {
        let engine = Engine::builder().table(TableConfig::new("replay")).build().unwrap();
        let client = Client::in_process(engine.clone()).unwrap();
        let late = || client.with_timeout(Duration::ZERO).sample("replay", 1).map(drop);
        let is_ours: fn(&Metadata<'_>) -> bool = |metadata| metadata.target().ends_with("adders::room");
        let mut expected = Vec::new();
        let logged = messages(is_ours, || {
            let done = until_there_is_room(|| {
                if expected.len() == 2 {
                    return Ok(7);
                }
                let error = late().unwrap_err();
                expected.push(format!("the adder cannot write its steps yet: {error}; still waiting"));
                Err(error)
            });
            assert_eq!(done.unwrap(), 7);
        });
        assert_eq!((logged.len(), logged), (2, expected));
        engine.close();
        let logged = messages(is_ours, || {
            let RlError::Replay(error) = until_there_is_room(late).unwrap_err() else {
                panic!("another error")
            };
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        });
        assert_eq!(logged, [""; 0]);
    }
}
