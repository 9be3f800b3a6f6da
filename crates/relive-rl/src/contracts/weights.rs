//! Weights on their way from a learner to policies.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use relive_tensor::Tensor;

/// What a learner publishes and a policy loads: named tensors, and the number of the learner's version that they are.
/// Cheap to clone.
#[derive(Clone)]
pub struct Weights {
    version: u64,
    parts: Arc<[(String, Tensor)]>,
}

impl Weights {
    /// These tensors, in the order in which the learner lists them.
    pub fn new(version: u64, parts: impl Into<Arc<[(String, Tensor)]>>) -> Weights {
        Weights { version, parts: parts.into() }
    }

    /// Rises with every step of the learner.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// All tensors.
    #[must_use]
    pub fn parts(&self) -> &[(String, Tensor)] {
        &self.parts
    }

    /// The tensor of a name.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<&Tensor> {
        self.parts.iter().find(|(own, _)| own == name).map(|(_, tensor)| tensor)
    }
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<&str> = self.parts.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Weights").field("version", &self.version).field("parts", &parts).finish()
    }
}

/// Where a learner publishes its newest weights, for policies in the same process. Cheap to clone; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct WeightStore(Arc<Mutex<Option<Weights>>>);

impl WeightStore {
    /// Puts newer weights there.
    pub(crate) fn publish(&self, weights: Weights) {
        // What was there is dropped outside of the lock.
        let _old = self.0.lock().replace(weights);
    }

    /// The newest weights.
    pub(crate) fn newest(&self) -> Option<Weights> {
        self.0.lock().clone()
    }

    /// The newest weights, unless they are of the version that the reader has.
    pub(crate) fn newer_than(&self, version: Option<u64>) -> Option<Weights> {
        self.0.lock().as_ref().filter(|weights| Some(weights.version) != version).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_gets_each_version_once() {
        let store = WeightStore::default();
        assert!(store.newer_than(None).is_none());
        store.publish(Weights::new(3, [("b".to_owned(), Tensor::scalar(1.5_f32))]));
        let seen = store.newer_than(None).unwrap();
        assert_eq!((seen.version(), seen.parts().len(), seen.part("w").is_none()), (3, 1, true));
        assert!(store.newer_than(Some(3)).is_none());
        store.publish(Weights::new(4, []));
        assert_eq!(store.newer_than(Some(3)).unwrap().version(), 4);
    }
}
