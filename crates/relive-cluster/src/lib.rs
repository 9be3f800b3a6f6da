//! Programs on several machines: how their processes are started, and what travels between them.

pub mod launch;
