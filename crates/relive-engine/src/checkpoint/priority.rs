//! Threads of low priority.

/// The nice value that a checkpoint thread adds. If another thread competes for its processor, it gets a tenth of the
/// time; otherwise it gets all of it. A much higher value would slow checkpoints down so far on a busy machine that the
/// memory of items removed meanwhile, which the checkpoint retains, would matter more.
#[cfg(target_os = "linux")]
const NICER: i32 = 10;

/// The highest nice value.
#[cfg(target_os = "linux")]
const NICEST: i32 = 19;

/// Permanently lowers the priority of the calling thread, if the system supports thread priorities.
pub(crate) fn lower() {
    // Linux interprets "this process" as the calling thread.
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        let lowered = getpriority_process(None)
            .and_then(|nice| setpriority_process(None, nice.saturating_add(NICER).min(NICEST)));
        if let Err(error) = lowered {
            tracing::debug!(%error, "cannot lower the priority of the checkpoint's thread");
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
