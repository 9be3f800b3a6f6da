//! Who may do what.
//!
//! A listener is open to everybody with a [`Role`], or asks for a token, which has one. A call needs a role; the higher
//! ones may do what the lower ones may.

mod check;
mod line;
mod role;
mod tokens;

pub use check::Access;
pub use line::{TokenLineError, token_line};
pub use role::{Role, UnknownRole};
pub use tokens::{Tokens, TokensError};
