//! The messages that a program logs.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Runs `work`, and returns the texts of the warnings that it logs on this thread.
pub fn warnings(work: impl FnOnce()) -> Vec<String> {
    messages(|metadata| *metadata.level() == Level::WARN, work)
}

/// Runs `work`, and returns the texts of the messages that it logs on this thread and that `is_wanted` chooses.
pub fn messages(is_wanted: fn(&Metadata<'_>) -> bool, work: impl FnOnce()) -> Vec<String> {
    let log = Log { is_wanted, texts: Arc::default() };
    tracing::subscriber::with_default(log.clone(), work);
    let texts = log.texts.lock().unwrap_or_else(PoisonError::into_inner);
    texts.clone()
}

#[derive(Debug, Clone)]
struct Log {
    is_wanted: fn(&Metadata<'_>) -> bool,
    texts: Arc<Mutex<Vec<String>>>,
}

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.texts.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        (self.is_wanted)(metadata)
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
