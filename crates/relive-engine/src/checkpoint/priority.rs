//! Threads that others go before.

/// How nice the thread of a checkpoint is: beside a thread of ordinary priority that wants the same processor it gets a tenth
/// of it, and all that others leave.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Lowers the priority of the calling thread for good, where the system has priorities for threads.
pub(super) fn lower() {
    // Linux understands "this process" as the calling thread.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "the checkpoint's thread keeps its priority");
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_the_calling_thread_becomes_nice() {
        let nice = || rustix::process::getpriority_process(None).expect("a thread has a priority");
        let before = nice();
        let lowered = std::thread::spawn(move || {
            lower();
            nice()
        });
        assert_eq!(lowered.join().expect("it does not panic"), NICE.max(before));
        assert_eq!(nice(), before);
    }
}
