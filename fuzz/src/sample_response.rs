//! `SampleStreamResponse` messages.

use relive_wire::Message;
use relive_wire::reverb::SampleStreamResponse;
use relive_wire::sample::Assembler;

use super::trajectory;

/// Entries become samples whose trajectories decode, or errors.
pub fn check(data: &[u8]) -> bool {
    let Ok(response) = SampleStreamResponse::decode(data) else { return false };
    let mut assembler = Assembler::default();
    let mut accepted = false;
    for entry in response.entries {
        let is_end = entry.end_of_sequence;
        let Ok(sample) = assembler.push(entry) else { return accepted };
        assert_eq!((sample.is_some(), assembler.is_mid_sample()), (is_end, !is_end));
        let Some(Ok(trajectory)) = sample.map(|sample| sample.trajectory()) else { continue };
        trajectory::check(&trajectory);
        accepted = true;
    }
    accepted
}
