//! The roles of clients.

use std::fmt;
use std::str::FromStr;

/// The permissions of a client. Each role includes the ones listed before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Sample, and list tables and items.
    Read,
    /// Insert, set priorities, delete items.
    Write,
    /// Reset and change tables, write checkpoints.
    Admin,
}

/// An unknown role name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a role; the roles are read, write and admin")]
pub struct UnknownRole(pub String);

impl Role {
    /// Returns the name of the role.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(name: &str) -> Result<Self, UnknownRole> {
        [Self::Read, Self::Write, Self::Admin]
            .into_iter()
            .find(|role| role.name() == name)
            .ok_or_else(|| UnknownRole(name.to_owned()))
    }
}
