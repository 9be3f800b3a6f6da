//! Readers of the stores of several ranks.

use relive_tensor::DType;

use super::{options, schema};
use crate::collect::{CollectOptions, Collector, Window};
use crate::error::ErrorKind;
use crate::schema::{Column, Schema};
use crate::store::{Reader, Removal, Store, StoreOptions};

/// Returns the stores of three ranks, each with one trajectory, which has its rank as its bytes.
fn ranks() -> Vec<Store> {
    let store = |rank| {
        let options = StoreOptions { rank, ranks: 3, ..options(Removal::Fifo) };
        let store = Store::create(schema(), options).unwrap();
        let byte = u8::try_from(rank).unwrap();
        store.insert(&[&[byte; 3], &[byte; 8]], 1, 1.0).unwrap();
        store
    };
    (0..3).map(store).collect()
}

#[test]
fn a_reader_of_all_ranks_pins_in_the_owning_store() {
    let stores = ranks();
    let readers: Vec<Reader> = stores.iter().rev().map(|store| store.reader().clone()).collect();
    let all = stores[1].reader().of_ranks(&readers, &[]).unwrap();
    let pinned = all.pin(&[10, 0, 5, 0]).unwrap();
    let bytes: Vec<u8> = (0..4).map(|row| pinned.bytes(row, 0).unwrap()[0]).collect();
    assert_eq!(bytes, [2, 0, 1, 0]);
    let pins =
        |stores: &[Store]| [0, 5, 10].map(|index| stores[index / 5].status(index as u64).unwrap().pins);
    assert_eq!(pins(&stores), [2, 1, 1]);
    drop(pinned);
    assert_eq!(pins(&stores), [0, 0, 0]);
    assert_eq!(all.pin(&[15]).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(stores[1].reader().pin(&[0]).unwrap_err().to_string().contains("belongs to rank 0"));
}

#[test]
fn a_batch_has_rows_of_all_ranks() {
    let stores = ranks();
    let readers: Vec<Reader> = stores.iter().map(|store| store.reader().clone()).collect();
    let all = stores[0].reader().of_ranks(&readers, &[]).unwrap();
    for sorted in [false, true] {
        let options = CollectOptions { sorted, ..CollectOptions::new(4) };
        let collector = Collector::new(&all, &[Window::new("b", 0, 2)], options).unwrap();
        let batch = collector.collect(&all.pin(&[5, 10, 0, 5]).unwrap(), &[0, 1, 0, 0]).unwrap();
        let firsts: Vec<u8> = batch.column(0).unwrap().bytes.chunks(16).map(|row| row[8]).collect();
        assert_eq!((firsts, batch.column(0).unwrap().valid), (vec![1, 0, 0, 1], &[1, 0, 1, 1][..]));
        // One rank's pins are not valid for the reader of all ranks.
        let error = collector.collect(&stores[0].pin(&[0]).unwrap(), &[0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
}

#[test]
fn incomplete_sets_of_ranks_are_refused() {
    let stores = ranks();
    let readers: Vec<Reader> = stores.iter().map(|store| store.reader().clone()).collect();
    let [first, second, _] = &readers[..] else { unreachable!("three were made") };
    let twice = [first.clone(), second.clone(), second.clone()];
    for (some, text) in
        [(&readers[..2], "the ranks of one index space"), (&twice[..], "the ranks of one index space")]
    {
        assert!(first.of_ranks(some, &[]).unwrap_err().to_string().contains(text));
    }
    let other = Schema::new(4, vec![Column::new("a", DType::UInt8, &[4])]).unwrap();
    let other = Store::create(other, StoreOptions { rank: 2, ranks: 3, ..options(Removal::Fifo) }).unwrap();
    let mixed = [first.clone(), second.clone(), other.reader().clone()];
    let error = first.of_ranks(&mixed, &[]).unwrap_err().to_string();
    assert!(error.contains("(a uint8[4])"), "{error}");
}
