//! The class `Client`: a connection that is made when needed, and the calls over it.

mod calls;
mod choices;
mod connecting;
mod rules;
mod status;

pub(crate) use connecting::Client;
