//! Tests changes to tables that are in use, over the network and in process.

use relive::{
    DType, ErrorKind, Nest, SourceColumn, StructuredConfig, TableChange, TableConfig, Tensor, TensorSpec,
    TrajectoryWriterOptions,
};

use crate::common::{LONG, TestServer, leaf};
use crate::place::Place;

async fn start() -> TestServer {
    TestServer::start([TableConfig::new("replay"), TableConfig::queue("queue", 3)]).await
}

#[tokio::test]
async fn a_change_takes_effect_and_is_logged_with_its_author() {
    let server = start().await;
    for client in [server.client(), server.client_in_process()] {
        client.reset("replay").await.unwrap();
        for item in 0..10_i64 {
            client.insert(&leaf(item), &[("replay", 1.0)]).await.unwrap();
        }
        let change = TableChange::new().max_size(4).max_bytes(1_000).max_times_sampled(2);
        let changed = client.change_table("replay", change).await.unwrap();
        let actual: Vec<_> = changed.changes.iter().map(|it| (it.what.as_str(), it.new.as_str())).collect();
        assert_eq!(actual, [("max_size", "4"), ("max_bytes", "1000"), ("max_times_sampled", "2")]);
        assert_eq!(changed.evicted, 6);
        let status = client.status().await.unwrap();
        let config = &status.table("replay").unwrap().info.config;
        assert_eq!((config.max_size, config.max_bytes, config.max_times_sampled), (4, Some(1_000), 2));
        assert!(status.changes.ends_with(&changed.changes), "{:?}", status.changes);
        let back = TableChange::new().max_size(1_000_000).max_bytes(None).max_times_sampled(0);
        client.change_table("replay", back).await.unwrap();
    }
    let who: Vec<_> = server.engine().changes().into_iter().map(|change| change.who).collect();
    assert!(who.first().unwrap().starts_with("127.0.0.1:"), "{who:?}");
    assert_eq!(who.last(), Some(&format!("process {}", std::process::id())));
}

#[tokio::test]
async fn paused_calls_wait_and_report_it() {
    let server = start().await;
    for client in server.every_client() {
        client.insert(&leaf(1_i64), &[("replay", 1.0)]).await.unwrap();
        client.pause_table("replay", false, true).await.unwrap();
        let sampling = client.clone();
        let sample = tokio::spawn(async move { sampling.sample("replay", 1).await });
        let waits = loop {
            let status = client.status().await.unwrap();
            let table = status.table("replay").unwrap();
            assert_eq!((table.paused.inserts, table.paused.samples), (false, true));
            if let Some(waiter) = table.waiters.first() {
                break waiter.reason.clone();
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(waits, "waits until the table's samples are resumed: an operator has paused them");
        client.insert(&leaf(2_i64), &[("replay", 1.0)]).await.unwrap();
        let resumed = client.resume_table("replay", true, true).await.unwrap();
        assert_eq!(resumed.changes.len(), 1, "inserts were not paused");
        assert_eq!(sample.await.unwrap().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn tables_can_be_added_and_dropped() {
    let server = start().await;
    for client in [server.client(), server.client_in_process()] {
        let before = client.server_info().await.unwrap();
        client.add_table(TableConfig::queue("new", 5)).await.unwrap();
        let info = client.server_info().await.unwrap();
        assert_ne!(info.state_id, before.state_id, "clients know that what they know has changed");
        assert_eq!(info.tables.len(), 3);
        client.insert(&leaf(1_i64), &[("new", 1.0)]).await.unwrap();
        let twice = client.add_table(TableConfig::queue("new", 5)).await.unwrap_err();
        assert_eq!(twice.kind(), ErrorKind::InvalidArgument);
        assert!(twice.to_string().contains("table `new` already exists"), "{twice}");
        let waiting = client.clone();
        let waiter = tokio::spawn(async move { waiting.sample("new", 1).await });
        assert_eq!(waiter.await.unwrap().unwrap().len(), 1);
        let waiting = client.clone();
        let waiter = tokio::spawn(async move { waiting.sample("new", 1).await });
        while client.status().await.unwrap().table("new").unwrap().waiters.is_empty() {
            tokio::task::yield_now().await;
        }
        client.drop_table("new").await.unwrap();
        let gone = waiter.await.unwrap().unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
        assert!(gone.to_string().contains("was dropped by an operator"), "{gone}");
        assert_eq!(client.drop_table("new").await.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn a_table_that_is_added_again_has_its_own_signature() {
    let of = |size| {
        let spec = TensorSpec::new("x", DType::Int64, Some(vec![Some(size)]));
        TableConfig::new("u").signature(Nest::Leaf(spec))
    };
    let step = |size: u32| Nest::Leaf(Tensor::from_slice(&vec![1_i64; size as usize], [size]).unwrap());
    let server = start().await;
    for client in [server.client(), server.client_in_process()] {
        for size in [2, 3] {
            client.add_table(of(size)).await.unwrap();
            client.insert(&step(size), &[("u", 1.0)]).await.unwrap();
            let error = client.insert(&step(5 - size), &[("u", 1.0)]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            client.drop_table("u").await.unwrap();
        }
    }
}

/// The writers' items have two rows in a column with the name x.
#[tokio::test]
async fn a_writer_compares_its_items_with_a_table_that_is_added_again() {
    let table = |name, rows| {
        let spec = TensorSpec::new(name, DType::Int64, Some(vec![Some(rows)]));
        TableConfig::new("u").signature(Nest::dict([(name, spec)]))
    };
    let pattern = Nest::dict([("x", SourceColumn::at(0).slice(-2..).unwrap())]);
    for Place { client, engine, .. } in &Place::every(&[TableConfig::new("t")]).await {
        let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(2)).unwrap();
        let patterns = vec![StructuredConfig::new("u", pattern.clone())];
        let mut structured = client.structured_writer(patterns).unwrap();
        for (name, rows, fits) in [("x", 2, true), ("x", 3, false), ("y", 2, false), ("x", 2, true)] {
            client.add_table(table(name, rows)).await.unwrap();
            for value in 0..2_i64 {
                writer.append(&leaf(value)).unwrap();
            }
            let column = writer.history().column_at(0).unwrap().slice(-2..).unwrap();
            let created = writer.create_item("u", 1.0, Nest::dict([("x", column)])).await;
            assert_eq!(created.is_ok(), fits, "{name}, {rows}: {created:?}");
            writer.flush(LONG).await.unwrap();
            // The first step of a history has no items yet.
            let _ = structured.append(&leaf(0_i64)).await;
            let appended = structured.append(&leaf(1_i64)).await;
            assert_eq!(appended.is_ok(), fits, "{name}, {rows}: {appended:?}");
            structured.flush(LONG).await.unwrap();
            assert_eq!(engine.table("u").unwrap().info().current_size > 1, fits);
            client.drop_table("u").await.unwrap();
        }
    }
}

#[tokio::test]
async fn invalid_changes_are_refused_without_effect() {
    let server = start().await;
    for client in [server.client(), server.client_in_process()] {
        let nothing = client.change_table("replay", TableChange::new()).await.unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::InvalidArgument);
        let bad = TableChange { samples_per_insert: Some(0.0), ..TableChange::new().max_size(5) };
        let bad = client.change_table("replay", bad).await.unwrap_err();
        assert!(bad.to_string().contains("samples_per_insert must be a finite number above 0"), "{bad}");
        let unknown = client.change_table("none", TableChange::new().max_size(5)).await.unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::NotFound);
        let invalid = client.add_table(TableConfig::new("x").max_size(0)).await.unwrap_err();
        assert_eq!(invalid.kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(server.engine().changes(), []);
}
