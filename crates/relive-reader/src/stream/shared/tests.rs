//! Performs random operations of a sampler and its workers, and checks that no task sleeps while it has work and that
//! no sample is requested twice.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use relive_connection::HEALTHY_LIFE;
use relive_wire::sample::ReceivedSample;
use tokio::time::{Instant, advance};
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

const PATIENCE: Duration = Duration::from_secs(1);

/// A sampler whose server has just become unreachable.
fn in_an_outage() -> Shared {
    let options = SamplerOptions::default();
    let shared = Shared::new("t", &options, options.capacity(), PATIENCE);
    shared.stream_broke("gone");
    shared
}

/// Returns the time at which the caller gives up.
fn give_up_at(shared: &Shared) -> Option<Instant> {
    match shared.take(&mut VecDeque::new(), 0, Waker::noop()) {
        TakeResult::Nothing { give_up_at } => give_up_at,
        _ => panic!("nothing has arrived"),
    }
}

/// Opens a stream and, if the server accepts the connection, sends a request. The stream breaks after `life`.
async fn stream_for(shared: &Shared, life: Duration, is_accepted: bool) {
    let stream = shared.begin_stream(0).unwrap();
    if is_accepted {
        assert!(shared.poll_request(0, stream, &Context::from_waker(Waker::noop())).is_ready());
    }
    advance(life).await;
    shared.end_stream(0);
    shared.stream_broke("gone again");
}

#[tokio::test(start_paused = true)]
async fn an_outage_ends_with_an_answer_or_a_stream_that_lasts() {
    let end = Some(Instant::now() + PATIENCE);
    let shared = in_an_outage();
    stream_for(&shared, HEALTHY_LIFE / 2, true).await;
    assert_eq!(give_up_at(&shared), end, "a server that accepts connections, but answers nothing useful");
    stream_for(&shared, HEALTHY_LIFE, false).await;
    assert_eq!(give_up_at(&shared), end, "no request was sent");
    stream_for(&shared, HEALTHY_LIFE, true).await;
    assert_eq!(give_up_at(&shared), Some(Instant::now() + PATIENCE), "a new outage");
    shared.note_answer();
    assert_eq!(give_up_at(&shared), None);
}

#[tokio::test(start_paused = true)]
async fn nobody_gives_up_on_a_stream_that_is_open_again() {
    let shared = in_an_outage();
    let end = Some(Instant::now() + PATIENCE);
    assert_eq!(give_up_at(&shared), end);
    assert!(shared.outage().is_some_and(|error| error.to_string().contains("gone")));
    let stream = shared.begin_stream(0).unwrap();
    assert_eq!(give_up_at(&shared), end, "there is no connection yet");
    assert!(shared.poll_request(0, stream, &Context::from_waker(Waker::noop())).is_ready());
    assert_eq!(give_up_at(&shared), None);
    assert!(shared.outage().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stream_from_before_an_outage_does_not_end_it() {
    let options = SamplerOptions::default().num_workers(2);
    let shared = Shared::new("t", &options, options.capacity(), PATIENCE);
    let stream = shared.begin_stream(0).unwrap();
    assert!(shared.poll_request(0, stream, &Context::from_waker(Waker::noop())).is_ready());
    advance(HEALTHY_LIFE).await;
    shared.begin_stream(1).unwrap();
    shared.end_stream(1);
    shared.stream_broke("gone");
    let end = Some(Instant::now() + PATIENCE);
    assert_eq!(
        give_up_at(&shared),
        end,
        "the first stream may be waiting for a server that no longer exists"
    );
    advance(PATIENCE).await;
    shared.end_stream(0);
    assert_eq!(give_up_at(&shared), end);
}
