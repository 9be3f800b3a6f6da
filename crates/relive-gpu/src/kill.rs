//! Points at which tests kill the process, to show that the state it leaves behind does no harm.

/// Kills the process here, as `kill -9` would, if a test requests it through the environment variable `RELIVE_KILL_AT`.
/// Does nothing outside tests.
macro_rules! kill_point {
    ($name:literal) => {
        #[cfg(test)]
        $crate::kill::here($name);
    };
}

pub(crate) use kill_point;

/// See [`kill_point`].
#[cfg(test)]
pub(crate) fn here(name: &str) {
    if std::env::var("RELIVE_KILL_AT").is_ok_and(|asked| asked == name) {
        let process = rustix::process::getpid();
        rustix::process::kill_process(process, rustix::process::Signal::KILL).expect("ends this process");
        // The signal arrives before the call returns, or soon after.
        loop {
            std::thread::yield_now();
        }
    }
}
