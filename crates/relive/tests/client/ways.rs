//! Tests the transports to a server, and batches in the server's own memory.

use std::time::Duration;

use relive::{
    BatchOptions, BatchSampler, ErrorKind, SampleBatch, SelectorKind, TableConfig, Transport, TransportChoice,
};

use crate::common::{LONG, Proxy, TestServer, WAYS, client, client_by, leaf, values};

fn fifo() -> TableConfig {
    TableConfig::new("t").sampler(SelectorKind::Fifo).max_times_sampled(1)
}

async fn start(table: TableConfig, items: i64) -> TestServer {
    let server = TestServer::start([table]).await;
    for item in 0..items {
        server.client_in_process().insert(&leaf(item), &[("t", 1.0)]).await.unwrap();
    }
    server
}

async fn next(batches: &mut BatchSampler) -> SampleBatch {
    batches.next_within(Some(LONG)).await.expect("no end yet").unwrap()
}

fn column(batch: &SampleBatch) -> Vec<i64> {
    let memory = batch.column_memory(0).expect("the server has put it together");
    memory.bytes().as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
}

#[tokio::test]
async fn the_fastest_transport_is_negotiated_and_others_can_be_chosen() {
    let server = start(fifo(), 0).await;
    let auto = client(server.address, LONG);
    assert_eq!(auto.transport(), Transport::Tcp, "nobody was asked");
    assert_eq!(auto.negotiate().await.unwrap(), Transport::SharedMemory);
    assert_eq!(auto.transport(), Transport::SharedMemory);
    for (choice, way) in WAYS.into_iter().zip([Transport::Tcp, Transport::Unix, Transport::SharedMemory]) {
        assert_eq!(client_by(choice, server.address, LONG).negotiate().await.unwrap(), way);
    }
    assert_eq!(server.client_in_process().negotiate().await.unwrap(), Transport::InProcess);
}

#[tokio::test]
async fn negotiating_with_a_stopped_server_fails() {
    let server = start(fifo(), 0).await;
    let address = server.address;
    server.stop().await;
    let error = client(address, LONG).negotiate().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn batches_are_read_in_place_from_shared_memory() {
    let server = start(TableConfig::new("t"), 3).await;
    for (choice, is_shared) in WAYS.into_iter().zip([false, false, true]) {
        let client = client_by(choice, server.address, LONG);
        let mut batches = client.batches("t", BatchOptions::new(50)).unwrap();
        let batch = next(&mut batches).await;
        let memory = batch.column_memory(0).unwrap();
        assert_eq!((memory.is_shared(), memory.len()), (is_shared, 50 * 8), "{choice:?}");
        assert_eq!(memory.as_mut_ptr().addr() % 64, 0);
        assert_eq!(column(&batch), values(batch.samples()).concat());
        assert!(column(&batch).iter().all(|value| (0..3).contains(value)));
        assert!(batch.infos().all(|info| info.table_size == 3 && info.priority == 1.0));
    }
}

#[tokio::test]
async fn a_retained_batch_does_not_change() {
    let server = start(fifo(), 3_000).await;
    for choice in WAYS {
        let client = client_by(choice, server.address, LONG);
        let options = BatchOptions::new(10).prefetch(3).max_batches(100);
        let mut batches = client.batches("t", options).unwrap();
        let mut kept = Vec::new();
        while let Some(batch) = batches.next().await {
            kept.push(batch.unwrap());
        }
        let all: Vec<i64> = kept.iter().flat_map(column).collect();
        let first = all[0];
        assert_eq!(all, (first..first + 1_000).collect::<Vec<_>>(), "{choice:?}");
        // The memory of a column outlives its batch, its sampler and its client.
        let memory = kept.swap_remove(0).column_memory(0).unwrap();
        drop((kept, batches, client));
        assert_eq!(memory.bytes()[..8], first.to_le_bytes());
    }
}

#[tokio::test]
async fn batch_memory_is_reused() {
    let server = start(TableConfig::new("t"), 3).await;
    let client = client_by(TransportChoice::SharedMemory, server.address, LONG);
    let mut batches = client.batches("t", BatchOptions::new(10).prefetch(2)).unwrap();
    let mut places = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let batch = next(&mut batches).await;
        places.insert(batch.column_memory(0).unwrap().as_mut_ptr().addr());
    }
    assert!(places.len() <= 8, "{} pieces for batches of which three are there at once", places.len());
}

#[tokio::test]
async fn cut_connections_are_reopened() {
    let server = start(TableConfig::new("t"), 1).await;
    let proxy = Proxy::start(server.address).await;
    let mut batches = proxy.client().batches("t", BatchOptions::new(5).max_batches(60)).unwrap();
    let mut come = 0;
    while let Some(batch) = batches.next().await {
        assert_eq!(column(&batch.unwrap()), [0; 5]);
        come += 1;
        if come % 20 == 10 {
            proxy.cut();
        }
    }
    assert_eq!(come, 60);
}

#[tokio::test]
async fn batches_continue_with_a_new_server_at_the_same_address() {
    for choice in WAYS {
        let server = start(TableConfig::new("t"), 1).await;
        let address = server.address;
        let mut batches =
            client_by(choice, address, LONG).batches("t", BatchOptions::new(2).prefetch(1)).unwrap();
        let kept = next(&mut batches).await;
        server.stop().await;
        let server = TestServer::start_at(address, [TableConfig::new("t")]).await;
        server.client_in_process().insert(&leaf(9_i64), &[("t", 1.0)]).await.unwrap();
        while column(&next(&mut batches).await) != [9, 9] {}
        assert_eq!(column(&kept), [0, 0], "{choice:?}");
    }
}

#[tokio::test]
async fn a_missing_table_is_reported() {
    let server = start(fifo(), 0).await;
    for choice in WAYS {
        let client = client_by(choice, server.address, LONG);
        let mut batches = client.batches("nowhere", BatchOptions::new(2)).unwrap();
        let error = batches.next().await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{choice:?}: {error}");
        assert!(error.to_string().contains("nowhere"), "{error}");
    }
}

#[tokio::test]
async fn many_small_prefetched_batches_block_neither_side() {
    let server = start(TableConfig::new("t"), 3).await;
    for choice in WAYS {
        let client = client_by(choice, server.address, LONG);
        let mut batches = client.batches("t", BatchOptions::new(1).prefetch(5_000)).unwrap();
        for _ in 0..20_000 {
            next(&mut batches).await;
        }
    }
}

#[tokio::test]
async fn a_reader_created_before_its_server_uses_the_fastest_transport() {
    for choice in WAYS {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let client = client_by(choice, address, LONG);
        let mut batches = client.batches("t", BatchOptions::new(2)).unwrap();
        assert!(batches.next_within(Some(Duration::from_millis(30))).await.unwrap().is_err());
        let server = TestServer::start_at(address, [TableConfig::new("t")]).await;
        server.client_in_process().insert(&leaf(3_i64), &[("t", 1.0)]).await.unwrap();
        assert_eq!(column(&next(&mut batches).await), [3, 3], "{choice:?}");
    }
}
