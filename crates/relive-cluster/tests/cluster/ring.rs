//! Rings of threads and of processes: their results, and their behavior when members fail.

#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a failed test is one that ends, and counts are small"
)]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use relive_cluster::reduce::{Meeting, Reduction, Ring, RingError, RingOptions};

fn options(ranks: u32) -> RingOptions {
    RingOptions { ranks, job: "a test".into(), token: "secret".into(), ..RingOptions::default() }
}

/// Runs `member` for each member on its own thread. Returns the results by rank.
fn members<R: Send + 'static>(
    options: &RingOptions,
    member: impl Fn(Ring) -> R + Clone + Send + 'static,
) -> Vec<R> {
    let meeting = Meeting::open("127.0.0.1:0", options.clone()).unwrap();
    let address = meeting.address().to_string();
    let others: Vec<_> = (1..options.ranks)
        .map(|rank| {
            let (member, options, address) = (member.clone(), options.clone(), address.clone());
            std::thread::spawn(move || member(Ring::join(&address, rank, options).unwrap()))
        })
        .collect();
    let first = member(meeting.ring(|| Ok(())).unwrap());
    std::iter::once(first).chain(others.into_iter().map(|other| other.join().unwrap())).collect()
}

#[test]
fn joining_a_complete_ring_is_refused_at_once() {
    let options = options(2);
    let meeting = Meeting::open("127.0.0.1:0", options.clone()).unwrap();
    let address = meeting.address().to_string();
    let (to, own) = (address.clone(), options.clone());
    let other = std::thread::spawn(move || Ring::join(&to, 1, own).unwrap());
    let ring = meeting.ring(|| Ok(())).unwrap();
    let other = other.join().unwrap();
    // These connections send nothing, and must not delay the meeting.
    let silent: Vec<_> = (0..15).map(|_| std::net::TcpStream::connect(&address).unwrap()).collect();
    let stranger = RingOptions { token: "another".into(), ..options.clone() };
    for (options, expected) in [(options, "rank 1 is taken by"), (stranger, "its token is wrong")] {
        let since = Instant::now();
        match Ring::join(&address, 1, options.clone()) {
            Err(RingError::Refused { reason, .. }) => assert!(reason.contains(expected), "{reason}"),
            joined => panic!("{joined:?}"),
        }
        assert!(since.elapsed() < options.meeting, "it has not waited for a meeting");
    }
    drop(silent);
    let working = std::thread::spawn(move || {
        let mut numbers = [1.0];
        other.all_reduce(&mut numbers, Reduction::Sum).unwrap();
        other.leave();
        numbers
    });
    let mut numbers = [2.0];
    ring.all_reduce(&mut numbers, Reduction::Sum).unwrap();
    ring.leave();
    assert_eq!((working.join().unwrap(), numbers), ([3.0], [3.0]));
}

/// Returns numbers with sums that depend on their order.
fn numbers(rank: u32, len: usize) -> Vec<f32> {
    (0..len)
        .map(|index| {
            ((index * 31 + rank as usize * 17) as f32).sin() * [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6][index % 7]
        })
        .collect()
}

#[test]
fn all_members_get_the_same_bits_in_every_run() {
    for (ranks, len) in [(1, 5), (2, 300_001), (3, 2), (4, 70_000)] {
        let run = || {
            members(&options(ranks), move |ring| {
                let mut mean = numbers(ring.rank(), len);
                ring.all_reduce(&mut mean, Reduction::Mean).unwrap();
                let mut sum = numbers(ring.rank(), len);
                ring.all_reduce(&mut sum, Reduction::Sum).unwrap();
                ring.leave();
                [mean, sum]
            })
        };
        let (first, second) = (run(), run());
        assert!(first.iter().chain(&second).all(|own| *own == first[0]), "{ranks} members differ");
        let [mean, sum] = &first[0];
        let all: Vec<Vec<f32>> = (0..ranks).map(|rank| numbers(rank, len)).collect();
        for index in 0..len {
            let of = || all.iter().map(|own| f64::from(own[index]));
            let (expected, scale) = (of().sum::<f64>(), of().map(f64::abs).sum::<f64>());
            assert!((f64::from(sum[index]) - expected).abs() <= 1e-6 * scale, "{index}");
            assert!((f64::from(mean[index]) - expected / f64::from(ranks)).abs() <= 1e-6 * scale, "{index}");
        }
    }
}

#[test]
fn numbers_are_gathered_and_bytes_broadcast() {
    let all = members(&options(3), |ring| {
        let rank = f64::from(ring.rank());
        let gathered = ring.gather(&[rank, 10.0 * rank]).unwrap();
        let mut bytes = vec![u8::try_from(ring.rank()).unwrap(); 3 + 100_000 * (2 - ring.rank() as usize)];
        ring.broadcast(&mut bytes).unwrap();
        ring.leave();
        (gathered, bytes)
    });
    for (gathered, bytes) in all {
        assert_eq!(gathered, [[0.0, 0.0], [1.0, 10.0], [2.0, 20.0]]);
        assert!(bytes.len() == 200_003 && bytes.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_member_making_a_different_call_is_named() {
    let errors = members(&options(2), |ring| {
        let mut own = vec![1.0; 10 + ring.rank() as usize];
        let error = ring.all_reduce(&mut own, Reduction::Sum).unwrap_err();
        // The ring is unusable after the error.
        assert_eq!(ring.gather(&[]).unwrap_err().is_over(), matches!(error, RingError::Mismatch { .. }));
        error
    });
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(
        texts.iter().any(|text| text.contains("of 44 bytes") && text.contains("of 40 bytes")),
        "{texts:?}"
    );
}

#[test]
fn a_leaving_member_ends_the_others_after_completed_calls() {
    let ends = members(&options(3), |ring| {
        let mut own = [1.0];
        ring.all_reduce(&mut own, Reduction::Sum).unwrap();
        if ring.rank() == 1 {
            ring.leave();
            return (own, None);
        }
        let error = ring.all_reduce(&mut [2.0], Reduction::Sum).unwrap_err();
        (own, Some(error))
    });
    assert_eq!(ends[1], ([3.0], None));
    for end in [&ends[0], &ends[2]] {
        assert_eq!(*end, ([3.0], Some(RingError::Left { rank: 1 })));
        assert!(end.1.as_ref().is_some_and(RingError::is_over));
    }
}

#[test]
fn a_live_but_absent_member_is_named_at_the_timeout() {
    let slow =
        RingOptions { timeout: Duration::from_millis(400), silence: Duration::from_secs(20), ..options(3) };
    let (expected, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    let ends = members(&slow, move |ring| {
        if ring.rank() == 2 {
            // This member lives until the first one has given up.
            let _ = wait.lock().unwrap().recv();
            return None;
        }
        let error = ring.all_reduce(&mut [1.0], Reduction::Sum).unwrap_err();
        if ring.rank() == 0 {
            let _ = expected.send(());
        }
        Some(error)
    });
    let named = ends
        .iter()
        .flatten()
        .filter(|error| matches!(error, RingError::Late { who, call: 1, .. } if who.contains("member 2")));
    assert!(named.count() >= 1, "{ends:?}");
}

#[test]
fn strangers_are_refused_with_the_reason_and_the_meeting_continues() {
    let meeting = Meeting::open("127.0.0.1:0", options(2)).unwrap();
    let address = meeting.address().to_string();
    let joining = std::thread::spawn(move || {
        let join = |change: &dyn Fn(&mut RingOptions), rank| {
            let mut options = options(2);
            change(&mut options);
            Ring::join(&address, rank, options).map(drop).unwrap_err().to_string()
        };
        let refusals = [
            (join(&|options| options.token = "guessed".into(), 1), "token"),
            (
                join(&|options| options.job = "other".into(), 1),
                "job `other`, but the ring belongs to job `a test`",
            ),
            (join(&|options| options.ranks = 3, 2), "expects 3 members, but the ring has 2"),
            (join(&|_| {}, 2), "rank is 2, but it must be 0 to 1"),
            (join(&|_| {}, 0), "member 0 opens the meeting"),
        ];
        // A connection that is not a member.
        drop(std::net::TcpStream::connect(&address).unwrap());
        let ring = Ring::join(&address, 1, options(2)).unwrap();
        let sum = ring.gather(&[1.0]).unwrap();
        ring.leave();
        (refusals, sum)
    });
    let ring = meeting.ring(|| Ok(())).unwrap();
    assert_eq!(ring.gather(&[2.0]).unwrap(), [[2.0], [1.0]]);
    let (refusals, sum) = joining.join().unwrap();
    assert_eq!(sum, [[2.0], [1.0]]);
    for (text, expected) in refusals {
        assert!(text.contains(expected), "{text}");
    }
}

/// Reading the silent connections one after the other would take longer than the meeting.
#[test]
fn silent_connections_do_not_delay_a_meeting() {
    let brief = RingOptions { meeting: Duration::from_secs(10), ..options(2) };
    let meeting = Meeting::open("127.0.0.1:0", brief.clone()).unwrap();
    let address = meeting.address().to_string();
    let _silent: Vec<_> = (0..20).map(|_| std::net::TcpStream::connect(&address).unwrap()).collect();
    let joining = std::thread::spawn(move || Ring::join(&address, 1, brief).map(|ring| ring.leave()));
    meeting.ring(|| Ok(())).unwrap().leave();
    joining.join().unwrap().unwrap();
}

#[test]
fn times_that_no_member_could_keep_are_refused() {
    let refused = |options: RingOptions| Meeting::open("127.0.0.1:0", options).unwrap_err().to_string();
    let brief = refused(RingOptions { silence: Duration::from_millis(5), ..options(2) });
    assert!(brief.contains("silence") && brief.contains("from 8ms to 365 days"), "{brief}");
    let endless = refused(RingOptions { meeting: Duration::MAX, ..options(2) });
    assert!(endless.contains("meeting") && endless.contains("from 1ns to 365 days"), "{endless}");
}

#[test]
fn an_incomplete_meeting_times_out() {
    let soon = RingOptions { meeting: Duration::from_millis(50), ..options(3) };
    let meeting = Meeting::open("127.0.0.1:0", soon.clone()).unwrap();
    let address = meeting.address().to_string();
    let text = meeting.ring(|| Ok(())).unwrap_err().to_string();
    assert!(text.contains("these of the 3 members did not join within 0.05 s: 1, 2"), "{text}");
    let text = Ring::join(&address, 1, soon).unwrap_err().to_string();
    assert!(text.contains("cannot connect"), "{text}");
    let meeting = Meeting::open("127.0.0.1:0", options(2)).unwrap();
    let text = meeting.ring(|| Err("learner 1 has ended".to_owned())).unwrap_err().to_string();
    assert!(text.ends_with("learner 1 has ended"), "{text}");
}

#[test]
fn an_interrupted_call_ends_and_the_other_members_get_the_reason() {
    let ends = members(&options(2), |ring| {
        let is_first = ring.rank() == 0;
        let ring = ring.checked_by(move || if is_first { Err("Ctrl-C".to_owned()) } else { Ok(()) });
        let error = if is_first {
            // The other member does not make this call.
            ring.gather(&[1.0]).unwrap_err()
        } else {
            while ring.check().is_ok() {
                std::thread::yield_now();
            }
            ring.check().unwrap_err()
        };
        error.to_string()
    });
    assert_eq!(ends[0], "the call of the ring was interrupted: Ctrl-C");
    assert!(
        ends[1].starts_with("lost member 0 (") && ends[1].ends_with("interrupted: Ctrl-C"),
        "{}",
        ends[1]
    );
}

const ADDRESS: &str = "RELIVE_TEST_RING";

/// In a process that another test starts, this is a member that adds until the ring breaks; run by itself, it is a ring
/// of one member.
#[test]
fn member_process() {
    let Ok(address) = std::env::var(ADDRESS) else {
        let mut own = [3.0];
        Ring::alone().all_reduce(&mut own, Reduction::Mean).unwrap();
        assert_eq!(own, [3.0]);
        return;
    };
    let (address, rank) = address.split_once('#').unwrap();
    let ring = Ring::join(address, rank.parse().unwrap(), quick()).unwrap();
    while ring.all_reduce(&mut [1.0; 1000], Reduction::Sum).is_ok() {}
}

fn quick() -> RingOptions {
    RingOptions { silence: Duration::from_millis(1500), timeout: Duration::from_secs(60), ..options(3) }
}

/// A process that is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the error of the first of three members after the last one has received a signal.
fn after(signal: rustix::process::Signal) -> (RingError, u32, Duration) {
    let meeting = Meeting::open("127.0.0.1:0", quick()).unwrap();
    let start = |rank: u32| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["ring::member_process", "--exact"]).stdout(Stdio::null());
        command.env(ADDRESS, format!("{}#{rank}", meeting.address()));
        Running(command.spawn().unwrap())
    };
    let processes = [start(1), start(2)];
    let ring = meeting.ring(|| Ok(())).unwrap();
    for _ in 0..20 {
        let mut sum = [1.0; 1000];
        ring.all_reduce(&mut sum, Reduction::Sum).unwrap();
        assert!(sum.iter().all(|sum| *sum == 3.0));
    }
    let pid = rustix::process::Pid::from_child(&processes[1].0);
    rustix::process::kill_process(pid, signal).unwrap();
    let since = Instant::now();
    let error = loop {
        if let Err(error) = ring.all_reduce(&mut [1.0; 1000], Reduction::Sum) {
            break error;
        }
    };
    (error, processes[1].0.id(), since.elapsed())
}

#[test]
fn a_killed_member_is_named() {
    let (error, process, took) = after(rustix::process::Signal::KILL);
    assert!(matches!(&error, RingError::Lost { rank: 2, .. }), "{error}");
    assert!(error.to_string().contains(&format!("process {process}")), "{error}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_suspended_member_is_named() {
    let (error, _, took) = after(rustix::process::Signal::STOP);
    assert!(
        matches!(&error, RingError::Lost { rank: 2, reason, .. } if reason.contains("it has been silent for 1.5 s")),
        "{error}"
    );
    assert!(took < Duration::from_secs(15), "{took:?}");
}
