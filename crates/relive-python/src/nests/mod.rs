//! Nests of Python containers: their values, structure and signature. The columns of future items are here because they
//! are leaves of nests.

pub(crate) mod column;
pub(crate) mod nest;
pub(crate) mod place;
pub(crate) mod record;
pub(crate) mod signature;
pub(crate) mod structure;
