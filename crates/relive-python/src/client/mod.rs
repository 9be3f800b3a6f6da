//! The class `Client`: a connection that is opened when it is needed, and the calls over it.

mod calls;
mod choices;
mod connecting;
mod rules;
mod status;

pub(crate) use connecting::Client;
