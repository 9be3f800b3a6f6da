//! Tables in several shards: one name, backed by independent cores.
//!
//! An item's key determines its shard ([`placement`]). Inserts, updates and deletes lock only that shard. A batch of
//! samples first draws a shard for each sample by the weights that the shards publish after each change ([`weights`]),
//! and then takes each shard's samples under its lock ([`sample`]). Requests that find too few items wait in one queue
//! for all shards ([`waiting`]).
//!
//! A thread that holds the queue's lock may take the locks of shards, one after the other. A thread that holds a
//! shard's lock takes neither the queue's lock nor another shard's lock, except in code that takes all shards' locks in
//! order.

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
