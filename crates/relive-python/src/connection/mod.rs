//! Where servers are, in this process or elsewhere, and what proves who may connect.

pub(crate) mod address;
pub(crate) mod in_process;
pub(crate) mod security;
