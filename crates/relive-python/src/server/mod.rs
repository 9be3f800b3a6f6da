//! The class `Server`: tables served by this process, and the settings of its checkpoints.

mod checkpoints;
mod running;

pub(crate) use running::Server;
