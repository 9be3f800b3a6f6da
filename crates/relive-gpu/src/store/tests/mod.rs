//! The store against a naive model, and properties that need threads, files and other mappings.

mod against_model;
mod damage;
mod mappings;
mod model;
mod ranks;
mod refusals;
mod threads;
mod weights;

use relive_tensor::DType;

use crate::schema::{Column, Schema};
use crate::store::{Inserted, Removal, Store, StoreOptions};

const CAPACITY: u64 = 5;

fn schema() -> Schema {
    Schema::new(4, vec![Column::new("a", DType::UInt8, &[3]), Column::new("b", DType::Int64, &[])]).unwrap()
}

fn options(removal: Removal) -> StoreOptions {
    StoreOptions { removal, touch_threads: 0, readers: 3, writers: 1, ..StoreOptions::new(CAPACITY) }
}

fn insert(store: &Store, byte: u8, weight: f32) -> Inserted {
    store.insert(&[&[byte; 6], &[byte; 16]], 2, weight).unwrap()
}
