//! The machine that this is.

/// Its name, as `hostname` prints it.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
