//! The system's data about this process. Unavailable data is omitted.

use relive_engine::process_bytes;

/// Memory, time and descriptors of this process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Process {
    pub(super) resident_bytes: Option<u64>,
    /// The user time and system time of all threads.
    pub(super) cpu_seconds: Option<f64>,
    pub(super) open_files: Option<u64>,
    pub(super) max_files: Option<u64>,
}

pub(super) fn now() -> Process {
    let entries = std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    Process {
        resident_bytes: process_bytes(),
        cpu_seconds: cpu_seconds(),
        // The check itself opens one file, which is subtracted.
        open_files: entries.and_then(|count| u64::try_from(count.saturating_sub(1)).ok()),
        max_files: max_files(),
    }
}

#[cfg(target_os = "linux")]
fn cpu_seconds() -> Option<f64> {
    use rustix::time::{ClockId, clock_gettime};
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Some(used.tv_sec as f64 + used.tv_nsec as f64 / 1e9)
}

#[cfg(target_os = "linux")]
fn max_files() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current
}

#[cfg(not(target_os = "linux"))]
fn cpu_seconds() -> Option<f64> {
    None
}

#[cfg(not(target_os = "linux"))]
fn max_files() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_reports_every_resource() {
        let process = now();
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 100_000));
        assert!(process.cpu_seconds.is_some_and(|seconds| seconds > 0.0));
        assert!(process.open_files.is_some_and(|files| files >= 3) && process.open_files < process.max_files);
    }
}
