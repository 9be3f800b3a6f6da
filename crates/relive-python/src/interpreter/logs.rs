//! Passes events of the Rust crates to Python's `logging`.
//!
//! Any thread may log, even one that holds a lock, so logging must not wait for the interpreter. Events enter a queue
//! instead, and a dedicated thread passes them to the logger `relive`.

use std::fmt::{self, Write};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::Duration;

use pyo3::prelude::*;
use relive_rl::watching::LogLines;
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

use super::finalization;
use super::lock::Brief;

/// The maximum number of queued records; further records are dropped, since no one could read that many anyway.
const MAX_WAITING: usize = 1_000;

/// The longest wait for records at the end of a run, and of the process.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);

/// The names of the crates whose events are passed on.
const TARGET_PREFIX: &str = "relive";

enum Message {
    Record(Record),
    /// All earlier records were delivered.
    Flush(Sender<()>),
}

struct Record {
    level: u8,
    target: String,
    text: String,
    /// The line of Rust's source.
    file: &'static str,
    line: u32,
    /// The name of the thread that logged, if it has one.
    thread: Option<String>,
}

/// The queue, and the process that it belongs to, because the thread that empties the queue does not survive a fork.
static QUEUE: Brief<Option<(u32, SyncSender<Message>)>> = Brief::new(None);

/// The latest noteworthy events, for programs that observe a run of this process from outside.
static LINES: LazyLock<LogLines> = LazyLock::new(LogLines::new);

/// Returns the log of this process.
pub(crate) fn lines() -> LogLines {
    LINES.clone()
}

/// Passes events on from now on, unless the process already has a subscriber.
#[pyfunction]
pub(crate) fn install_logging() {
    // A Rust program that embeds Python may have a subscriber, which is kept.
    let _ = tracing::subscriber::set_global_default(ToPython);
}

/// Waits briefly until all earlier records are delivered.
#[pyfunction]
pub(crate) fn flush_logs(py: Python<'_>) {
    let queue = QUEUE.get().filter(|(process, _)| *process == std::process::id()).map(|(_, queue)| queue);
    if let Some(queue) = queue {
        let (done, delivered) = channel();
        if queue.try_send(Message::Flush(done)).is_ok() {
            // A timeout means that no one reads the records; nothing else can be done.
            let _ = py.detach(move || delivered.recv_timeout(FLUSH_TIMEOUT));
        }
    }
}

fn send(message: Message) {
    let process = std::process::id();
    QUEUE.with(|queue| send_to(queue, process, message));
}

fn send_to(queue: &mut Option<(u32, SyncSender<Message>)>, process: u32, message: Message) {
    if queue.as_ref().is_none_or(|(owner, _)| *owner != process) {
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let started =
            std::thread::Builder::new().name("relive-log".to_owned()).spawn(move || deliver(&receiver));
        if started.is_err() {
            return;
        }
        *queue = Some((process, sender));
    }
    if let Some((_, sender)) = queue {
        match sender.try_send(message) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}

fn deliver(messages: &Receiver<Message>) {
    finalization::park_when_finalized();
    while let Ok(message) = messages.recv() {
        match message {
            Message::Flush(done) => drop(done.send(())),
            Message::Record(record) => {
                // `None`: the interpreter is being finalized.
                let Some(()) = Python::try_attach(|py| {
                    if let Err(error) = log(py, &record) {
                        error.write_unraisable(py, None);
                    }
                }) else {
                    return;
                };
            }
        }
    }
}

/// Logs as the thread would have logged that sent the record.
fn log(py: Python<'_>, record: &Record) -> PyResult<()> {
    let Record { level, target, text, file, line, thread } = record;
    let target = target.replace("::", ".");
    let logger = py.import("logging")?.call_method1("getLogger", (&target,))?;
    if !logger.call_method1("isEnabledFor", (level,))?.is_truthy()? {
        return Ok(());
    }
    let no_exception = py.None();
    let made =
        logger.call_method1("makeRecord", (&target, level, file, line, "%s", (text,), no_exception))?;
    let thread = match thread.as_deref() {
        Some("main") => "MainThread",
        Some(name) => name,
        None => "unknown",
    };
    made.setattr("threadName", thread)?;
    logger.call_method1("handle", (made,))?;
    Ok(())
}

/// Returns Python's number for a level.
fn python_level(level: Level) -> u8 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG | Level::TRACE => 10,
    }
}

/// The subscriber for events. It ignores spans, which the crates do not use.
struct ToPython;

impl Subscriber for ToPython {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::DEBUG && metadata.target().starts_with(TARGET_PREFIX)
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let target = event.metadata().target();
        // Users configure the logger `relive`; each crate's logger is a child of it.
        let target = match target {
            target if target.split("::").next() == Some("relive") => "relive".to_owned(),
            crate_path => format!("relive.{}", crate_path.trim_start_matches("relive_")),
        };
        let (level, text) = (*event.metadata().level(), format!("{}{}", text.message, text.fields));
        if level <= Level::INFO {
            LINES.push(&format!("{level} {target}: {text}"));
        }
        let (file, line) = (event.metadata().file().unwrap_or(""), event.metadata().line().unwrap_or(0));
        let thread = std::thread::current().name().map(str::to_owned);
        send(Message::Record(Record { level: python_level(level), target, text, file, line, thread }));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// An event as text: the message, followed by the fields as `name=value`.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
