//! The backends of a client: one server, many servers used as one, or the tables in this process.
//!
//! Servers are independent of each other; this crate combines them. A [`Fleet`] is the set. Each [`Member`] has a task
//! that watches it (`watch`), and each name has a task that looks for servers that join and leave (`resolve`). Writers
//! are assigned a server for each of their streams ([`Assignment`]); readers draw one for each sample
//! (`relive-reader`). Calls are made to the server that owns the key (`owners`) or to all servers (`ask`, `calls`), and
//! reports are combined (`merge`).
//!
//! Writers and readers use a [`Backend`], which is one of the three.
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
