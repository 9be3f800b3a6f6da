use std::sync::Arc;

use relive_random::Key;

use super::layout::Layout;
use crate::error::Error;
use crate::kernels::wide;

/// Parameters of networks: all numbers in one array of f32, with the names and shapes of a [`Layout`].
///
/// Parameters are plain data: they are copied to target networks, sent to actors as [`bytes`](Self::as_bytes), and
/// updated by an [`Optimizer`](crate::Optimizer). Their [`version`](Self::version) increases with every change that
/// readers should notice.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    layout: Arc<Layout>,
    values: Vec<f32>,
    version: u64,
}

impl Layout {
    /// Creates initial parameters. Each leaf has its own random stream, derived from its name, so the same key gives
    /// the same numbers on any thread, regardless of other leaves.
    pub fn init(self, key: Key) -> Params {
        let mut values = vec![0.0; self.len()];
        for leaf in self.leaves() {
            leaf.init.fill(&mut values[leaf.range()], &mut key.child(leaf.name()).stream());
        }
        Params { layout: Arc::new(self), values, version: 0 }
    }
}

impl Params {
    /// Returns the names and shapes.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns all numbers, one leaf after the other.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns all numbers, mutable. The version stays the same; see [`touch`](Self::touch).
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// Returns the numbers of a named leaf.
    pub fn leaf(&self, name: &str) -> Option<&[f32]> {
        let leaf = self.layout.leaves().iter().find(|leaf| leaf.name() == name)?;
        self.values.get(leaf.range())
    }

    /// Returns the number of changes so far. Actors compare versions to determine whether to fetch weights.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Counts a change.
    pub fn touch(&mut self) {
        self.version += 1;
    }

    /// Returns all numbers as little-endian bytes, with four bytes per number.
    pub fn as_bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.values)
    }

    /// Replaces all numbers with the output of [`as_bytes`](Self::as_bytes) for parameters with the same layout, and
    /// sets the version.
    ///
    /// # Errors
    /// [`Mismatch`](crate::ErrorKind::Mismatch) if the number of bytes does not match the layout. In that case, nothing
    /// changes.
    pub fn set_bytes(&mut self, bytes: &[u8], version: u64) -> Result<(), Error> {
        let own = bytemuck::cast_slice_mut::<f32, u8>(&mut self.values);
        if bytes.len() != own.len() {
            return Err(Error::mismatch(format!(
                "{} bytes of parameters, but this network has {} ({} leaves); they belong to a different network",
                bytes.len(),
                own.len(),
                self.layout.leaves().len(),
            )));
        }
        own.copy_from_slice(bytes);
        self.version = version;
        Ok(())
    }

    /// Copies numbers and version, as in a hard update of a target network.
    ///
    /// # Panics
    /// If the layouts differ.
    pub fn copy_from(&mut self, other: &Self) {
        self.assert_same_layout(other);
        self.values.copy_from_slice(&other.values);
        self.version = other.version;
    }

    /// Moves toward other parameters, `self += tau·(other − self)` (Polyak averaging, Lillicrap et al. 2016), and
    /// copies their version.
    ///
    /// # Panics
    /// If the layouts differ.
    pub fn polyak_from(&mut self, other: &Self, tau: f32) {
        self.assert_same_layout(other);
        let pairs = self.values.iter_mut().zip(&other.values);
        wide(|| pairs.for_each(|(own, new)| *own += tau * (new - *own)));
        self.version = other.version;
    }

    fn assert_same_layout(&self, other: &Self) {
        let same = Arc::ptr_eq(&self.layout, &other.layout) || self.layout == other.layout;
        assert!(same, "parameters of a different network: {} and {}", self.values.len(), other.values.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::params::Init;
    use relive_random::Key;

    fn params(seed: u64) -> Params {
        let mut layout = Layout::new();
        layout.add("w", &[3, 2], Init::PyTorch { fan_in: 3 });
        layout.add("b", &[2], Init::Constant(0.5));
        layout.init(Key::from_seed(seed))
    }

    #[test]
    fn parameters_round_trip_through_bytes() {
        let (from, mut to) = (params(1), params(2));
        assert_ne!(from, to);
        to.set_bytes(from.as_bytes(), 7).unwrap();
        assert_eq!(to.values(), from.values());
        assert_eq!(to.version(), 7);
        let error = to.set_bytes(&[0; 31], 8).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(error.to_string().contains("31 bytes"), "{error}");
        assert_eq!(to.version(), 7);
    }

    #[test]
    fn a_leaf_is_initialized_independently_of_other_leaves() {
        let mut layout = Layout::new();
        layout.add("other", &[9], Init::PyTorch { fan_in: 3 });
        layout.add("w", &[3, 2], Init::PyTorch { fan_in: 3 });
        assert_eq!(layout.init(Key::from_seed(1)).leaf("w"), params(1).leaf("w"));
    }

    #[test]
    fn target_networks_follow_the_online_network() {
        let (online, mut target) = (params(1), params(2));
        let before = target.values()[0];
        target.polyak_from(&online, 0.25);
        assert_eq!(target.values()[0], before + 0.25 * (online.values()[0] - before));
        target.copy_from(&online);
        assert_eq!(target, online);
    }
}
