//! Performs random operations of a sampler and its workers, and checks that no task sleeps while it has work and that
//! no sample is requested twice.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use relive_connection::noting_health;
use relive_wire::sample::ReceivedSample;
use tokio::time::{Instant, timeout};
use tonic::Status;

use super::{READ_AHEAD_PAUSE, Shared, TakeResult};
use crate::options::SamplerOptions;
use crate::samples::Sample;

/// A task that, once it has to wait, sleeps until it is woken.
#[derive(Default)]
struct Sleeper(AtomicBool);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Sleeper {
    fn is_asleep(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[derive(Debug, Clone)]
enum Op {
    /// The connection polls a worker's requests, for whatever reason.
    Poll { worker: usize },
    /// The server sends samples.
    Deliver { worker: usize, samples: usize },
    /// The stream breaks, or has ended, and is opened again.
    Reopen { worker: usize },
    /// The caller takes samples until it would have to wait, or has taken this many.
    Take { samples: usize },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let worker = 0..2_usize;
    let op = prop_oneof![
        4 => worker.clone().prop_map(|worker| Op::Poll { worker }),
        4 => (worker.clone(), 1..6_usize).prop_map(|(worker, samples)| Op::Deliver { worker, samples }),
        1 => worker.prop_map(|worker| Op::Reopen { worker }),
        4 => (1..8_usize).prop_map(|samples| Op::Take { samples }),
    ];
    prop::collection::vec(op, 1..80)
}

/// One worker's connection.
struct Stream {
    number: u64,
    sleeper: Arc<Sleeper>,
    /// The number of samples that have been requested but not delivered.
    outstanding: usize,
    ended: bool,
}

struct Run {
    shared: Shared,
    streams: Vec<Stream>,
    caller: Arc<Sleeper>,
    taken: VecDeque<Sample>,
    credits: usize,
    received: usize,
    ended: bool,
}

impl Run {
    fn new(options: &SamplerOptions) -> Run {
        let shared = Shared::new("t", options, options.capacity(), Duration::from_secs(1));
        let streams = (0..options.useful_workers()).map(|worker| Stream {
            number: shared.begin_stream(worker).unwrap(),
            sleeper: Arc::default(),
            outstanding: 0,
            ended: false,
        });
        let streams = streams.collect();
        Run {
            shared,
            streams,
            caller: Arc::default(),
            taken: VecDeque::new(),
            credits: 0,
            received: 0,
            ended: false,
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Poll { worker } => self.poll(worker),
            Op::Deliver { worker, samples } => self.deliver(worker, samples),
            Op::Reopen { worker } => self.reopen(worker),
            Op::Take { samples } => self.take(samples),
        }
    }

    fn poll(&mut self, worker: usize) {
        let Some(stream) = self.streams.get_mut(worker).filter(|stream| !stream.ended) else { return };
        let waker = Waker::from(Arc::clone(&stream.sleeper));
        match self.shared.poll_request(worker, stream.number, &Context::from_waker(&waker)) {
            Poll::Ready(Some(request)) => stream.outstanding += usize::try_from(request.num_samples).unwrap(),
            Poll::Ready(None) => stream.ended = true,
            Poll::Pending => stream.sleeper.0.store(true, Ordering::SeqCst),
        }
    }

    fn deliver(&mut self, worker: usize, samples: usize) {
        let Some(stream) = self.streams.get_mut(worker) else { return };
        let samples = samples.min(stream.outstanding);
        stream.outstanding -= samples;
        let empty = || Sample::received(ReceivedSample::default());
        let mut samples: Vec<Sample> = (0..samples).map(|_| empty()).collect();
        self.shared.deliver(worker, &mut samples).unwrap();
    }

    fn reopen(&mut self, worker: usize) {
        let Some(stream) = self.streams.get_mut(worker) else { return };
        let outstanding = self.shared.end_stream(worker);
        assert_eq!(outstanding, stream.outstanding > 0);
        stream.outstanding = 0;
        stream.sleeper = Arc::default();
        match self.shared.begin_stream(worker) {
            Some(number) => (stream.number, stream.ended) = (number, false),
            None => stream.ended = true,
        }
    }

    fn take(&mut self, samples: usize) {
        for _ in 0..samples {
            if self.taken.pop_front().is_some() {
                (self.received, self.credits) = (self.received + 1, self.credits + 1);
                continue;
            }
            let waker = Waker::from(Arc::clone(&self.caller));
            match self.shared.take(&mut self.taken, std::mem::take(&mut self.credits), &waker) {
                TakeResult::Samples => self.caller.0.store(false, Ordering::SeqCst),
                TakeResult::End => self.ended = true,
                TakeResult::Nothing { .. } => return self.caller.0.store(true, Ordering::SeqCst),
                TakeResult::Error(error) => panic!("{error}"),
            }
        }
    }

    /// Runs every task that is awake, until all tasks sleep or the end is reached.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            for worker in 0..self.streams.len() {
                if self.streams[worker].ended && self.streams[worker].outstanding == 0 {
                    self.reopen(worker);
                }
                if !self.streams[worker].sleeper.is_asleep() {
                    self.poll(worker);
                }
                self.deliver(worker, usize::MAX);
            }
            if !self.caller.is_asleep() {
                self.take(3);
            }
            if self.ended {
                return;
            }
        }
        panic!("everybody sleeps after {} samples", self.received);
    }
}

proptest! {
    #[test]
    fn no_worker_misses_a_wakeup(
        ops in ops(), workers in 1..3_usize, in_flight in 1..10_usize, per_stream in 1..20_usize, max_samples in 1..60_usize
    ) {
        let options = SamplerOptions::default()
            .num_workers(workers)
            .max_in_flight_samples_per_worker(in_flight)
            .max_samples_per_stream(per_stream)
            .max_samples(max_samples);
        let mut run = Run::new(&options);
        for op in &ops {
            run.apply(op);
        }
        run.settle();
        prop_assert_eq!(run.received, max_samples);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_pauses_after_a_timeout_that_no_caller_waits_for() {
    let options = SamplerOptions::default();
    let shared = Shared::new("t", &options, options.capacity(), Duration::from_secs(1));
    let began = Instant::now();
    for _ in 0..3 {
        shared.limiter_timed_out(Status::deadline_exceeded("the table is blocked")).await;
    }
    assert!(began.elapsed() >= 3 * READ_AHEAD_PAUSE, "it paused for {:?}", began.elapsed());
    let taken = shared.take(&mut VecDeque::new(), 0, Waker::noop());
    assert!(matches!(taken, TakeResult::Nothing { .. }), "nobody waited for these timeouts");
}

#[tokio::test(start_paused = true)]
async fn an_outage_ends_with_an_answer_or_a_stream_that_lasts() {
    let options = SamplerOptions::default();
    let shared = Shared::new("t", &options, options.capacity(), Duration::from_secs(5));
    let is_out = || {
        let taken = shared.take(&mut VecDeque::new(), 0, Waker::noop());
        matches!(taken, TakeResult::Nothing { give_up_at: Some(_) })
    };
    let lasts = |seconds| timeout(Duration::from_secs(seconds), pending::<()>());
    let cx = Context::from_waker(Waker::noop());
    shared.stream_broke("gone");
    // A server accepts the connection, but answers nothing useful.
    let stream = shared.begin_stream(0).unwrap();
    assert!(shared.poll_request(0, stream, &cx).is_ready() && is_out());
    shared.end_stream(0);
    let _ = noting_health(lasts(1), || shared.note_long_stream(0)).await;
    assert!(is_out(), "the stream was short");
    shared.begin_stream(0).unwrap();
    let _ = noting_health(lasts(3), || shared.note_long_stream(0)).await;
    assert!(is_out(), "no request was sent");
    let stream = shared.begin_stream(0).unwrap();
    assert!(shared.poll_request(0, stream, &cx).is_ready());
    let _ = noting_health(lasts(3), || shared.note_long_stream(0)).await;
    assert!(!is_out());
    shared.stream_broke("gone");
    assert!(is_out());
    shared.note_answer();
    assert!(!is_out());
}
