//! Threads of low priority.

/// The increment of a checkpoint thread's nice value. If another thread competes for the processor, the checkpoint
/// thread gets a tenth of the time; otherwise, it gets all of it. On a busy machine, a much higher value would slow
/// down checkpoints so much that the greater cost would be the memory of removed items that are retained for the
/// checkpoint.
#[cfg(target_os = "linux")]
const NICE_INCREMENT: i32 = 10;

/// The highest nice value.
#[cfg(target_os = "linux")]
const MAX_NICE: i32 = 19;

/// Permanently lowers the priority of the calling thread, if the system supports thread priorities.
pub(crate) fn lower() {
    // Linux applies the nice value to the calling thread only.
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        let lowered = getpriority_process(None)
            .and_then(|nice| setpriority_process(None, nice.saturating_add(NICE_INCREMENT).min(MAX_NICE)));
        if let Err(error) = lowered {
            tracing::debug!(%error, "cannot lower the priority of the checkpoint's thread");
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_the_calling_thread_is_reniced() {
        let nice = || rustix::process::getpriority_process(None).expect("a thread has a priority");
        let before = nice();
        let lowered = std::thread::spawn(move || {
            lower();
            nice()
        });
        assert_eq!(lowered.join().expect("it does not panic"), (before + NICE_INCREMENT).min(MAX_NICE));
        assert_eq!(nice(), before);
    }
}
