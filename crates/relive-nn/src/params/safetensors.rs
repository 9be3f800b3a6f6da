//! Stores parameters as a safetensors file, from which Python can read them with their names and shapes.

use std::collections::{BTreeMap, HashMap};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::Params;
use crate::error::Error;
use crate::limits;

impl Params {
    /// Serializes all leaves by name as a safetensors file, together with metadata (such as the network's
    /// configuration).
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge) if the text exceeds [`limits::MAX_METADATA_BYTES`].
    pub fn to_safetensors(&self, metadata: &BTreeMap<String, String>) -> Result<Vec<u8>, Error> {
        let bytes: usize = metadata.iter().map(|(name, text)| name.len() + text.len()).sum();
        if bytes > limits::MAX_METADATA_BYTES {
            let limit = limits::MAX_METADATA_BYTES;
            return Err(Error::too_large(format!("{bytes} bytes of metadata; the limit is {limit}")));
        }
        let views = self.layout().leaves().iter().map(|leaf| {
            let bytes = bytemuck::cast_slice(&self.values()[leaf.range()]);
            let view = TensorView::new(Dtype::F32, leaf.shape().to_vec(), bytes);
            view.map(|view| (leaf.name(), view))
        });
        let views: Vec<_> = views.collect::<Result<_, _>>().map_err(|e| Error::damaged(e.to_string()))?;
        let text: HashMap<String, String> = metadata.clone().into_iter().collect();
        safetensors::serialize(views, Some(text)).map_err(|error| Error::damaged(error.to_string()))
    }

    /// Replaces all numbers with the contents of a safetensors file that contains exactly the leaves of this layout.
    /// Increments the version.
    ///
    /// # Errors
    /// If the file is damaged, lacks a leaf, has a leaf with a different shape or type, or has leaves that the layout
    /// does not have. In that case, nothing changes.
    pub fn set_safetensors(&mut self, file: &[u8]) -> Result<(), Error> {
        let file = parse(file)?;
        let mut values = vec![0.0; self.values().len()];
        for leaf in self.layout().leaves() {
            let tensor = file.tensor(leaf.name()).map_err(|_| lacks(leaf.name(), &file))?;
            if tensor.dtype() != Dtype::F32 || tensor.shape() != leaf.shape() {
                return Err(Error::mismatch(format!(
                    "leaf {} has shape {:?} and type f32, but the file has shape {:?} and type {:?}",
                    leaf.name(),
                    leaf.shape(),
                    tensor.shape(),
                    tensor.dtype(),
                )));
            }
            bytemuck::cast_slice_mut::<f32, u8>(&mut values[leaf.range()]).copy_from_slice(tensor.data());
        }
        if file.len() > self.layout().leaves().len() {
            let unknown = |name: &&&str| self.layout().leaves().iter().all(|leaf| leaf.name() != **name);
            let names = file.names();
            let name = names.iter().find(unknown).map_or("", |name| *name);
            return Err(Error::mismatch(format!(
                "the file has a leaf {name}, which this network does not have"
            )));
        }
        self.values_mut().copy_from_slice(&values);
        self.touch();
        Ok(())
    }
}

/// Returns the metadata saved with parameters in a safetensors file.
///
/// # Errors
/// If the file is damaged.
pub fn safetensors_metadata(file: &[u8]) -> Result<BTreeMap<String, String>, Error> {
    let (_, metadata) = SafeTensors::read_metadata(file).map_err(|error| refused(&error))?;
    Ok(metadata.metadata().iter().flatten().map(|(name, text)| (name.clone(), text.clone())).collect())
}

fn parse(file: &[u8]) -> Result<SafeTensors<'_>, Error> {
    SafeTensors::deserialize(file).map_err(|error| refused(&error))
}

fn refused(error: &safetensors::SafeTensorError) -> Error {
    Error::damaged(format!("not a safetensors file, or damaged: {error}"))
}

fn lacks(name: &str, file: &SafeTensors<'_>) -> Error {
    Error::mismatch(format!(
        "the file has no leaf {name}; its {} leaves belong to a different network",
        file.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Init, Key, Layout};

    fn params(seed: u64, outputs: usize, extra: bool) -> Params {
        let mut layout = Layout::new();
        layout.add("w", &[3, outputs], Init::PyTorch { fan_in: 3 });
        if extra {
            layout.add("b", &[2], Init::Constant(0.5));
        }
        layout.init(Key::from_seed(seed))
    }

    #[test]
    fn a_safetensors_file_round_trips() {
        let (from, mut to) = (params(1, 2, true), params(2, 2, true));
        let text = BTreeMap::from([("config".to_owned(), "{}".to_owned())]);
        let file = from.to_safetensors(&text).unwrap();
        to.set_safetensors(&file).unwrap();
        assert_eq!(to.values(), from.values());
        assert_eq!(to.version(), 1);
        assert_eq!(safetensors_metadata(&file).unwrap(), text);
    }

    #[test]
    fn foreign_and_damaged_parameter_files_are_refused() {
        let mut to = params(2, 2, true);
        let before = to.clone();
        let file = |params: Params| params.to_safetensors(&BTreeMap::new()).unwrap();
        for (other, part) in [(params(1, 2, false), "no leaf b"), (params(1, 3, true), "leaf w has shape")] {
            let error = to.set_safetensors(&file(other)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Mismatch);
            assert!(error.to_string().contains(part), "{error}");
        }
        let error = params(1, 2, false).set_safetensors(&file(params(1, 2, true))).unwrap_err();
        assert!(error.to_string().contains("a leaf b,"), "{error}");
        let whole = file(params(1, 2, true));
        for end in 0..whole.len() {
            assert_eq!(to.set_safetensors(&whole[..end]).unwrap_err().kind(), ErrorKind::Damaged, "{end}");
        }
        assert_eq!(to, before);
    }
}
