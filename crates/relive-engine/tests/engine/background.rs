//! Tests checkpoints in the background: which callers share one, when they are due, and how they are reported.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use crate::common::{self, Writer};
use relive_engine::limits::MIN_CHECKPOINT_INTERVAL;
use relive_engine::{BuildError, Engine, EngineBuilder, EngineError, Mutation};
use relive_table::{
    CheckpointPhase, CheckpointProgress, CheckpointStatus, CheckpointTrigger, SavedCheckpoint, Snapshot,
    TableConfig,
};

/// This is longer than any operation in these tests takes.
const DUE: Duration = Duration::from_secs(60);

type Saved = Result<SavedCheckpoint, EngineError>;

fn builder(save: impl Fn(Snapshot, &CheckpointProgress) -> Saved + Send + Sync + 'static) -> EngineBuilder {
    Engine::builder().table(TableConfig::new("t")).checkpointer(save)
}

/// Returns a checkpoint whose location contains the number of its items.
fn named(snapshot: &Snapshot) -> Saved {
    let items = snapshot.tables[0].items.len();
    Ok(SavedCheckpoint { location: format!("{items} items"), written_bytes: 1, total_bytes: 2 })
}

fn disk_full() -> Saved {
    Err(EngineError::checkpoint(std::io::Error::other("disk full")))
}

fn write(engine: &Engine, keys: impl IntoIterator<Item = u64>) {
    let table = engine.table("t").expect("it is there");
    assert_eq!(Writer::new(&table).insert(keys), 0);
}

/// A checkpointer that signals when it begins, and continues when the test signals.
struct HeldCheckpointer {
    begun: Receiver<()>,
    release: Sender<()>,
}

impl HeldCheckpointer {
    fn engine() -> (Engine, HeldCheckpointer) {
        let (begin, begun) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let released = Mutex::new(released);
        let save = move |snapshot: Snapshot, progress: &CheckpointProgress| {
            progress.expect(snapshot.tables[0].items.len() as u64, 100);
            progress.advance(1, 10);
            begin.send(()).expect("the test listens");
            released.lock().expect("no other panics").recv_timeout(DUE).expect("the test lets it go on");
            named(&snapshot)
        };
        (builder(save).build().expect("the table is valid"), HeldCheckpointer { begun, release })
    }

    fn wait(&self) {
        self.begun.recv_timeout(DUE).expect("a checkpoint begins");
    }

    fn let_go(&self) {
        self.release.send(()).expect("the checkpointer listens");
    }

    fn nothing_else_began(&self) -> bool {
        self.begun.try_recv().is_err()
    }
}

fn locations(status: &CheckpointStatus) -> [Option<&str>; 2] {
    [&status.last, &status.last_saved]
        .map(|finished| finished.as_ref()?.saved().map(|saved| saved.location.as_str()))
}

#[test]
fn callers_during_a_running_checkpoint_share_the_next_one() {
    let (engine, held) = HeldCheckpointer::engine();
    write(&engine, [1]);
    let first = engine.request_checkpoint().unwrap();
    held.wait();
    write(&engine, [2, 3]);
    let others = [(); 5].map(|()| engine.request_checkpoint().unwrap());
    assert!(engine.checkpoint_status().queued);
    held.let_go();
    assert_eq!(first.wait().unwrap().location, "1 items");
    held.wait();
    assert!(!engine.checkpoint_status().queued);
    held.let_go();
    for other in others {
        assert_eq!(other.wait().unwrap().location, "3 items");
    }
    assert!(held.nothing_else_began());
    assert!(engine.checkpoint_status().running.is_none());
}

#[test]
fn a_cancelled_caller_does_not_cancel_the_checkpoint() {
    let (engine, held) = HeldCheckpointer::engine();
    let mut pending = Box::pin(engine.request_checkpoint().unwrap());
    assert!(pending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    held.wait();
    let other = engine.request_checkpoint().unwrap();
    drop(pending);
    held.let_go();
    held.wait();
    held.let_go();
    assert!(other.wait().is_ok());
}

#[test]
fn the_status_reports_checkpoint_progress() {
    let (engine, held) = HeldCheckpointer::engine();
    let status = engine.checkpoint_status();
    assert_eq!(status, CheckpointStatus { at: status.at, enabled: true, ..CheckpointStatus::default() });
    write(&engine, [1, 2]);
    let pending = engine.request_checkpoint().unwrap();
    held.wait();
    let status = engine.checkpoint_status();
    let running = status.running.expect("one runs");
    assert_eq!((running.trigger, running.phase), (CheckpointTrigger::Request, CheckpointPhase::Writing));
    let counts = running.counts;
    assert_eq!((counts.items_done, counts.items_total), (1, 2));
    assert_eq!((counts.bytes_done, counts.bytes_total), (10, 100));
    assert!(status.last.is_none() && status.next_due.is_none());
    held.let_go();
    pending.wait().unwrap();
    let status = engine.checkpoint_status();
    let last = status.last.as_ref().expect("one has ended");
    assert!(status.age(last) < DUE);
    assert_eq!((last.began_at, last.trigger), (running.began_at, CheckpointTrigger::Request));
    assert!(last.took >= running.elapsed && last.longest_pause > Duration::ZERO);
}

#[test]
fn without_a_checkpointer_there_is_no_status_and_options_are_refused() {
    let engine = Engine::builder().table(TableConfig::new("t")).build().unwrap();
    assert_eq!(engine.checkpoint_status(), CheckpointStatus::default());
    assert!(engine.shut_down().is_none());
    let refused = |builder: EngineBuilder| builder.table(TableConfig::new("t")).build().unwrap_err();
    let error = refused(Engine::builder().checkpoint_every(DUE));
    assert_eq!(
        error.to_string(),
        "checkpoint_every requires a checkpointer; configure where checkpoints are kept"
    );
    let error = refused(Engine::builder().checkpoint_at_close(true));
    assert!(matches!(error, BuildError::NoCheckpointer { option: "checkpoint_at_close" }), "{error}");
    let too_often = builder(|snapshot, _| named(&snapshot)).checkpoint_every(Duration::ZERO).build();
    assert_eq!(too_often.unwrap_err().to_string(), "checkpoint_every must be at least 1s, got 0ns");
}

#[test]
fn after_a_failed_checkpoint_the_last_one_is_known_and_the_next_can_succeed() {
    let fails = Arc::new(AtomicBool::new(false));
    let save = {
        let fails = Arc::clone(&fails);
        move |snapshot: Snapshot, _: &CheckpointProgress| {
            if fails.load(Ordering::Relaxed) { disk_full() } else { named(&snapshot) }
        }
    };
    let engine = builder(save).build().unwrap();
    engine.checkpoint().unwrap();
    fails.store(true, Ordering::Relaxed);
    write(&engine, [1]);
    engine.checkpoint().unwrap_err();
    let status = engine.checkpoint_status();
    assert_eq!(status.last.as_ref().unwrap().error(), Some("the checkpoint was not written: disk full"));
    assert_eq!(locations(&status), [None, Some("0 items")]);
    fails.store(false, Ordering::Relaxed);
    engine.checkpoint().unwrap();
    assert_eq!(locations(&engine.checkpoint_status()), [Some("1 items"); 2]);
}

#[test]
fn a_panicking_checkpointer_fails_only_one_checkpoint() {
    let calls = AtomicUsize::new(0);
    let save = move |snapshot: Snapshot, _: &CheckpointProgress| {
        assert_ne!(calls.fetch_add(1, Ordering::Relaxed), 0, "a bug in a checkpointer");
        named(&snapshot)
    };
    let engine = builder(save).build().unwrap();
    let error = engine.checkpoint().unwrap_err().to_string();
    assert!(error.starts_with("the checkpoint was not written: the checkpointer panicked: "), "{error}");
    assert!(error.contains("a bug in a checkpointer"), "{error}");
    write(&engine, [7]);
    assert_eq!(engine.checkpoint().unwrap().location, "1 items");
}

#[test]
fn a_dropped_engine_ends_after_an_awaited_checkpoint() {
    let place = Arc::new(());
    for _ in 0..200 {
        let held = Arc::clone(&place);
        let save = move |snapshot: Snapshot, _: &CheckpointProgress| {
            let _held = &held;
            named(&snapshot)
        };
        let engine = builder(save).build().unwrap();
        engine.checkpoint().unwrap();
        drop(engine);
        assert_eq!(Arc::strong_count(&place), 1, "the checkpointer, and with it its lock, must be gone");
    }
}

#[test]
fn periodic_checkpoints_continue_after_failures_and_end_with_the_engine() {
    let (sender, receiver) = mpsc::channel();
    let (sender, count) = (Mutex::new(sender), AtomicUsize::new(0));
    let save = move |_: Snapshot, _: &CheckpointProgress| {
        // At the end of the test, the receiver is gone.
        let _ = sender.lock().expect("only the second panics, later").send(());
        assert_ne!(count.fetch_add(1, Ordering::Relaxed), 1, "the second breaks");
        disk_full()
    };
    let engine = builder(save).checkpoint_every(MIN_CHECKPOINT_INTERVAL).build().unwrap();
    for _ in 0..3 {
        receiver.recv_timeout(DUE).expect("another one is due");
    }
    let status = engine.checkpoint_status();
    assert!(status.next_due.is_some());
    assert_eq!(status.last.unwrap().trigger, CheckpointTrigger::Interval);
    drop(engine);
    while receiver.recv_timeout(DUE).is_ok() {}
    let gone = receiver.recv_timeout(DUE).unwrap_err();
    assert_eq!(gone, mpsc::RecvTimeoutError::Disconnected, "the clock does not keep the engine alive");
}

#[test]
fn the_next_due_checkpoint_is_reported_until_the_engine_closes() {
    let engine = builder(|snapshot, _| named(&snapshot)).checkpoint_every(DUE).build().unwrap();
    let due = engine.checkpoint_status().next_due.expect("in a minute");
    assert!(due <= DUE && due > DUE / 2, "{due:?}");
    engine.close();
    assert_eq!(engine.checkpoint_status().next_due, None);
    let endless = builder(|snapshot, _| named(&snapshot)).checkpoint_every(Duration::MAX).build().unwrap();
    assert_eq!(endless.checkpoint_status().next_due, None);
}

#[test]
fn the_final_checkpoint_is_complete_and_written_once() {
    let (engine, held) = HeldCheckpointer::engine();
    assert!(engine.shut_down().is_none(), "nobody has asked for it");
    drop((engine, held));
    let engine = builder(|snapshot, _| named(&snapshot)).checkpoint_at_close(true).build().unwrap();
    write(&engine, 0..9);
    let pending = engine.shut_down().expect("it was asked for");
    let mut writer = Writer::new(&engine.table("t").unwrap());
    let refused =
        writer.table.insert([common::item(9)], &"w".into(), &writer.confirmations, &mut writer.confirmed);
    assert!(refused.is_err(), "the tables are closed");
    assert_eq!(pending.wait().unwrap().location, "9 items");
    assert_eq!(engine.checkpoint_status().last.unwrap().trigger, CheckpointTrigger::Close);
    assert!(engine.shut_down().is_none());
}

#[test]
fn the_final_checkpoint_waits_for_the_running_one() {
    let (begin, begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let save = move |snapshot: Snapshot, _: &CheckpointProgress| {
        begin.send(()).expect("the test listens");
        released.lock().expect("no other panics").recv_timeout(DUE).expect("the test lets it go on");
        named(&snapshot)
    };
    let engine = builder(save).checkpoint_at_close(true).build().unwrap();
    let first = engine.request_checkpoint().unwrap();
    begun.recv_timeout(DUE).unwrap();
    write(&engine, [1]);
    let last = engine.shut_down().expect("it was asked for");
    (0..2).for_each(|_| release.send(()).unwrap());
    assert_eq!(first.wait().unwrap().location, "0 items");
    assert_eq!(last.wait().unwrap().location, "1 items");
}

/// One thread sets the priorities of two tables alternately, item by item. At any moment, in each table, the items up
/// to some position have the new value and the others have the old one; the positions differ by at most one item.
#[test]
fn constantly_changing_items_are_captured_atomically() {
    const ITEMS: u64 = 10_000;
    let tables = ["a", "b"].map(TableConfig::new);
    let engine = tables.into_iter().fold(Engine::builder(), EngineBuilder::table).build().unwrap();
    for table in engine.tables().iter() {
        Writer::new(table).insert(0..ITEMS);
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in (2..).take_while(|_| !done.load(Ordering::Relaxed)) {
                for key in 0..ITEMS {
                    for table in engine.tables().iter() {
                        let update = Mutation::Update { key, priority: f64::from(round) };
                        table.mutate([update]).expect("the priority is valid");
                    }
                }
            }
        });
        let changed: Vec<usize> = (0..40).map(|_| changed_items(&engine.snapshot())).collect();
        done.store(true, Ordering::Relaxed);
        assert!(changed.iter().any(|&items| items > 0), "the captures lie between rounds: {changed:?}");
    });
}

/// Returns how many items of the first table have the newer value.
fn changed_items(snapshot: &Snapshot) -> usize {
    let counts: Vec<(f64, usize)> = snapshot
        .tables
        .iter()
        .map(|table| {
            let priorities: Vec<f64> = table.items.iter().map(|item| item.priority).collect();
            let newest = priorities[0];
            let changed = priorities.partition_point(|&priority| priority == newest);
            let rest = &priorities[changed..];
            assert!(rest.iter().all(|&priority| priority == newest - 1.0), "{changed} of {newest}");
            (newest, changed)
        })
        .collect();
    let total = |(newest, changed): (f64, usize)| newest * 10_000.0 + changed as f64;
    let ahead = total(counts[0]) - total(counts[1]);
    assert!((0.0..=1.0).contains(&ahead), "{counts:?}");
    counts[0].1 % 10_000
}
