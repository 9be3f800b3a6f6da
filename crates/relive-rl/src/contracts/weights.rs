//! The weights that a learner publishes to policies.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use relive_tensor::Tensor;

/// The weights that a learner publishes and a policy loads: named tensors and a version. Clones are cheap.
#[derive(Clone)]
pub struct Weights {
    version: u64,
    parts: Arc<[(String, Tensor)]>,
}

impl Weights {
    /// Creates weights from tensors, in the learner's order.
    pub fn new(version: u64, parts: impl Into<Arc<[(String, Tensor)]>>) -> Weights {
        Weights { version, parts: parts.into() }
    }

    /// Returns the version, which increases with every step of the learner.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns all tensors with their names.
    #[must_use]
    pub fn parts(&self) -> &[(String, Tensor)] {
        &self.parts
    }

    /// Returns the tensor with the given name.
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

/// The store in which a learner publishes its newest weights, for policies in the same process. Clones are cheap and
/// share the weights.
#[derive(Debug, Clone, Default)]
pub(crate) struct WeightStore(Arc<Mutex<Option<Weights>>>);

impl WeightStore {
    /// Publishes newer weights.
    pub(crate) fn publish(&self, weights: Weights) {
        // The old weights are dropped outside the lock.
        let _old = self.0.lock().replace(weights);
    }

    /// Returns the newest weights.
    pub(crate) fn newest(&self) -> Option<Weights> {
        self.0.lock().clone()
    }

    /// Returns the newest weights, unless the reader already has this version.
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
