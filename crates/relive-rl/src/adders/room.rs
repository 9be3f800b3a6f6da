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
    use std::fmt;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use relive_client::blocking::Client;
    use relive_engine::Engine;
    use relive_table::TableConfig;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;
    use crate::RlError;

    /// A subscriber that collects the texts of log messages.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<String>>>);

    impl Visit for Log {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            if field.name() == "message" {
                self.0.lock().push(format!("{value:?}"));
            }
        }
    }

    impl Subscriber for Log {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == module_path!().trim_end_matches("::tests")
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn each_wait_is_logged_and_other_errors_end_it() {
        let engine = Engine::builder().table(TableConfig::new("replay")).build().unwrap();
        let client = Client::in_process(engine.clone()).unwrap();
        let late = || client.with_timeout(Duration::ZERO).sample("replay", 1).map(drop);
        let log = Log::default();
        tracing::subscriber::with_default(log.clone(), || {
            let mut expected = Vec::new();
            let done = until_there_is_room(|| {
                if expected.len() == 2 {
                    return Ok(7);
                }
                let error = late().unwrap_err();
                expected.push(format!("the adder cannot write its steps yet: {error}; still waiting"));
                Err(error)
            });
            assert_eq!(done.unwrap(), 7);
            assert_eq!(*log.0.lock(), expected);
            engine.close();
            let error = until_there_is_room(late).unwrap_err();
            let RlError::Replay(error) = error else { panic!("{error}") };
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        });
        assert_eq!(log.0.lock().len(), 2);
    }
}
