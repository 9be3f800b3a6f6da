//! Threads that others go before.

/// How much nicer the thread of a checkpoint is than others: beside one of them that wants the same processor it gets a
/// tenth of it, and all that nobody wants. Much less would make checkpoints so slow on a busy machine that the memory
/// of items which leave meanwhile, and stay for the checkpoint, matters more.
#[cfg(target_os = "linux")]
const NICER: i32 = 10;

/// The nicest that a thread can be.
#[cfg(target_os = "linux")]
const NICEST: i32 = 19;

/// Lowers the priority of the calling thread for good, where the system has priorities for threads.
pub(crate) fn lower() {
    // Linux understands "this process" as the calling thread.
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        let lowered = getpriority_process(None)
            .and_then(|nice| setpriority_process(None, nice.saturating_add(NICER).min(NICEST)));
        if let Err(error) = lowered {
            tracing::debug!(%error, "the checkpoint's thread keeps its priority");
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_the_calling_thread_becomes_nicer() {
        let nice = || rustix::process::getpriority_process(None).expect("a thread has a priority");
        let before = nice();
        let lowered = std::thread::spawn(move || {
            lower();
            nice()
        });
        assert_eq!(lowered.join().expect("it does not panic"), (before + NICER).min(NICEST));
        assert_eq!(nice(), before);
    }
}
