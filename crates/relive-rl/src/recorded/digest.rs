//! The digest of recorded episodes.

use flate2::Crc;
use relive_env::{Buffer, StepType};

use super::RecordedEpisode;
use crate::identity::DataDigest;

/// Returns the digest of episodes. It depends only on the numbers that a learner sees, and therefore neither on the
/// file's location nor on its format.
pub(super) fn digest(episodes: &[RecordedEpisode]) -> DataDigest {
    let [mut observations, mut actions, mut rewards, mut ends] = [(); 4].map(|()| Crc::new());
    for episode in episodes {
        add(&mut observations, &episode.observations);
        add(&mut actions, &episode.actions);
        for answer in &episode.answers {
            rewards.update(&as_learnt(answer.reward));
            ends.update(&[u8::from(answer.step_type == StepType::Last)]);
            ends.update(&as_learnt(answer.discount));
        }
    }
    let checksums =
        [("observations", observations), ("actions", actions), ("rewards", rewards), ("episode ends", ends)];
    DataDigest {
        episodes: episodes.len() as u64,
        steps: episodes.iter().map(|episode| episode.answers.len() as u64).sum(),
        checksums: checksums.into_iter().map(|(name, crc)| (name.to_owned(), crc.sum())).collect(),
    }
}

/// Returns the bytes of a reward or discount as a learner gets it, which is also how the folder format stores it.
#[expect(clippy::cast_possible_truncation, reason = "learners have float32 rewards")]
fn as_learnt(number: f64) -> [u8; 4] {
    (number as f32).to_le_bytes()
}

fn add(crc: &mut Crc, buffer: &Buffer) {
    (0..buffer.num_leaves()).filter_map(|leaf| buffer.leaf_bytes(leaf)).for_each(|bytes| crc.update(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode() -> RecordedEpisode {
        let mut environment = relive_env::make("deep_sea/0", 1).unwrap();
        RecordedEpisode::demonstrated(&mut environment).unwrap()
    }

    /// Returns the names of the checksums that differ after an episode is changed.
    fn changed(change: impl FnOnce(&mut RecordedEpisode)) -> Vec<String> {
        let (before, mut other) = (digest(&[episode()]), episode());
        change(&mut other);
        let after = digest(&[other]);
        let differing =
            before.checksums.iter().filter(|(name, sum)| after.checksums.get(*name) != Some(*sum));
        differing.map(|(name, _)| name.clone()).collect()
    }

    #[test]
    fn each_number_counts_and_only_numbers_do() {
        assert_eq!(digest(&[episode()]), digest(&[episode()]));
        assert_eq!(changed(|_| {}), Vec::<String>::new());
        assert_eq!(changed(|other| other.answers[0].reward += 1e-12), Vec::<String>::new());
        assert_eq!(changed(|other| other.answers[0].reward += 1.0), ["rewards"]);
        assert_eq!(changed(|other| other.answers[0].discount = 0.5), ["episode ends"]);
        assert_eq!(changed(|other| other.actions.leaf_bytes_mut(0).unwrap()[0] ^= 1), ["actions"]);
        assert_eq!(changed(|other| other.observations.leaf_bytes_mut(0).unwrap()[0] ^= 1), ["observations"]);
        let twice = digest(&[episode(), episode()]);
        assert_eq!((twice.episodes, twice.steps), (2, 2 * digest(&[episode()]).steps));
    }
}
