//! Streams, and points in them.

use std::time::Duration;

use super::device::{Device, PATIENCE};
use super::driver::{Event, Stream};
use crate::{ErrorKind, Result};

/// A point in a stream, for which other streams and the host can wait.
#[derive(Debug)]
pub struct DeviceEvent {
    device: Device,
    event: Event,
}

impl DeviceEvent {
    /// Creates an event that counts as passed until it is recorded.
    ///
    /// # Errors
    /// The device fails.
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self { device: device.clone(), event: device.driver().event()? })
    }

    /// Records the event at the current end of a stream.
    ///
    /// # Errors
    /// The device fails.
    pub fn record(&self, stream: Stream) -> Result<()> {
        self.device.driver().record(self.event, stream)
    }

    /// Makes later work of a stream wait until the event has passed.
    ///
    /// # Errors
    /// The device fails.
    pub fn hold_back(&self, stream: Stream) -> Result<()> {
        self.device.driver().wait(stream, self.event)
    }

    /// Waits on the host until the event has passed, for at most a minute.
    ///
    /// # Errors
    /// Earlier work failed, or did not finish in time.
    pub fn finish(&self) -> Result<()> {
        self.device.driver().finish(self.event, PATIENCE)
    }

    /// Returns whether the event has passed.
    ///
    /// # Errors
    /// Earlier work failed.
    pub fn has_passed(&self) -> Result<bool> {
        match self.device.driver().finish(self.event, Duration::ZERO) {
            Err(error) if error.kind() == ErrorKind::Unavailable => Ok(false),
            passed => passed.map(|()| true),
        }
    }

    /// Waits on the host until the device no longer works on what precedes the event, however long this takes. Returns
    /// whether the device completed it.
    pub(super) fn wait_for_end(&self) -> bool {
        while let Err(error) = self.finish() {
            // Any error other than `Unavailable` means that the device has failed and no longer works on anything.
            if error.kind() != ErrorKind::Unavailable {
                return false;
            }
        }
        true
    }
}

impl Drop for DeviceEvent {
    fn drop(&mut self) {
        // SAFETY: no other code has the event; a driver keeps what its streams still need. On failure it leaks.
        drop(unsafe { self.device.driver().end_event(self.event) });
    }
}

/// A stream that this value owns. Work in the stream continues after the value has been dropped.
#[derive(Debug)]
pub struct DeviceStream {
    device: Device,
    stream: Stream,
}

impl DeviceStream {
    /// Creates a stream that does not wait for the default one.
    ///
    /// # Errors
    /// The device fails.
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self { device: device.clone(), stream: device.driver().stream()? })
    }

    /// Returns the stream's handle.
    #[must_use]
    pub fn handle(&self) -> Stream {
        self.stream
    }
}

impl Drop for DeviceStream {
    fn drop(&mut self) {
        // SAFETY: the owner of the handle has ended. A driver completes the work first; on failure the stream leaks.
        drop(unsafe { self.device.driver().end_stream(self.stream) });
    }
}
