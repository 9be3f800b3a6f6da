//! Writers in processes that are killed. The test binary starts itself as the child, with its task in the environment.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use relive_tensor::DType;

use super::*;
use crate::error::ErrorKind;
use crate::schema::{Column, Schema};
use crate::store::{Inserted, Reader, Removal, SWEEPS, State, Store, StoreOptions};

const STORE: &str = "RELIVE_TEST_STORE";
const ROLE: &str = "RELIVE_TEST_ROLE";
const KILL_AT: &str = "RELIVE_KILL_AT";
const PATIENCE: Duration = Duration::from_secs(20);
const CAPACITY: u64 = 8;
const MAX_STEPS: u64 = 6;

fn schema() -> Schema {
    let columns = vec![
        Column::new("token", DType::UInt64, &[2]),
        Column::new("action", DType::UInt64, &[]),
        Column::new("check", DType::UInt8, &[700]),
    ];
    Schema::new(MAX_STEPS, columns).unwrap()
}

fn name(test: &str) -> String {
    format!("relive-gpu-test-{}-{test}", std::process::id())
}

fn store(name: &str, slots: u32) -> Store {
    store_of_rank(name, slots, (0, 1))
}

fn store_of_rank(name: &str, slots: u32, (rank, ranks): (u64, u64)) -> Store {
    let (writers, readers) = (slots, slots);
    let options =
        StoreOptions { writers, readers, touch_threads: 0, rank, ranks, ..StoreOptions::new(CAPACITY) };
    Store::create_named(name, schema(), options).unwrap()
}

fn indices(store: &Store) -> std::ops::Range<u64> {
    store.shard().global(0)..store.shard().global(0) + CAPACITY
}

fn mix(a: u64, b: u64) -> u64 {
    (a ^ b.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

/// Returns the controller's answer to a step's token.
fn action(token: &[u8]) -> [u8; 8] {
    let [a, b] = [&token[..8], &token[8..]].map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    mix(a, b).to_le_bytes()
}

fn write_step(writer: &mut Writer, nonce: u64) {
    let step = writer.steps();
    writer.step(0).unwrap().copy_from_slice(&[nonce.to_le_bytes(), step.to_le_bytes()].concat());
    crate::kill::kill_point!("half written");
    let check = mix(nonce, step).to_le_bytes();
    writer.step(2).unwrap().iter_mut().zip(check.iter().cycle()).for_each(|(out, byte)| *out = *byte);
}

/// Writes trajectories until it is killed, or as many as requested.
fn run_writer(store: &str, trajectories: u64) {
    let mut writer = Writer::attach(store, Some(&schema())).unwrap();
    for number in 0..trajectories {
        let nonce = mix(u64::from(std::process::id()), number);
        writer.acquire(PATIENCE).unwrap();
        crate::kill::kill_point!("acquired");
        for _ in 0..1 + nonce % MAX_STEPS {
            write_step(&mut writer, nonce);
            writer.request().unwrap();
            writer.wait(PATIENCE).unwrap();
            let token = writer.step(0).unwrap().to_vec();
            assert_eq!(writer.step(1).unwrap(), action(&token));
            writer.step_inc().unwrap();
        }
        writer.finish(1.0).unwrap();
    }
}

/// Pins rows until it is killed.
fn run_reader(store: &str) {
    let reader = Reader::attach(store, None).unwrap();
    let mut held = Vec::new();
    loop {
        let (pinned, _) = reader.pin_present(&(0..CAPACITY).collect::<Vec<_>>()).unwrap();
        if !pinned.rows().is_empty() {
            crate::kill::kill_point!("holding");
        }
        held.push(pinned);
        if held.len() > 3 {
            held.remove(0);
        }
        std::thread::yield_now();
    }
}

/// Entry point of the test binary as a child process; does nothing unless a test has started it as one.
#[test]
fn child() {
    let (Ok(role), Ok(store)) = (std::env::var(ROLE), std::env::var(STORE)) else { return };
    match role.as_str() {
        "writer" => run_writer(&store, u64::MAX),
        "three" => run_writer(&store, 3),
        "reader" => run_reader(&store),
        "controller" => run_controller(&store),
        other => panic!("no role {other}"),
    }
}

fn run_controller(name: &str) {
    let _store = store(name, 3);
    crate::kill::kill_point!("made");
    loop {
        std::thread::park();
    }
}

fn spawn(role: &str, store: &str, kill_at: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "writers::tests::child", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(STORE, store).env(KILL_AT, kill_at);
    command.stdout(Stdio::null()).spawn().unwrap()
}

/// Serves writers once: answers their requests, and checks their finished trajectories. They are put back first, as if
/// the caller had been interrupted, and come again.
fn serve(store: &Store) {
    let scan = store.scan().unwrap();
    store.put_back(scan.clone());
    let again = store.scan().unwrap();
    assert!(scan.finished.iter().all(|inserted| again.finished.contains(inserted)), "{scan:?}, {again:?}");
    answer(store, &again);
}

fn answer(store: &Store, scan: &Scan) {
    for request in &scan.requests {
        let mut token = [0; 16];
        assert!(store.observe(request, 0, &mut token).unwrap());
        assert!(store.answer(request, 1, &action(&token)).unwrap());
        store.give_back(&[*request]).unwrap();
    }
    scan.finished.iter().for_each(|inserted| check(store, *inserted));
}

/// Checks that every byte of a finished trajectory is its writer's.
fn check(store: &Store, inserted: Inserted) {
    let pinned = store.reader().hold(&[inserted.index]).unwrap().0;
    let Some(row) = pinned.rows().first().filter(|row| row.generation == inserted.generation) else { return };
    let [tokens, actions, checks] = [0, 1, 2].map(|column| pinned.bytes(0, column).unwrap());
    let nonce = u64::from_le_bytes(tokens[..8].try_into().unwrap());
    assert_eq!(row.length, 1 + nonce % MAX_STEPS);
    for step in 0..row.length {
        let at = usize::try_from(step).unwrap();
        let token = &tokens[at * 16..at * 16 + 16];
        assert_eq!(token, [nonce.to_le_bytes(), step.to_le_bytes()].concat());
        assert_eq!(actions[at * 8..at * 8 + 8], action(token));
        let expected = mix(nonce, step).to_le_bytes();
        let bytes = checks[at * 700..(at + 1) * 700].iter().zip(expected.iter().cycle());
        assert!(bytes.clone().all(|(found, byte)| found == byte));
    }
}

/// Serves until `done`, or fails after a while.
fn serve_until(store: &Store, mut done: impl FnMut(&Store) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done(store) {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?}: {:?}", store.metrics());
        let _: bool = store.wait_for_writers(Duration::from_millis(20));
        serve(store);
    }
}

fn in_state(store: &Store, state: State) -> u64 {
    let states = indices(store).map(|index| store.status(index).unwrap().state);
    states.filter(|&found| found == state).count() as u64
}

/// Checks, when all writers have stopped, that every row is free or selectable, and that the allocator agrees.
fn assert_whole(store: &Store) {
    serve_until(store, |store| in_state(store, State::Writing) == 0);
    store.sweep().unwrap();
    assert_eq!(in_state(store, State::Free), store.free());
    assert_eq!(in_state(store, State::Selectable), store.len());
    assert_eq!(store.free() + store.len(), CAPACITY);
}

/// Defect 6: writers of a rank whose first index is not 0 have its rows.
#[test]
fn a_writer_writes_trajectories_and_exits() {
    for shard in [(0, 1), (1, 2)] {
        let name = name("leaves");
        let store = store_of_rank(&name, 3, shard);
        let mut child = spawn("three", &name, "");
        serve_until(&store, |store| store.metrics().inserted_rows == 3);
        serve_until(&store, |_| child.try_wait().unwrap().is_some());
        assert!(child.wait().unwrap().success());
        assert_whole(&store);
        assert_eq!((store.len(), store.metrics().dead_writers), (3, 0));
    }
}

/// Defects 8 to 10: a slot is served any number of times, finished trajectories become selectable, and the end of a
/// writer is noticed.
#[test]
fn a_kill_at_any_point_loses_only_the_open_trajectory() {
    let name = name("points");
    let store = store(&name, 3);
    let points = ["claimed", "asked", "acquired", "half written", "requested", "stepped", "said", "finished"];
    for (number, point) in (1..).zip(points) {
        let mut child = spawn("writer", &name, point);
        serve_until(&store, |_| child.try_wait().unwrap().is_some());
        assert!(!child.wait().unwrap().success());
        serve_until(&store, |store| store.metrics().dead_writers == number);
        assert_whole(&store);
    }
    // Only a trajectory that was handed over is finished.
    assert_eq!(store.len(), 1);
    let mut child = spawn("three", &name, "left");
    serve_until(&store, |_| child.try_wait().unwrap().is_some());
    child.wait().unwrap();
    assert_whole(&store);
    assert_eq!(store.len(), 4);
}

/// Returns the number of kills; an environment variable can set it for a longer run.
fn kills() -> u64 {
    std::env::var("RELIVE_KILLS").map_or(200, |text| text.parse().unwrap())
}

#[test]
fn kills_at_random_times_lose_no_finished_trajectory() {
    let name = name("random");
    let store = store(&name, 64);
    let mut random = 12345;
    let mut children: Vec<(Child, Instant)> = Vec::new();
    let mut killed = 0;
    while killed < kills() {
        if children.len() < 2 {
            random = mix(random, 77);
            let role = if random % 4 == 0 { "reader" } else { "writer" };
            // The kill happens while the process starts, during its first turns, or later.
            let lives = Duration::from_micros(2000 + random % 20_000);
            children.push((spawn(role, &name, ""), Instant::now() + lives));
        }
        let _: bool = store.wait_for_writers(Duration::from_millis(1));
        answer(&store, &store.scan().unwrap());
        if let Some(at) = children.iter().position(|(_, end)| *end < Instant::now()) {
            let (mut child, _) = children.swap_remove(at);
            child.kill().unwrap();
            child.wait().unwrap();
            killed += 1;
        }
    }
    for (mut child, _) in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_whole(&store);
    for index in 0..CAPACITY {
        let generation = store.status(index).unwrap().generation;
        check(&store, Inserted { index, generation });
    }
    let metrics = store.metrics();
    assert!(metrics.inserted_rows > kills() / 10 && metrics.dead_writers > 0, "{metrics:?}");
}

#[test]
fn pins_of_a_killed_reader_are_released() {
    let name = name("reader");
    let store = store(&name, 3);
    for point in ["pinned", "holding"] {
        while store.free() > 0 {
            let mut writing = store.begin().unwrap();
            writing.column(0).unwrap().fill(0);
            writing.commit(1, 1.0).unwrap();
        }
        let mut child = spawn("reader", &name, point);
        child.wait().unwrap();
        assert!(in_state(&store, State::Pinned) > 0);
        if point == "holding" {
            let all: Vec<Inserted> = (0..CAPACITY)
                .map(|index| Inserted { index, generation: store.status(index).unwrap().generation })
                .collect();
            let removed = store.remove(&all).unwrap();
            assert_eq!((removed.applied, removed.skipped), (CAPACITY, 0));
        }
        // Takes every row, including those that the dead reader has pinned.
        let rows: Vec<_> = (0..CAPACITY).map(|_| store.begin().unwrap()).collect();
        assert_eq!(store.begin().unwrap_err().kind(), ErrorKind::Unavailable);
        drop(rows);
    }
    assert_eq!(store.metrics().dead_readers, 2);
}

/// Inserts a trajectory of one step.
fn insert(store: &Store) -> Inserted {
    store.insert(&[&[0; 16], &[0; 8], &[0; 700]], 1, 1.0).unwrap()
}

/// Returns a full store after a reader was killed that had counted the last sample of row 0.
fn counted_by_a_killed_reader(name: &str, readers: u32) -> Store {
    let options = StoreOptions {
        removal: Removal::MaxTimesSampled(1),
        touch_threads: 0,
        readers,
        ..StoreOptions::new(CAPACITY)
    };
    let store = Store::create_named(name, schema(), options).unwrap();
    for _ in 0..CAPACITY {
        insert(&store);
    }
    // After an eviction, the row that the reader samples first has the newest trajectory, which would otherwise be evicted
    // last. The store has looked for exhausted rows, and looks again only when a reader announces some, or ends.
    assert_eq!(insert(&store).index, 0);
    spawn("reader", name, "counted").wait().unwrap();
    store
}

/// A reader that is killed after it has counted the last sample of a trajectory leaves the trajectory's weight.
#[test]
fn a_trajectory_whose_last_sample_was_counted_by_a_killed_reader_is_exhausted() {
    let store = counted_by_a_killed_reader(&name("counted"), 16);
    let mut weights = vec![0.0; usize::try_from(CAPACITY).unwrap()];
    store.reader().read_weights(&mut weights).unwrap();
    assert_eq!((weights[0], store.status(0).unwrap().sampled), (1.0, 1));
    let changes = store.reader().changes();
    assert_eq!(store.reader().pin_present(&[0]).unwrap().1, [0]);
    store.reader().read_weights(&mut weights).unwrap();
    assert_eq!(weights[0], 0.0);
    assert_ne!(store.reader().changes(), changes);
    assert_eq!((insert(&store).index, insert(&store).index), (0, 1));
}

/// The same if another reader takes the place of the killed one before the store notices its end.
#[test]
fn a_reader_in_the_place_of_a_killed_one_tells_that_its_counts_are_incomplete() {
    let name = name("successor");
    let store = counted_by_a_killed_reader(&name, 2);
    let _successor = Reader::attach(&name, None).unwrap();
    assert_eq!((insert(&store).index, insert(&store).index), (0, 1));
}

/// Returns a writer that waits for an answer, and its request.
fn requesting(store: &Store, number: u64) -> (Writer, Request) {
    let mut writer = Writer::of(store).unwrap();
    assert_eq!(writer.acquire(Duration::ZERO).unwrap_err().kind(), ErrorKind::Unavailable);
    store.scan().unwrap();
    writer.acquire(Duration::ZERO).unwrap();
    writer.step(1).unwrap().copy_from_slice(&number.to_le_bytes());
    writer.request().unwrap();
    let scan = store.scan().unwrap();
    (writer, scan.requests[0])
}

/// A late answer reaches neither the next writer in the slot of an ended one, nor prevents other answers.
#[test]
fn an_answer_to_an_ended_writer_is_skipped() {
    let store = store(&name("late"), 2);
    let (old, late) = requesting(&store, 1);
    let (mut other, request) = requesting(&store, 2);
    drop(old);
    assert_eq!(store.scan().unwrap().aborted, 1);
    assert!(!store.answer(&late, 1, &[9; 8]).unwrap());
    let (mut new, current) = requesting(&store, 3);
    assert_eq!((new.id(), current.slot), (late.slot, late.slot));
    let mut seen = [0; 8];
    assert!(!store.observe(&late, 1, &mut seen).unwrap() && !store.answer(&late, 1, &[9; 8]).unwrap());
    assert_eq!(seen, [0; 8]);
    store.give_back(&[late, request]).unwrap();
    other.wait(Duration::ZERO).unwrap();
    assert_eq!(new.wait(Duration::ZERO).unwrap_err().kind(), ErrorKind::Unavailable);
    store.give_back(&[current]).unwrap();
    new.wait(Duration::ZERO).unwrap();
    assert_eq!(new.step(1).unwrap(), 3_u64.to_le_bytes());
    assert!(!new.is_answered(1).unwrap());
}

/// Checking for dead readers reads files while the store is locked, and scans are frequent while writers wait for rows.
#[test]
fn scans_rarely_check_for_dead_readers() {
    let store = store(&name("starved"), 5);
    for _ in 0..CAPACITY {
        insert(&store);
    }
    let _pinned = store.pin(&(0..CAPACITY).collect::<Vec<_>>()).unwrap();
    let mut writers: Vec<Writer> = (0..5).map(|_| Writer::of(&store).unwrap()).collect();
    for writer in &mut writers {
        assert_eq!(writer.acquire(Duration::ZERO).unwrap_err().kind(), ErrorKind::Unavailable);
    }
    let (before, begin) = (SWEEPS.get(), Instant::now());
    for _ in 0..20 {
        assert_eq!(store.scan().unwrap().starved, 5);
    }
    let most = 1 + begin.elapsed().as_millis() / 100;
    assert!(u128::from(SWEEPS.get() - before) <= most, "{} checks", SWEEPS.get() - before);
}

/// Defect 24: the segment of a dead controller is replaced, the segment of a living one is not, and names are removed
/// with their stores.
#[test]
fn segments_of_dead_controllers_are_replaced() {
    let name = name("controller");
    let mut child = spawn("controller", &name, "made");
    child.wait().unwrap();
    let error = Reader::attach(&name, None).unwrap_err();
    assert!(error.to_string().contains("has ended"), "{error}");
    let store = store(&name, 3);
    let error = Store::create_named(&name, schema(), StoreOptions::new(CAPACITY)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains(&format!("in use by process {}", std::process::id())), "{error}");
    assert!(error.to_string().contains("close the earlier store"), "{error}");
    drop(store);
    assert_eq!(Reader::attach(&name, None).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_writer_detects_that_the_controller_has_ended() {
    let name = name("gone");
    let store = store(&name, 3);
    let mut writer = Writer::attach(&name, None).unwrap();
    let error = writer.acquire(Duration::from_millis(5)).unwrap_err();
    assert!(error.to_string().contains("for its turn"), "{error}");
    drop(store);
    let error = writer.acquire(PATIENCE).unwrap_err();
    assert!(error.to_string().contains("the controller closed"), "{error}");
}

#[test]
fn misuse_is_refused() {
    let store = store(&name("misuse"), 3);
    let mut writers: Vec<Writer> = (0..3).map(|_| Writer::of(&store).unwrap()).collect();
    assert_eq!(Writer::of(&store).unwrap_err().kind(), ErrorKind::Unavailable);
    let writer = &mut writers[0];
    assert!(writer.column(0).unwrap_err().to_string().contains("acquire one first"));
    std::thread::scope(|scope| {
        let acquiring = scope.spawn(|| writer.acquire(PATIENCE).map(|()| writer));
        serve_until(&store, |_| acquiring.is_finished());
        let writer = acquiring.join().unwrap().unwrap();
        assert!(writer.finish(1.0).unwrap_err().to_string().contains("no steps"));
        for _ in 0..MAX_STEPS {
            writer.step_inc().unwrap();
        }
        assert!(writer.step_inc().unwrap_err().to_string().contains("all of its 6 steps"));
        assert!(writer.finish(f32::NAN).unwrap_err().to_string().contains("the weight is NaN"));
        writer.request().unwrap();
        assert!(writer.column(0).unwrap_err().to_string().contains("controller's turn"));
    });
    let request = Request { slot: 0, index: 0, step: MAX_STEPS, generation: 1 };
    assert!(store.answer(&request, 0, &[0; 16]).unwrap_err().to_string().contains("no open request"));
    assert_eq!(store.scan().unwrap().requests, [request]);
    assert!(store.answer(&request, 0, &[0; 3]).unwrap_err().to_string().contains("3 bytes"));
    assert!(store.answer(&request, 0, &[0; 16]).unwrap_err().to_string().contains("no request to answer"));
    store.give_back(&[request]).unwrap();
    for request in [request, Request { slot: 9, ..request }] {
        assert_eq!(store.give_back(&[request]).unwrap_err().kind(), ErrorKind::NotFound);
    }
    drop(writers);
    assert_whole(&store);
    assert_eq!(store.free(), CAPACITY);
}
