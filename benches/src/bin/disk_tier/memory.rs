//! Resident memory of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use relive_benches::Outcome;

pub(crate) fn resident_bytes() -> Outcome<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split_whitespace().nth(1).ok_or("a second number in statm")?.parse()?;
    Ok(pages * 4096)
}

/// Reads the memory use continuously, to find its maximum.
pub(crate) struct Watch {
    peak: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Watch {
    pub(crate) fn begin() -> Self {
        let (peak, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let thread = std::thread::spawn({
            let (peak, is_over) = (Arc::clone(&peak), Arc::clone(&is_over));
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    peak.fetch_max(resident_bytes().unwrap_or(0), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        });
        Self { peak, is_over, thread }
    }

    pub(crate) fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it only reads");
        self.peak.load(Ordering::Relaxed)
    }
}
