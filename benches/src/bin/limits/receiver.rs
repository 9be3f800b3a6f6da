//! Starts the receiving process.

use std::process::{Child, Command};

use relive_benches::Outcome;

/// The first argument on the receiver's command line.
pub(crate) const MARK: &str = "--receive";

/// A receiving process that is killed when this is dropped.
pub(crate) struct Receiver(Child);

impl Receiver {
    pub(crate) fn start(transport: &str, place: &str) -> Outcome<Self> {
        let program = std::env::current_exe()?;
        Ok(Self(Command::new(program).args([MARK, transport, place]).spawn()?))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
