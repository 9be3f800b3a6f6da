//! Tests what `docs/clusters.md` states about the network between the hosts of a run: one test for each line.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use relive_client::blocking::Client;
use relive_client::{Nest, Tensor, TrajectoryWriterOptions};
use relive_testkit::hosts::{Host, TwoHosts};

use crate::rl::text;
use crate::running::{PATIENCE, Running, Tables, wait_until};
use crate::support::{Served, command, file};

/// The address of a run's tables for both hosts.
const ADDRESS: &str = "10.77.0.1:7000";

/// A run that does not end by itself.
const ENDLESS: &str = "1000000000000";

/// How long confirmations must be absent to count as an outage.
const SILENCE: Duration = Duration::from_secs(2);

/// Returns a learner on the near host, which workers join from either host.
fn driver(hosts: &TwoHosts, agent: &str, steps: &str) -> Running {
    let args = ["rl", "train", agent, "--env", "CartPole-v1", "--on", "processes", "--no-spawn"];
    let listening = command(&[&args[..], &["--listen", ADDRESS, "--steps", steps]].concat());
    Running::start(&mut hosts.on(Host::Near, &listening))
}

fn worker(hosts: &TwoHosts, host: Host, number: &str) -> Running {
    Running::start(&mut hosts.on(host, &command(&["rl", "worker", "--join", ADDRESS, "--number", number])))
}

/// "The network is away for some seconds": the connected workers continue; the disconnected one logs it, and continues
/// when the network is back.
#[test]
fn a_run_continues_and_readmits_its_remote_worker_after_an_outage() {
    let Some(hosts) = TwoHosts::connected() else { return };
    let learner = driver(&hosts, "impala", ENDLESS);
    let (near, mut far) = (worker(&hosts, Host::Near, "0"), worker(&hosts, Host::Far, "1"));
    let _here = hosts.enter(Host::Near);
    let tables = Tables::at(ADDRESS);
    wait_until("the far worker acts", || far.ticks() > 20);
    for _ in 0..2 {
        hosts.unplug();
        far.wait_for_line("the server does not answer: waiting for it");
        let before = far.ticks();
        tables.wait_for(50, "weights");
        hosts.plug();
        far.wait_for_line("continuing");
        wait_until("the far worker acts again", || far.ticks() > before + 20);
    }
    learner.signal("INT");
    learner.succeeds();
    for worker in [near, far] {
        let output = worker.succeeds();
        assert!(output.contains("episodes"), "{output}");
    }
}

/// "The network stays away": the run ends with the remaining workers, and the disconnected one logs what it is waiting
/// for.
#[test]
fn a_run_ends_with_the_remaining_workers() {
    let Some(hosts) = TwoHosts::connected() else { return };
    let learner = driver(&hosts, "impala", "400000");
    let (near, mut far) = (worker(&hosts, Host::Near, "0"), worker(&hosts, Host::Far, "1"));
    wait_until("the far worker acts", || far.ticks() > 20);
    hosts.unplug();
    let output = learner.succeeds();
    assert!(output.starts_with("CartPole-v1: "), "{output}");
    near.succeeds();
    far.wait_for_line("the server does not answer: waiting for it");
    assert!(far.is_running());
}

/// With a synchronous agent, the run logs that it is waiting, and a worker with the same number on the connected host
/// takes the place.
#[test]
fn a_worker_started_on_another_host_replaces_a_disconnected_one() {
    let Some(hosts) = TwoHosts::connected() else { return };
    let mut learner = driver(&hosts, "ppo", ENDLESS);
    let (_near, _far) = (worker(&hosts, Host::Near, "0"), worker(&hosts, Host::Far, "1"));
    let _here = hosts.enter(Host::Near);
    let tables = Tables::at(ADDRESS);
    tables.wait_for(3, "weights");
    hosts.unplug();
    learner.wait_for_line("the run is waiting for `rounds of workers`");
    let _elsewhere = worker(&hosts, Host::Near, "1");
    let pause = tables.wait_for(3, "weights");
    assert!(pause < PATIENCE / 4, "{pause:?}");
}

/// A writer on the far host, which writes numbers, starting from 0, until it is stopped.
struct Writer {
    /// Numbers below this are confirmed.
    confirmed: Arc<AtomicI64>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start(hosts: &TwoHosts) -> Writer {
        let (confirmed, is_over) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
        let (entrance, written_count, stop_flag) =
            (hosts.entrance(Host::Far), Arc::clone(&confirmed), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            let _there = entrance.enter();
            let client = Client::connect(ADDRESS).unwrap();
            let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
            for number in 0_i64.. {
                writer.append(&Nest::Leaf(Tensor::scalar(number))).unwrap();
                let column = writer.history().column_at(0).unwrap().slice(-1..).unwrap();
                writer.create_item("t", 1.0, column).unwrap();
                if number % 10 == 9 {
                    writer.flush(PATIENCE).unwrap();
                    written_count.store(number + 1, Ordering::Relaxed);
                    if stop_flag.load(Ordering::Relaxed) {
                        break;
                    }
                }
            }
        });
        Writer { confirmed, is_over, thread }
    }

    fn confirmed(&self) -> i64 {
        self.confirmed.load(Ordering::Relaxed)
    }

    /// Waits until nothing was confirmed for a while.
    fn wait_for_silence(&self) {
        let (mut before, mut since) = (self.confirmed(), Instant::now());
        wait_until("nothing is confirmed any more", || {
            if self.confirmed() != before {
                (before, since) = (self.confirmed(), Instant::now());
            }
            since.elapsed() > SILENCE
        });
    }

    /// Stops the writer; returns how many numbers it has written.
    fn end(self) -> i64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.confirmed.load(Ordering::Relaxed)
    }
}

/// "What was confirmed": each item is in the table exactly once, in order, regardless of how often the network was
/// interrupted.
#[test]
fn a_network_outage_neither_loses_nor_duplicates_items() {
    let Some(hosts) = TwoHosts::connected() else { return };
    let config = file(".toml", "[[table]]\nname = \"t\"\nsampler = \"fifo\"\nmax_times_sampled = 1\n");
    let serve =
        ["serve", "--bind", TwoHosts::address(Host::Near), "--port", "7000", "--config", text(&config)];
    let _server = Served::spawn(&mut hosts.on(Host::Near, &command(&serve)));
    let writer = Writer::start(&hosts);
    for _ in 0..3 {
        let before = writer.confirmed();
        wait_until("items are confirmed", || writer.confirmed() > before + 300);
        hosts.unplug();
        writer.wait_for_silence();
        hosts.plug();
    }
    let before = writer.confirmed();
    wait_until("items are confirmed again", || writer.confirmed() > before + 300);
    let count = writer.end();
    let _here = hosts.enter(Host::Near);
    let tables = Tables::at(ADDRESS);
    assert_eq!(tables.inserted("t"), count);
    let samples = tables.0.sample("t", usize::try_from(count).unwrap()).unwrap();
    let numbers = samples.iter().map(|sample| sample.columns().unwrap()[0].to_vec::<i64>().unwrap()[0]);
    assert!(numbers.eq(0..count), "of {count}");
}
