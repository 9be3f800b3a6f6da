//! What a client uses: one server, many servers as if they were one, or the tables of this process.
//!
//! Servers do not know of each other: all that makes them one is here. A [`Fleet`] is the set, in which each
//! [`Member`] has a task that watches it (`watch`) and each name one that looks for servers that come and go
//! (`resolve`). Writers get a server for each of their streams ([`Assignment`]); readers draw one for each sample
//! (`relive-reader`). Calls go to the server that owns the key (`owners`) or to all (`ask`, `calls`), and what
//! servers say of themselves is added up (`merge`).
//!
//! [`Backend`] is what writers and readers get, whichever of the three it is.
#![forbid(unsafe_code)]

mod address;
mod ask;
mod assignment;
mod backend;
mod calls;
mod changes;
mod fleet;
mod health;
mod member;
mod merge;
mod owners;
mod resolve;
mod signatures;
mod watch;

pub use ask::{Answers, Call, PartialFailure};
pub use assignment::Assignment;
pub use backend::{Backend, Target};
pub use changes::{ServerChange, ServerEvent, ServerStanding, ServerState};
pub use fleet::Fleet;
pub use member::{Member, TableFacts};
pub use owners::MemberNumber;
pub use signatures::TableSignature;
