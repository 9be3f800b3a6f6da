//! The ways to a server, and batches whose memory is the server's own.

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
async fn the_fastest_way_is_found_and_others_can_be_asked_for() {
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
async fn a_server_that_is_away_is_not_negotiated_with() {
    let server = start(fifo(), 0).await;
    let address = server.address;
    server.stop().await;
    let error = client(address, LONG).negotiate().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn batches_lie_where_the_server_has_put_them() {
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
async fn a_batch_that_is_kept_stays_as_it_is() {
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
        // What a column keeps outlives its batch, its sampler and its client.
        let memory = kept.swap_remove(0).column_memory(0).unwrap();
        drop((kept, batches, client));
        assert_eq!(memory.bytes()[..8], first.to_le_bytes());
    }
}

#[tokio::test]
async fn memory_is_used_again() {
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
async fn cut_connections_are_opened_again() {
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
async fn a_new_server_at_the_address_goes_on() {
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
async fn a_table_that_is_not_there_is_told() {
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
async fn many_small_batches_ahead_block_neither_side() {
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
async fn a_reader_that_was_there_before_its_server_has_its_way_all_the_same() {
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
