//! Collective operations of several processes in a ring, such as sums and means of their arrays.
//!
//! Each process is a *member* with a *rank*, counted from 0. Member 0 opens a [`Meeting`], the other members
//! [join](Ring::join) it, and all of them get a [`Ring`]. All members must make the same calls on the ring, in the same
//! order.
//!
//! ```
//! use relive_cluster::reduce::{Meeting, Reduction, Ring, RingOptions};
//!
//! let options = RingOptions { ranks: 2, ..RingOptions::default() };
//! let meeting = Meeting::open("127.0.0.1:0", options.clone())?;
//! let address = meeting.address().to_string();
//! let other = std::thread::spawn(move || {
//!     let ring = Ring::join(&address, 1, options)?;
//!     let mut gradient = [1.0, 5.0];
//!     ring.all_reduce(&mut gradient, Reduction::Mean)?;
//!     ring.leave();
//!     Ok::<_, relive_cluster::reduce::RingError>(gradient)
//! });
//! let ring = meeting.ring(|| Ok(()))?;
//! let mut gradient = [3.0, 7.0];
//! ring.all_reduce(&mut gradient, Reduction::Mean)?;
//! assert_eq!(gradient, [2.0, 6.0]);
//! assert_eq!(other.join().unwrap()?, gradient);
//! # Ok::<(), relive_cluster::reduce::RingError>(())
//! ```
//!
//! A sum of 32-bit floats depends on the order of its terms. The ranks determine this order, and each sum is computed
//! once and then copied, so all members get the same bits in every run.
//!
//! Every call ends. If a member dies or is suspended, all other members get an error that names it within
//! [`RingOptions::silence`]. They also get an error if a call makes no progress within [`RingOptions::timeout`], such as
//! when a live member does not join it. Arrays of different lengths, and members that belong to another job, are
//! rejected.

mod arrivals;
mod error;
mod greeting;
mod late_connections;
mod limits;
mod meeting;
mod message;
mod options;
mod ring;
mod schedule;
mod transfer;
mod watch;

pub use error::RingError;
pub use meeting::Meeting;
pub use options::RingOptions;
pub use ring::Ring;
pub use schedule::Reduction;
