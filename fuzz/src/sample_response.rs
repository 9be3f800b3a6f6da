//! `SampleStreamResponse` messages.

use relive_wire::Message;
use relive_wire::reverb::{SampleInfo, SampleStreamResponse};
use relive_wire::sample::{Assembler, ReceivedSample};

use super::trajectory;

/// Checks that messages become samples whose trajectories can be decoded, or errors, and that a full protobuf decoder
/// reads the same samples from the message as Relive's decoder.
pub fn check(data: &[u8]) -> bool {
    let (mut assembler, mut samples) = (Assembler::default(), Vec::new());
    let read = assembler.push(&data.to_vec().into(), &mut samples);
    if let Ok(message) = SampleStreamResponse::decode(data) {
        compare(&message, &samples);
        let unfinished = message.entries.last().is_some_and(|entry| !entry.end_of_sequence);
        assert!(read.is_err() || assembler.is_mid_sample() == unfinished);
    }
    let mut accepted = false;
    for sample in &samples {
        let trajectory = sample.trajectory();
        assert!(
            trajectory.as_ref().is_ok_and(|t| t.num_columns() == sample.num_columns()) || trajectory.is_err()
        );
        let Ok(trajectory) = trajectory else { continue };
        trajectory::check(&trajectory);
        accepted = true;
    }
    accepted
}

/// Checks that every decoded sample matches the entries of `message`.
fn compare(message: &SampleStreamResponse, samples: &[ReceivedSample]) {
    let mut entries = message.entries.iter();
    for sample in samples {
        let mut chunks = Vec::new();
        let mut info = None;
        for entry in entries.by_ref() {
            info = info.or(entry.info.as_ref());
            chunks.extend(&entry.data);
            if entry.end_of_sequence {
                break;
            }
        }
        assert!(sample.chunks().eq(chunks.iter().map(AsRef::as_ref)));
        compare_info(info.expect("an entry that begins a sample has information"), sample);
    }
}

fn compare_info(info: &SampleInfo, sample: &ReceivedSample) {
    let (item, ours) = (info.item.clone().unwrap_or_default(), sample.info());
    assert_eq!(sample.table(), item.table);
    assert_eq!((ours.key, ours.times_sampled), (item.key, item.times_sampled));
    assert_eq!(ours.priority.to_bits(), item.priority.to_bits());
    assert_eq!(ours.probability.to_bits(), info.probability.to_bits());
    assert_eq!((ours.table_size, ours.rate_limited), (info.table_size, info.rate_limited));
    assert_eq!(ours.inserted_at, item.inserted_at.map(|at| (at.seconds, at.nanos)));
}
