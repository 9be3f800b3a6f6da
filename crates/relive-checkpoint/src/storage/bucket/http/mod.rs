//! HTTP for the services' clients: TLS with the system's certificates, proxies, and a time limit per request.

mod connector;
mod failure;
mod route;

pub(super) use connector::Connector;
