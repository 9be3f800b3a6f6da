//! Tables in several shards: one name, and behind it cores that do not know of each other.
//!
//! An item lies in the shard that its key says ([`placement`]). Inserts, updates and deletes go to that shard and take
//! nothing but its lock. A batch of samples draws for each sample the shard, by the weights that the shards tell after
//! each change ([`weights`]), and then takes each shard's part under its lock ([`sample`]). Requests that find too few
//! items wait in one queue for all shards ([`waiting`]).
//!
//! Who holds the lock of the queue may take locks of shards, one after the other; who holds the lock of a shard takes
//! neither the queue's nor another shard's, but for those who take all of them in their order.

mod insert;
mod listing;
mod mutate;
mod placement;
mod queue;
mod restore;
mod sample;
mod sharded;
mod status;
mod waiting;
mod weights;

pub(crate) use sharded::ShardedTable;
