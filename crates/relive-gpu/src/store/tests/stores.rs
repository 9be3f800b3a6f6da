//! A small store, and what is in it.

use relive_tensor::DType;

use crate::schema::{Column, Schema};
use crate::store::{Inserted, Removal, Store, StoreOptions};

pub(super) const CAPACITY: u64 = 5;

pub(super) fn schema() -> Schema {
    Schema::new(4, vec![Column::new("a", DType::UInt8, &[3]), Column::new("b", DType::Int64, &[])]).unwrap()
}

pub(super) fn options(removal: Removal) -> StoreOptions {
    StoreOptions { removal, touch_threads: 0, readers: 3, writers: 1, ..StoreOptions::new(CAPACITY) }
}

pub(super) fn insert(store: &Store, byte: u8, weight: f32) -> Inserted {
    store.insert(&[&[byte; 6], &[byte; 16]], 2, weight).unwrap()
}
