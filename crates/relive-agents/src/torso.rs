//! How networks read observations: images with convolutions, everything else as numbers.

use relive_env::{Buffer, EnvironmentSpec};
use relive_nn::{Inputs, NetworkBuilder};
use relive_rl::{Features, Result};

use crate::images::{picture, plain_numbers};
use crate::settings;

/// The front layers of a network.
///
/// An observation is an image if it is one array of bytes `[height, width, channels]`, or `[height, width]` with numbers
/// from 0 to 255, of at least 36 x 36. The three convolutions of Mnih et al. (2015) read images directly from the bytes.
/// Other observations are read as the numbers of all their leaves.
#[derive(Debug, Clone)]
pub(crate) struct Torso {
    features: Features,
    picture: Option<[usize; 3]>,
}

impl Torso {
    /// Returns the torso for an environment's observations.
    ///
    /// # Errors
    /// Observations that are not numbers.
    pub(crate) fn of(spec: &EnvironmentSpec) -> Result<Torso> {
        let picture = picture(&spec.observations);
        let features = match picture {
            Some(_) => Features::of_observations(&spec.observations)?,
            None => plain_numbers(&spec.observations)?,
        };
        Ok(Torso { features, picture })
    }

    /// Returns the number of values in an observation.
    pub(crate) fn inputs(&self) -> usize {
        self.features.width()
    }

    /// Returns whether observations are images.
    pub(crate) fn sees_pictures(&self) -> bool {
        self.picture.is_some()
    }

    /// Checks that a network can have this torso, hidden layers and outputs.
    pub(crate) fn fits(&self, hidden: &[usize], outputs: usize) -> Result<()> {
        let Some([height, width, channels]) = self.picture else {
            return settings::fits(self.inputs(), hidden, outputs);
        };
        let places = |side: usize| ((side - 8) / 4 - 3) / 2 - 1;
        settings::fits(channels.saturating_mul(8 * 8), &[], 32)?;
        let behind = places(height).saturating_mul(places(width)).saturating_mul(64);
        settings::fits(behind, hidden, outputs)
    }

    /// Adds the front layers.
    pub(crate) fn layers<'a>(&self, builder: NetworkBuilder<'a>) -> NetworkBuilder<'a> {
        match self.picture {
            Some([height, width, channels]) => builder.image(height, width, channels).nature_torso(),
            None => builder,
        }
    }

    /// Returns the network's inputs for observations: images are used unchanged, and other observations are converted
    /// in `rows`, which is reused memory.
    pub(crate) fn read<'a>(&self, observations: &'a Buffer, rows: &'a mut Vec<f32>) -> Inputs<'a> {
        if let Some(bytes) = observations.leaf_bytes(0).filter(|_| self.sees_pictures()) {
            return Inputs::Bytes(bytes);
        }
        self.features.write_rows(observations, rows);
        Inputs::Floats(rows)
    }
}

/// Observations as network inputs, in reused memory.
#[derive(Debug)]
pub(crate) enum ObservationInputs {
    Numbers(Vec<f32>),
    Pictures(Vec<u8>),
}

impl Default for ObservationInputs {
    fn default() -> ObservationInputs {
        ObservationInputs::Numbers(Vec::new())
    }
}

impl ObservationInputs {
    /// Replaces the contents with observations.
    pub(crate) fn fill(&mut self, torso: &Torso, observations: &Buffer) {
        match self {
            ObservationInputs::Pictures(pictures) if torso.sees_pictures() => {
                pictures.clear();
                pictures.extend_from_slice(observations.leaf_bytes(0).unwrap_or_default());
            }
            ObservationInputs::Numbers(rows) if !torso.sees_pictures() => {
                torso.features.write_rows(observations, rows);
            }
            _ => {
                *self = if torso.sees_pictures() {
                    ObservationInputs::Pictures(Vec::new())
                } else {
                    ObservationInputs::default()
                };
                self.fill(torso, observations);
            }
        }
    }

    /// Returns the network's inputs.
    pub(crate) fn inputs(&self) -> Inputs<'_> {
        match self {
            ObservationInputs::Numbers(rows) => Inputs::Floats(rows),
            ObservationInputs::Pictures(pictures) => Inputs::Bytes(pictures),
        }
    }
}

#[cfg(test)]
mod tests {
    use relive_env::ArraySpec;
    use relive_nn::{Layout, Network};
    use relive_tensor::DType;

    use super::*;

    fn torso(dtype: DType, dims: &[u32]) -> Torso {
        let spec = EnvironmentSpec::new(ArraySpec::new("", dtype, dims), ArraySpec::discrete("", 2));
        Torso::of(&spec).unwrap()
    }

    #[test]
    fn images_are_large_arrays_of_bytes() {
        for (height, width, behind) in [(84, 84, 7 * 7), (36, 36, 1), (36, 51, 2), (210, 160, 22 * 16)] {
            let torso = torso(DType::UInt8, &[height, width, 3]);
            assert!(torso.sees_pictures() && torso.fits(&[8], 2).is_ok());
            let mut layout = Layout::new();
            let network = torso.layers(Network::builder(&mut layout, "q", torso.inputs())).build();
            assert_eq!(network.outputs(), behind * 64, "{height} x {width}");
            assert!(torso.fits(&[(1 << 28) / (behind * 64)], 2).is_err(), "as many numbers are counted");
        }
        assert!(torso(DType::UInt8, &[84, 84]).sees_pictures());
        let grid = ArraySpec::new("", DType::UInt8, [84, 84]).bounded(0.0, 5.0);
        let grid = EnvironmentSpec::new(grid, ArraySpec::discrete("", 2));
        assert!(!Torso::of(&grid).unwrap().sees_pictures(), "its numbers mean kinds");
        for (dtype, dims) in [
            (DType::UInt8, &[35, 84, 1][..]),
            (DType::UInt8, &[84, 35]),
            (DType::Float32, &[84, 84, 1]),
            (DType::UInt8, &[4, 84, 84]),
        ] {
            let torso = torso(dtype, dims);
            assert!(!torso.sees_pictures(), "{dims:?}");
        }
        assert!(torso(DType::UInt8, &[36, 36, 1 << 18]).fits(&[8], 2).is_err());
    }
}
