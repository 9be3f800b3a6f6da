//! The memory used by this process.

/// Returns the resident set size of this process in bytes on Linux, and `None` on other systems.
///
/// In addition to chunks, this includes the tables' indexes, items, connections, code, and memory that the allocator
/// retains.
#[must_use]
pub fn process_bytes() -> Option<u64> {
    resident_set(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// The line has the form `VmRSS:      1234 kB`, where kB means KiB.
fn resident_set(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resident_set_size_is_parsed() {
        let status = "Name:\trelive\nVmHWM:\t    9999 kB\nVmRSS:\t    1234 kB\nRssAnon:\t 1 kB\n";
        assert_eq!(resident_set(status), Some(1234 * 1024));
        assert_eq!(resident_set("Name: relive"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory() {
        assert!(process_bytes().is_some_and(|bytes| bytes > 100_000));
    }
}
