//! Waits without the interpreter: checks for signals, detects forks, and logs long waits.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use pyo3::prelude::*;
use relive_client::{Client, ErrorKind};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use super::finalization;
use super::lock::Brief;
use crate::error::{invalid, raise_kind};

/// The interval between runs of Python's signal handlers during a wait, which is the maximum delay of Ctrl-C.
const SLICE: Duration = Duration::from_millis(50);

/// The duration after which a wait is first logged; the time between messages doubles.
const FIRST_NOTICE: Duration = Duration::from_secs(5);

/// How long after the limit of a call an answer is still accepted.
const GRACE: Duration = Duration::from_millis(500);

/// The number of threads of the runtime: one can decode messages while the other is waiting for a socket.
const WORKER_THREADS: usize = 2;

/// The runtime of this process, with the process that owns it, because its threads do not survive a fork.
static RUNTIME: Brief<Option<(u32, Arc<Runtime>)>> = Brief::new(None);

/// Returns the runtime of this process, started on first use.
pub(crate) fn runtime() -> PyResult<Arc<Runtime>> {
    finalization::park_when_finalized();
    let process = std::process::id();
    let runtime = RUNTIME.with(|current| {
        if let Some((owner, runtime)) = current
            && *owner == process
        {
            return Ok(Arc::clone(runtime));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKER_THREADS)
            .thread_name("relive-client")
            .enable_all()
            .build()?;
        let runtime = Arc::new(runtime);
        // The parent's runtime has no threads here; dropping it would wait for them.
        std::mem::forget(current.replace((process, Arc::clone(&runtime))));
        Ok::<_, std::io::Error>(runtime)
    });
    Ok(runtime?)
}

/// Describes the condition that a call waits for; evaluated only when the wait is long.
pub(crate) type Reason<'a> = Pin<Box<dyn Future<Output = String> + Send + 'a>>;

/// Waits for `future` with the interpreter released.
///
/// # Errors
/// The exception that a signal handler raised, such as `KeyboardInterrupt`; the future is then dropped, which cancels
/// it.
pub(crate) fn wait<F>(py: Python<'_>, what: &str, future: F) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    wait_because(py, what, future, || Box::pin(std::future::ready(String::new())))
}

/// Waits like [`wait`], with a reason that is logged if the wait is long.
pub(crate) fn wait_because<'r, F>(
    py: Python<'_>,
    what: &str,
    future: F,
    reason: impl Fn() -> Reason<'r> + Sync,
) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let runtime = runtime()?;
    let mut wait_log = WaitLog::new(what);
    wait_in_slices(py, &runtime, future, || wait_log.log_if_due(py, &runtime, &reason))
}

/// Waits for a call that blocks its thread for one slice at a time. The server normally ends the call at its limit;
/// since an unreachable server cannot, the wait ends slightly after the limit.
pub(crate) fn wait_by<'r, T: Send>(
    py: Python<'_>,
    what: &str,
    limit: Option<Duration>,
    mut wait: impl FnMut(Duration) -> Option<T> + Send,
    reason: impl Fn() -> Reason<'r> + Sync,
) -> PyResult<T> {
    let runtime = runtime()?;
    let started = Instant::now();
    let mut wait_log = WaitLog::new(what);
    loop {
        if let Some(done) = py.detach(|| wait(SLICE)) {
            return Ok(done);
        }
        py.check_signals()?;
        if limit.is_some_and(|limit| started.elapsed() > limit.saturating_add(GRACE)) {
            let text = format!(
                "{what}: Deadline Exceeded: no answer from the server within {:?}",
                started.elapsed()
            );
            return Err(raise_kind(py, ErrorKind::Timeout, text));
        }
        wait_log.log_if_due(py, &runtime, &reason);
    }
}

/// Waits like [`wait`], but logs nothing; for long calls.
pub(crate) fn wait_quietly<F>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    wait_in_slices(py, &*runtime()?, future, || {})
}

fn wait_in_slices<F>(
    py: Python<'_>,
    runtime: &Runtime,
    future: F,
    mut between: impl FnMut(),
) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let mut future = pin!(future);
    loop {
        if let Some(output) = py.detach(|| park_on(runtime, future.as_mut(), SLICE)) {
            return Ok(output);
        }
        py.check_signals()?;
        between();
    }
}

/// Waits for `future` on this thread, up to a limit. The runtime's timers would wake another thread for each wait.
fn park_on<F: Future>(runtime: &Runtime, mut future: Pin<&mut F>, at_most: Duration) -> Option<F::Output> {
    let _inside = runtime.enter();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut context, until) = (Context::from_waker(&waker), std::time::Instant::now() + at_most);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        let left = until.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}

/// Wakes a waiting thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Logs a long wait.
pub(crate) struct WaitLog<'a> {
    what: &'a str,
    started: Instant,
    next: Duration,
}

impl<'a> WaitLog<'a> {
    pub(crate) fn new(what: &'a str) -> WaitLog<'a> {
        WaitLog { what, started: Instant::now(), next: FIRST_NOTICE }
    }

    fn log_if_due<'r>(&mut self, py: Python<'_>, runtime: &Runtime, reason: &impl Fn() -> Reason<'r>) {
        if let Some(waited) = self.due() {
            log_wait(py, runtime, self.what, waited, reason());
        }
    }

    /// Logs the wait with a reason that this process knows, if a message is due.
    pub(crate) fn tell_if_due(&mut self, reason: impl FnOnce() -> String) {
        if let Some(waited) = self.due() {
            tell(self.what, waited, &reason());
        }
    }

    /// Returns the duration to log, if a message is due.
    fn due(&mut self) -> Option<Duration> {
        let waited = self.next;
        let is_due = self.started.elapsed() >= waited;
        if is_due {
            self.next *= 2;
        }
        is_due.then_some(waited)
    }
}

fn log_wait(py: Python<'_>, runtime: &Runtime, what: &str, waited: Duration, reason: Reason<'_>) {
    let reason =
        py.detach(|| runtime.block_on(async { tokio::time::timeout(Duration::from_secs(1), reason).await }));
    let reason = reason.unwrap_or_else(|_| "the server does not answer".to_owned());
    tell(what, waited, &reason);
}

fn tell(what: &str, waited: Duration, reason: &str) {
    tracing::warn!(target: "relive", "{what} has been waiting for {} s: {reason}", waited.as_secs());
}

/// A limit longer than the life of any process, for calls without a timeout, as in dm-reverb.
pub(crate) const FOREVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Converts seconds to a duration; `None` and infinity mean forever.
pub(crate) fn seconds(timeout: Option<f64>) -> PyResult<Duration> {
    match timeout {
        None => Ok(FOREVER),
        Some(seconds) if seconds >= FOREVER.as_secs_f64() => Ok(FOREVER),
        Some(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| {
            invalid(format!(
                "timeout must be a number of seconds, at least 0, or None to wait forever, got {seconds}"
            ))
        }),
    }
}

/// Waits like [`wait_because`], but first polls once without releasing the interpreter; for calls that rarely wait.
pub(crate) fn now_or_wait<'r, F>(
    py: Python<'_>,
    what: &str,
    future: F,
    reason: impl Fn() -> Reason<'r> + Sync,
) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let mut future = pin!(future);
    match now(future.as_mut())? {
        Some(output) => Ok(output),
        None => wait_because(py, what, future, reason),
    }
}

/// Returns the output of `future` if it is ready.
fn now<F: Future>(future: F) -> PyResult<Option<F::Output>> {
    let runtime = runtime()?;
    let _inside = runtime.enter();
    let mut context = Context::from_waker(Waker::noop());
    Ok(match pin!(future).poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    })
}

/// An operation on a table that can wait.
#[derive(Clone, Copy)]
pub(crate) enum Operation {
    Insert,
    Sample,
}

/// Returns the condition that such operations on `table` wait for; the server is queried only if the wait is long.
pub(crate) fn reason_of<'r>(client: &Client, table: &str, operation: Operation) -> Reason<'r> {
    let (client, table) = (client.clone(), table.to_owned());
    Box::pin(async move {
        let reason = match (client.waits(&table).await, operation) {
            (Err(error), _) => {
                return format!("table {table:?}: cannot get the reason from the server ({error})");
            }
            (Ok(waits), Operation::Insert) => waits.insert,
            (Ok(waits), Operation::Sample) => waits.sample,
        };
        let reason = reason.unwrap_or_else(|| "its rate limiter would permit it now".to_owned());
        format!("table {table:?}: {reason}")
    })
}

/// Returns the condition that a flush waits for; its items may belong to any table.
pub(crate) fn unconfirmed<'r>() -> Reason<'r> {
    let text = "the server has not confirmed all items: it is unreachable, or a rate limiter blocks them; \
                client.status() shows what is waiting";
    Box::pin(std::future::ready(text.to_owned()))
}
