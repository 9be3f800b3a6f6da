//! The saved parts of a run, by name.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use relive_env::State;

use crate::{Learner, Result, RlError, state};

/// The name of the learner's part.
pub(super) const LEARNER: &str = "learner";

/// Returns the state of a part, or `None` if it has none.
pub(crate) type SavePart = Box<dyn Fn() -> Option<Vec<u8>> + Send + Sync>;

/// The parts of a run, and their states when it was saved.
#[derive(Default)]
pub(crate) struct SavedParts {
    saved: BTreeMap<String, Vec<u8>>,
    parts: Mutex<BTreeMap<String, SavePart>>,
}

impl SavedParts {
    /// Parses the states from the output of [`save`](Self::save).
    ///
    /// # Errors
    /// The bytes do not encode states of parts.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<SavedParts> {
        let mut sections = Vec::new();
        state::restore("the parts of a run", bytes, |state| visit(state, &mut sections))?;
        let saved =
            sections.into_iter().map(|[name, part]| (String::from_utf8_lossy(&name).into_owned(), part));
        Ok(SavedParts { saved: saved.collect(), parts: Mutex::default() })
    }

    /// Returns the saved state of the part with the given name, if there is one.
    pub(crate) fn saved(&self, name: &str) -> Option<&[u8]> {
        self.saved.get(name).map(Vec::as_slice)
    }

    /// From now on, saves the part together with the run.
    pub(crate) fn keep(&self, name: &str, save_part: SavePart) {
        self.parts.lock().insert(name.to_owned(), save_part);
    }

    /// From now on, saves no part. Drops what the parts hold.
    pub(crate) fn forget(&self) {
        let parts = std::mem::take(&mut *self.parts.lock());
        drop(parts);
    }

    /// Returns the current state of the part with the given name, if there is such a part.
    pub(crate) fn now(&self, name: &str) -> Option<Vec<u8>> {
        self.parts.lock().get(name)?()
    }

    /// Returns the states of all parts.
    pub(crate) fn save(&self) -> Vec<u8> {
        let parts = self.parts.lock();
        let named_states =
            parts.iter().filter_map(|(name, save_part)| Some([name.as_bytes().to_vec(), save_part()?]));
        let mut sections: Vec<_> = named_states.collect();
        state::save(|state| visit(state, &mut sections))
    }
}

/// What the learner of an earlier run has learned.
pub(crate) struct EarlierLearner {
    /// The location of the earlier run's checkpoint.
    place: String,
    state: Vec<u8>,
}

impl EarlierLearner {
    /// Returns the learner in the parts of an earlier run, or `None` if that run had no learner.
    pub(crate) fn of(mut parts: SavedParts, place: String) -> Option<EarlierLearner> {
        parts.saved.remove(LEARNER).map(|state| EarlierLearner { place, state })
    }

    /// Makes a learner begin with what the earlier one has learned.
    pub(super) fn warm_start(&self, learner: &mut impl Learner) -> Result<()> {
        learner.warm_start(&self.state).map_err(|error| {
            let expected = format!(
                "the checkpoint of a run with the same agent and networks of the same shapes ({error})"
            );
            RlError::setting(WARM_START, &self.place, expected)
        })
    }
}

/// The name of the option in errors.
pub(crate) const WARM_START: &str = "warm_start";

fn visit(state: &mut State<'_>, sections: &mut Vec<[Vec<u8>; 2]>) {
    state.list(sections, Default::default, |state, section| {
        section.iter_mut().for_each(|part| state.bytes(part));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_parts_are_restored_by_name() {
        let kept = SavedParts::default();
        for number in 0..40_u8 {
            kept.keep(&format!("part {number}"), Box::new(move || (number != 7).then(|| vec![number; 3])));
        }
        let bytes = kept.save();
        let restored = SavedParts::from_bytes(&bytes).unwrap();
        assert_eq!(restored.saved("part 39"), Some(&[39; 3][..]));
        assert_eq!((restored.saved.len(), restored.saved("part 7")), (39, None));
        for cut in [0, 5, bytes.len() - 1] {
            assert!(SavedParts::from_bytes(&bytes[..cut]).is_err(), "{cut}");
        }
    }
}
