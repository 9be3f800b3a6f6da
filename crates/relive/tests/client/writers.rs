//! Tests that writers behave the same for tables on a server and for tables in the same process.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::{LONG, dict, leaf};
use crate::place::Place;
use relive::{
    Condition, Error, ErrorKind, Nest, RateLimiterConfig, SelectorKind, Signature, SourceColumn,
    StructuredConfig, TableConfig, Tensor, TensorSpec, TrajectoryWriter, TrajectoryWriterOptions, Windows,
};

const SHORT: Duration = Duration::from_millis(300);

fn fifo(name: &str) -> TableConfig {
    TableConfig::new(name).sampler(SelectorKind::Fifo).max_times_sampled(1)
}

/// Returns a table that accepts one item and then waits for a sample.
fn narrow() -> TableConfig {
    fifo("t").rate_limiter(RateLimiterConfig {
        samples_per_insert: 1.0,
        min_size_to_sample: 1,
        min_diff: 0.0,
        max_diff: 1.0,
    })
}

async fn add(writer: &mut TrajectoryWriter, table: &str, value: i64) -> relive::Result<u64> {
    writer.append(&leaf(value))?;
    let newest = writer.history().column_at(0)?.slice(-1..)?;
    writer.create_item(table, 1.0, newest).await
}

fn closed(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert!(error.to_string().contains("TrajectoryWriter::Close has been called."), "{error}");
}

#[tokio::test]
async fn items_stay_in_order_while_chunks_are_unfinished() {
    for place in Place::every(&[fifo("a"), fifo("b")]).await {
        let options = TrajectoryWriterOptions::new(6).chunk_length(3);
        let mut writer = place.client.trajectory_writer(options).unwrap();
        for i in 0..20_i64 {
            writer.append(&leaf(i)).unwrap();
            let column = writer.history().column("").unwrap();
            let newest = column.step(-1).unwrap();
            // The oldest step's chunk is already complete; the item must not overtake waiting items.
            let oldest = column.step(i.max(4) - 4).unwrap();
            for table in ["a", "b"] {
                writer.create_item(table, 1.0, newest.clone()).await.unwrap();
                writer.create_item(table, 1.0, oldest.clone()).await.unwrap();
            }
        }
        writer.close().await.unwrap();
        let expected: Vec<Vec<i64>> = (0..20).flat_map(|i| [vec![i], vec![i.max(4) - 4]]).collect();
        for table in ["a", "b"] {
            assert_eq!(place.read_values(table, 40).await, expected);
        }
    }
}

#[tokio::test]
async fn a_flush_that_leaves_items_cuts_no_chunk_for_them() {
    for place in Place::every(&[narrow()]).await {
        let options = TrajectoryWriterOptions::new(8).chunk_length(4);
        let mut writer = place.client.trajectory_writer(options).unwrap();
        // The table accepts the first item; the other items of its chunk wait there.
        for i in 0..4_i64 {
            add(&mut writer, "t", i).await.unwrap();
        }
        writer.flush_until(3, LONG).await.unwrap();
        for i in 4..6_i64 {
            add(&mut writer, "t", i).await.unwrap();
        }
        assert!(writer.flush_until(2, SHORT).await.unwrap_err().is_timeout());
        // Steps 4 and 5 are in an incomplete chunk, so a change of the chunk length is rejected.
        assert_eq!(writer.configure("", 8, Some(2)).unwrap_err().kind(), ErrorKind::FailedPrecondition);
        assert!(writer.flush_until(1, SHORT).await.unwrap_err().is_timeout());
        writer.configure("", 8, Some(2)).unwrap();
        assert_eq!(place.read_values("t", 6).await, [[0], [1], [2], [3], [4], [5]]);
        writer.close().await.unwrap();
    }
}

#[test]
fn in_process_calls_that_do_not_wait_need_no_runtime() {
    let place = Place::local(&[fifo("t")]);
    let mut writer = place.client.trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
    for i in 0..3_i64 {
        writer.append(&leaf(i)).unwrap();
        let newest = writer.history().column_at(0).unwrap().step(-1).unwrap().into();
        assert!(writer.try_create_item("t", 1.0, &newest).unwrap().is_some());
        // The item is already inserted when the call returns.
        assert_eq!((place.size("t"), writer.pending_items()), (u64::try_from(i).unwrap() + 1, 0));
    }
    assert_eq!(place.engine.ledger().snapshot().chunks, 3);
    place.engine.table("t").unwrap().reset().unwrap();
    drop(writer);
    assert_eq!(place.engine.ledger().snapshot().chunks, 0);
}

/// The items before wait for a chunk that is not complete.
#[tokio::test]
async fn after_its_columns_are_forgotten_a_writer_takes_other_steps() {
    for place in Place::every(&[fifo("t")]).await {
        let options = TrajectoryWriterOptions::new(3).chunk_length(3);
        let mut writer = place.client.trajectory_writer(options).unwrap();
        add(&mut writer, "t", 7).await.unwrap();
        let former = writer.history().column("").unwrap().slice(-1..).unwrap();
        let other = Nest::Leaf(Tensor::from_slice(&[0.5_f32, 1.5], [2]).unwrap());
        writer.append(&other).unwrap_err();
        writer.forget_columns().unwrap();
        writer.append_partial(&other).unwrap();
        assert_eq!(writer.forget_columns().unwrap_err().kind(), ErrorKind::FailedPrecondition);
        writer.append(&Nest::None).unwrap();
        let newest = writer.history().column("").unwrap().slice(-1..).unwrap();
        writer.create_item("t", 1.0, newest).await.unwrap();
        writer.create_item("t", 1.0, former).await.unwrap();
        assert_eq!(writer.episode_steps(), 2);
        writer.close().await.unwrap();
        let items = place.client.sample("t", 3).await.unwrap();
        let column = |item: usize| items[item].columns().unwrap().remove(0);
        assert_eq!(column(0).to_vec::<i64>().unwrap(), [7]);
        assert_eq!(column(1).to_vec::<f32>().unwrap(), [0.5, 1.5]);
        assert_eq!(column(2).to_vec::<i64>().unwrap(), [7]);
    }
}

#[tokio::test]
async fn items_beyond_the_limit_time_out_with_the_reason() {
    for place in Place::every(&[narrow()]).await {
        let options = TrajectoryWriterOptions::new(1).max_pending_items(4);
        let mut writer = place.client_with(SHORT).trajectory_writer(options).unwrap();
        add(&mut writer, "t", 0).await.unwrap();
        writer.flush(LONG).await.unwrap();
        for i in 1..=4_i64 {
            add(&mut writer, "t", i).await.unwrap();
        }
        writer.append(&leaf(5_i64)).unwrap();
        let newest = writer.history().column_at(0).unwrap().step(-1).unwrap();
        assert_eq!(writer.try_create_item("t", 1.0, &newest.clone().into()).unwrap(), None);
        let error = writer.create_item("t", 1.0, newest).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(error.to_string().contains("4 items not confirmed"), "{error}");
        let error = writer.flush(SHORT).await.unwrap_err();
        assert!(error.is_timeout() && error.to_string().contains("rate limiter"), "{error}");
        if place.is_local() {
            let why = "the rate limiter of table \"t\" needs 1 more samples";
            assert!(error.to_string().contains(why), "{error}");
            let waiter = place.client.status().await.unwrap().tables[0].waiters[0].clone();
            assert!(waiter.who.starts_with("process "), "{waiter:?}");
        }
        writer.flush_until(4, SHORT).await.unwrap();
        assert_eq!(writer.pending_items(), 4);

        // Samples unblock the other items; the rejected item was not created.
        assert_eq!(place.read_values("t", 5).await, [[0], [1], [2], [3], [4]]);
        writer.flush(LONG).await.unwrap();
        assert_eq!(writer.pending_items(), 0);
        add(&mut writer, "t", 6).await.unwrap();
        writer.flush(LONG).await.unwrap();
        writer.close().await.unwrap();
        assert_eq!(place.read_values("t", 1).await, [[6]]);
    }
}

#[tokio::test]
async fn bytes_beyond_the_limit_wait_but_a_single_large_item_passes() {
    for place in Place::every(&[narrow()]).await {
        let options = TrajectoryWriterOptions::new(1).max_pending_bytes(1000);
        let mut writer = place.client_with(SHORT).trajectory_writer(options).unwrap();
        let values: Vec<u64> = (0..1000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let large = Nest::Leaf(Tensor::from_slice(&values, [1000]).unwrap());
        let mut made = Vec::new();
        for _ in 0..3 {
            writer.append(&large).unwrap();
            let newest = writer.history().column_at(0).unwrap().step(-1).unwrap();
            made.push(writer.create_item("t", 1.0, newest).await.is_ok());
            if made.len() == 1 {
                writer.flush(LONG).await.unwrap();
            }
        }
        assert_eq!(made, [true, true, false]);
        assert_eq!(place.read("t", 2).await.len(), 2);
        writer.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_waiting_writer_is_woken() {
    for place in Place::every(&[narrow()]).await {
        let mut writer = place.client.trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
        for i in 0..5 {
            add(&mut writer, "t", i).await.unwrap();
        }
        let (flushed, read) = tokio::join!(writer.flush(LONG), place.read("t", 5));
        flushed.unwrap();
        assert_eq!(read.len(), 5);
    }
}

#[tokio::test]
async fn an_abandoned_flush_loses_nothing() {
    for place in Place::every(&[narrow()]).await {
        let mut writer = place.client.trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
        for i in 0..3 {
            add(&mut writer, "t", i).await.unwrap();
        }
        for _ in 0..3 {
            let flush = tokio::time::timeout(Duration::from_millis(5), writer.flush(LONG));
            assert!(flush.await.is_err());
        }
        assert_eq!(place.read_values("t", 3).await, [[0], [1], [2]]);
        writer.flush(LONG).await.unwrap();
    }
}

#[tokio::test]
async fn refused_items_are_permanent_errors() {
    let prioritized = TableConfig::new("p").sampler(SelectorKind::Prioritized { exponent: 1.0 });
    for place in Place::every(&[prioritized]).await {
        for (table, kind) in [("p", ErrorKind::InvalidArgument), ("nope", ErrorKind::NotFound)] {
            let options = TrajectoryWriterOptions::new(1).validate_items(false);
            let mut writer = place.client.trajectory_writer(options).unwrap();
            writer.append(&leaf(1_i64)).unwrap();
            let newest = writer.history().column_at(0).unwrap().step(-1).unwrap();
            // In process, the call itself fails; over TCP, a later call fails.
            let error = match writer.create_item(table, -1.0, newest.clone()).await {
                Err(error) => error,
                Ok(_) => writer.flush(LONG).await.unwrap_err(),
            };
            assert_eq!(error.kind(), kind, "{error}");
            for later in [
                writer.append(&leaf(2_i64)).unwrap_err(),
                writer.create_item(table, 1.0, newest.clone()).await.unwrap_err(),
                writer.flush(LONG).await.unwrap_err(),
                writer.end_episode(true, LONG).await.unwrap_err(),
            ] {
                assert_eq!((later.kind(), later.to_string()), (kind, error.to_string()));
            }
        }
    }
}

#[tokio::test]
async fn unknown_tables_and_wrong_columns_are_refused_before_item_creation() {
    let signature = Signature::Leaf(TensorSpec::new("x", relive::DType::Int64, Some(vec![Some(2)])));
    for place in Place::every(&[TableConfig::new("t").signature(signature)]).await {
        let mut writer = place.client.trajectory_writer(TrajectoryWriterOptions::new(3)).unwrap();
        for i in 0..3_i64 {
            writer.append(&leaf(i)).unwrap();
        }
        let column = writer.history().column_at(0).unwrap();
        let (two, three) = (column.slice(-2..).unwrap(), column.slice(-3..).unwrap());
        let unknown = writer.create_item("nope", 1.0, two.clone()).await.unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::NotFound, "{unknown}");
        assert!(unknown.to_string().contains("nope") && unknown.to_string().contains('t'), "{unknown}");
        let wrong = writer.create_item("t", 1.0, three).await.unwrap_err();
        assert_eq!(wrong.kind(), ErrorKind::InvalidArgument, "{wrong}");
        assert!(wrong.to_string().contains("int64 (3,)"), "{wrong}");
        // Neither is permanent.
        writer.create_item("t", 1.0, two).await.unwrap();
        writer.close().await.unwrap();
        assert_eq!(place.size("t"), 1);
    }
}

#[tokio::test]
async fn a_closed_writer_reports_that_it_is_closed() {
    for place in Place::every(&[fifo("t")]).await {
        let mut writer = place.client.trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
        add(&mut writer, "t", 1).await.unwrap();
        let newest = writer.history().column_at(0).unwrap().step(-1).unwrap();
        writer.close().await.unwrap();
        assert!(writer.is_closed());
        closed(&writer.append(&leaf(1_i64)).unwrap_err());
        closed(&writer.append_sequence(&leaf(1_i64)).unwrap_err());
        closed(&writer.create_item("t", 1.0, newest).await.unwrap_err());
        closed(&writer.flush(LONG).await.unwrap_err());
        closed(&writer.end_episode(true, LONG).await.unwrap_err());
        closed(&writer.configure("", 2, None).unwrap_err());
        writer.close().await.unwrap();
        assert_eq!(place.size("t"), 1);
    }
}

#[tokio::test]
async fn a_timed_out_close_can_be_retried_and_close_now_does_not_wait() {
    for place in Place::every(&[narrow()]).await {
        let mut writer = place.client.trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
        for i in 0..2 {
            add(&mut writer, "t", i).await.unwrap();
        }
        assert!(writer.close_with_timeout(SHORT).await.unwrap_err().is_timeout());
        assert!(!writer.is_closed());
        assert_eq!(place.read("t", 2).await.len(), 2);
        writer.close().await.unwrap();

        let mut writer = place.client.trajectory_writer(TrajectoryWriterOptions::new(2)).unwrap();
        writer.append(&leaf(1_i64)).unwrap();
        writer.close_now();
        closed(&writer.append(&leaf(1_i64)).unwrap_err());
    }
}

#[tokio::test]
async fn writers_of_a_closed_engine_fail_at_once() {
    let place = Place::local(&[narrow()]);
    let mut waiting = place.client.trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
    let mut idle = place.client.trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
    for i in 0..3 {
        add(&mut waiting, "t", i).await.unwrap();
    }
    let close = async { place.engine.close() };
    let (flushed, ()) = tokio::join!(waiting.flush(LONG), close);
    let errors = [
        flushed.unwrap_err(),
        waiting.append(&leaf(1_i64)).unwrap_err(),
        add(&mut idle, "t", 1).await.unwrap_err(),
        place.client.insert(&leaf(1_i64), &[("t", 1.0)]).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        assert!(error.to_string().contains("RateLimiter has been cancelled"), "{error}");
    }
}

#[tokio::test]
async fn inserts_of_one_step() {
    for place in Place::every(&[fifo("a"), fifo("b")]).await {
        let step = dict(&[("x", leaf(7_i64)), ("y", leaf(8_i64))]);
        place.client.insert(&step, &[("a", 1.0), ("b", 2.0)]).await.unwrap();
        for table in ["a", "b"] {
            let read = place.read(table, 1).await.remove(0);
            assert_eq!(
                read,
                [Tensor::from_slice(&[7_i64], [1]).unwrap(), Tensor::from_slice(&[8_i64], [1]).unwrap()]
            );
        }
        let none = place.client.insert(&step, &[]).await.unwrap_err();
        assert_eq!(none.kind(), ErrorKind::InvalidArgument);
    }
}

#[tokio::test]
async fn structured_writers() {
    for place in Place::every(&[fifo("pairs"), fifo("ends")]).await {
        let column = SourceColumn::at(0);
        let configs = vec![
            StructuredConfig::new("pairs", Nest::Leaf(column.slice(-2..).unwrap())),
            StructuredConfig::new("ends", Nest::Leaf(column.step(-1).unwrap()))
                .condition(Condition::is_end_episode()),
        ];
        let mut writer = place.client.structured_writer(configs).unwrap();
        for i in 0..4_i64 {
            let step = dict(&[("a", leaf(i)), ("b", leaf(0_i64))]);
            // The first append requests the signatures.
            writer.wait_until_ready().await.unwrap();
            assert!(writer.try_append(&step).unwrap());
        }
        writer.end_episode(true, LONG).await.unwrap();
        writer.close().await.unwrap();
        closed(&writer.append(&leaf(1_i64)).await.unwrap_err());
        assert_eq!(place.read_values("pairs", 3).await, [[0, 1], [1, 2], [2, 3]]);
        assert_eq!(place.read_values("ends", 1).await, [[3]]);
    }
}

#[tokio::test]
async fn a_structured_append_without_room_stores_nothing() {
    let place = Place::local(&[narrow()]);
    let config = StructuredConfig::new("t", Nest::Leaf(SourceColumn::at(0).step(-1).unwrap()));
    let mut writer = place.client_with(SHORT).structured_writer(vec![config]).unwrap();
    let limit = i64::try_from(TrajectoryWriterOptions::DEFAULT_MAX_PENDING_ITEMS).unwrap();
    let mut stored = 0;
    while writer.try_append(&leaf(stored)).unwrap() {
        stored += 1;
    }
    // One item is in the table; the others wait.
    assert_eq!(stored, limit + 1);
    assert!(writer.append(&leaf(-1_i64)).await.unwrap_err().is_timeout());
    assert_eq!(writer.episode_steps(), u64::try_from(stored).unwrap());
    let half = place.read_values("t", usize::try_from(limit / 2 + 1).unwrap()).await;
    assert_eq!(half.last().unwrap(), &[limit / 2]);
    writer.append(&leaf(stored)).await.unwrap();
    writer.close_now();
}

/// Returns a step that passes the checks, but cannot be encoded completely: `kept` has its own chunk, while the empty
/// columns share one that would have more columns than a chunk may have.
fn half_storable(value: f32) -> Nest<Tensor> {
    let empty = Tensor::from_slice::<f32>(&[], [0]).unwrap();
    let mut columns: BTreeMap<String, Nest<Tensor>> =
        (0..=65_536).map(|column| (format!("empty{column}"), Nest::Leaf(empty.clone()))).collect();
    columns.insert("kept".to_owned(), wide(value));
    Nest::Dict(columns.into_iter().collect())
}

fn wide(value: f32) -> Nest<Tensor> {
    Nest::Leaf(Tensor::from_slice(&[value; 1000], [1000]).unwrap())
}

async fn has_failed_for_good(writer: &mut TrajectoryWriter, expected: &Error) {
    let same = |error: Error| assert_eq!(error.to_string(), expected.to_string());
    same(writer.append(&dict(&[("kept", wide(9.0))])).unwrap_err());
    same(writer.append_sequence(&dict(&[("kept", wide(9.0))])).unwrap_err());
    let newest = writer.history().column("kept").unwrap().slice(-1..).unwrap();
    same(writer.create_item("t", 1.0, newest).await.unwrap_err());
    same(writer.create_window_items("t", &[1.0], Windows::of(1, &[-1])).await.unwrap_err());
    same(writer.flush(LONG).await.unwrap_err());
    same(writer.end_episode(true, LONG).await.unwrap_err());
    same(writer.close().await.unwrap_err());
}

#[tokio::test]
async fn a_partially_stored_step_yields_no_item() {
    for place in Place::every(&[fifo("t")]).await {
        let options = TrajectoryWriterOptions::new(2).chunk_length(1);
        let mut writer = place.client.trajectory_writer(options).unwrap();
        writer.append(&dict(&[("kept", wide(1.0))])).unwrap();
        let whole = writer.history().column("kept").unwrap().slice(-1..).unwrap();
        writer.create_item("t", 1.0, whole).await.unwrap();
        writer.flush(LONG).await.unwrap();
        let error = writer.append(&half_storable(2.0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("has 65537 columns"), "{error}");
        has_failed_for_good(&mut writer, &error).await;
        drop(writer);
        assert_eq!(place.size("t"), 1);
    }
}

#[tokio::test]
async fn a_chunk_that_cannot_be_cut_ends_its_writer() {
    for place in Place::every(&[fifo("t")]).await {
        let options = TrajectoryWriterOptions::new(2).chunk_length(2);
        let mut writer = place.client.trajectory_writer(options).unwrap();
        writer.append(&half_storable(1.0)).unwrap();
        let newest = writer.history().column("empty7").unwrap().slice(-1..).unwrap();
        writer.create_item("t", 1.0, newest).await.unwrap();
        let error = writer.flush(LONG).await.unwrap_err();
        assert!(error.to_string().contains("has 65537 columns"), "{error}");
        has_failed_for_good(&mut writer, &error).await;
        drop(writer);
        assert_eq!(place.size("t"), 0);
    }
}

#[tokio::test]
async fn the_loss_of_a_failed_writer_names_the_refusal() {
    let table = || TableConfig::new("p").sampler(SelectorKind::Prioritized { exponent: 1.0 });
    for place in Place::every(&[table()]).await {
        let mut writer = place.client.trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
        writer.append(&leaf(1_i64)).unwrap();
        let column = || writer.history().column_at(0).unwrap().slice(-1..).unwrap();
        let items = [(); 3].map(|()| Nest::Leaf(column()).into());
        let created = writer.create_items("p", &[1.0, -1.0, 2.0], &items).await;
        let refused = match created {
            Err(error) => error,
            Ok(_) => writer.flush(LONG).await.unwrap_err(),
        };
        let loss = writer.loss().map(|error| error.to_string());
        let is_named =
            |loss: &String| loss.contains(&refused.to_string()) && !loss.contains("flush it first");
        assert!(loss.as_ref().is_none_or(is_named), "{loss:?}, {refused}");
        writer.discard();
    }
}

#[tokio::test]
async fn windows_may_match_a_signature_of_single_steps() {
    let signature = Nest::Leaf(TensorSpec::new("x", relive::DType::Int64, Some(vec![])));
    for place in Place::every(&[fifo("t").signature(signature)]).await {
        let options = TrajectoryWriterOptions::new(3).signature_per_step(true);
        let mut writer = place.client.trajectory_writer(options).unwrap();
        for value in 0..3_i64 {
            writer.append(&leaf(value)).unwrap();
        }
        writer.create_window_items("t", &[1.0], Windows::of(3, &[-1])).await.unwrap();
        writer.close().await.unwrap();
        let mut strict = place.client.trajectory_writer(TrajectoryWriterOptions::new(3)).unwrap();
        strict.append(&leaf(3_i64)).unwrap();
        let error = strict.create_window_items("t", &[1.0], Windows::of(1, &[-1])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
}
