//! Addresses of servers, in this process or elsewhere, and the credentials of connections.

pub(crate) mod address;
pub(crate) mod in_process;
pub(crate) mod security;
