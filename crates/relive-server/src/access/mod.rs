//! Access control.
//!
//! A listener either gives every client a [`Role`], or requires a token that has a role. Each call requires a role;
//! a higher role includes all lower ones.

mod check;
mod line;
mod role;
mod tokens;

pub use check::Access;
pub use line::{TokenLineError, token_line};
pub use role::{Role, UnknownRole};
pub use tokens::{Tokens, TokensError};
