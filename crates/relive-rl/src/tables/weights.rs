//! Weights in tables: the newest weights of a run, and boxes in which readers wait for newer weights.

use std::time::Duration;

use bytes::Bytes;
use relive_client::blocking::Client;
use relive_client::{Nest, Tensor};
use relive_env::State;
use relive_table::TableConfig;
use relive_tensor::{DType, Shape};

use super::item::{self, ShouldContinue};
use crate::{Result, RlError, Weights, state};

/// The table with the newest weights as its only item.
pub(crate) const TABLE: &str = "weights";

/// The timeout for existing weights.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

const WHAT: &str = "the weights";

pub(crate) fn table() -> TableConfig {
    TableConfig::new(TABLE).max_size(1)
}

/// Returns a box for one reader: it contains the newest weights that the reader has not received. If the box is empty,
/// the reader waits until weights arrive.
pub(crate) fn fresh(reader: &str) -> TableConfig {
    TableConfig::new(fresh_name(reader)).max_size(1).max_times_sampled(1)
}

pub(crate) fn fresh_name(reader: &str) -> String {
    format!("fresh/{reader}")
}

/// Identifies the weights of a run; later weights have greater stamps. A driver that resumes from a checkpoint repeats
/// versions, but in a new epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    /// The epoch of the driver.
    pub(crate) epoch: u64,
    pub(crate) version: u64,
}

/// Weights in the form in which they are sent: the descriptions of the tensors, and their concatenated bytes.
#[derive(Debug, Clone)]
pub(crate) struct Packed {
    pub(crate) stamp: Stamp,
    parts: Tensor,
    bytes: Tensor,
}

impl Packed {
    pub(crate) fn of(weights: &Weights, epoch: u64) -> Result<Packed> {
        let size: usize = weights.parts().iter().map(|(_, tensor)| padded(size_of(tensor))).sum();
        let (mut parts, mut bytes) = (Vec::with_capacity(weights.parts().len()), Vec::with_capacity(size));
        for (name, tensor) in weights.parts() {
            parts.push(PackedTensor::of(name, tensor));
            bytes.extend_from_slice(tensor.bytes().map_or(&[][..], |bytes| bytes));
            bytes.resize(padded(bytes.len()), 0);
        }
        let parts = state::save(|state| visit(state, &mut parts));
        let stamp = Stamp { epoch, version: weights.version() };
        Ok(Packed { stamp, parts: flat(parts)?, bytes: flat(bytes)? })
    }

    /// Returns the tensors, which share the received bytes.
    pub(crate) fn unpack(&self) -> Result<Weights> {
        let [described, bytes] = [&self.parts, &self.bytes].map(Tensor::bytes);
        let (described, bytes) =
            described.zip(bytes).ok_or_else(|| RlError::state(WHAT, "they are not bytes"))?;
        let (mut parts, mut at) = (Vec::new(), 0);
        state::restore(WHAT, described, |state| visit(state, &mut parts))?;
        let mut tensors = Vec::with_capacity(parts.len());
        for part in parts {
            let (tensor, end) = part.tensor(bytes, at)?;
            tensors.push(tensor);
            at = padded(end);
        }
        Ok(Weights::new(self.stamp.version, tensors))
    }

    fn read(columns: &[Tensor]) -> Result<Packed> {
        let [parts, stamp, bytes] = columns else {
            let reason =
                format_args!("{} columns, not 3; another version of Relive wrote them", columns.len());
            return Err(RlError::state(WHAT, reason));
        };
        let stamp = stamp.to_vec::<u64>().map_err(|error| RlError::state(WHAT, error))?;
        let [epoch, version] = stamp.as_slice() else {
            return Err(RlError::state(WHAT, "their version stamp is not two numbers"));
        };
        let stamp = Stamp { epoch: *epoch, version: *version };
        Ok(Packed { stamp, parts: parts.clone(), bytes: bytes.clone() })
    }

    /// Replaces the newest weights, and writes them to the boxes of these readers.
    pub(crate) fn put(
        &self,
        client: &Client,
        readers: &[String],
        should_continue: ShouldContinue<'_>,
    ) -> Result<()> {
        let stamp = Tensor::from_slice(&[self.stamp.epoch, self.stamp.version], [2]);
        let stamp = stamp.map_err(|error| RlError::state(WHAT, error))?;
        let step = Nest::dict([
            ("parts", Nest::Leaf(self.parts.clone())),
            ("stamp", Nest::Leaf(stamp)),
            ("weights", Nest::Leaf(self.bytes.clone())),
        ]);
        let boxes: Vec<String> = readers.iter().map(|reader| fresh_name(reader)).collect();
        let tables: Vec<&str> = std::iter::once(TABLE).chain(boxes.iter().map(String::as_str)).collect();
        item::insert(client, &tables, &step, should_continue)
    }
}

fn flat(bytes: Vec<u8>) -> Result<Tensor> {
    let refused = |error: &dyn std::fmt::Display| RlError::state(WHAT, error);
    let length = u32::try_from(bytes.len()).map_err(|error| refused(&error))?;
    Tensor::new(DType::UInt8, Shape::from([length].as_slice()), Bytes::from(bytes))
        .map_err(|error| refused(&error))
}

fn size_of(tensor: &Tensor) -> usize {
    tensor.bytes().map_or(0, Bytes::len)
}

/// Rounds up to a multiple of the largest element size, at which each tensor begins.
fn padded(length: usize) -> usize {
    length.next_multiple_of(8)
}

/// Returns the newest weights, if they arrive in time.
///
/// # Errors
/// The server is lost, or the item does not contain weights.
pub(crate) fn get(client: &Client, timeout: Duration) -> Result<Packed> {
    let samples = client.with_timeout(timeout).sample(TABLE, 1)?;
    let sample = samples.first().ok_or_else(|| RlError::state(WHAT, "there are no weights"))?;
    Packed::read(&sample.columns()?)
}

/// Waits for weights in the box of a reader. Returns `None` if none arrive in time.
///
/// # Errors
/// The server is lost, the server has no such box, or the item does not contain weights.
pub(crate) fn wait(client: &Client, reader: &str, timeout: Duration) -> Result<Option<Packed>> {
    item::newest(client, &fresh_name(reader), timeout)?.as_deref().map(Packed::read).transpose()
}

/// The description of a tensor, field by field.
#[derive(Default)]
struct PackedTensor {
    name: Vec<u8>,
    dtype: Vec<u8>,
    dims: Vec<u32>,
    length: u64,
}

impl PackedTensor {
    fn of(name: &str, tensor: &Tensor) -> PackedTensor {
        PackedTensor {
            name: name.as_bytes().to_vec(),
            dtype: tensor.dtype().name().as_bytes().to_vec(),
            dims: tensor.shape().dims().to_vec(),
            length: size_of(tensor) as u64,
        }
    }

    /// Returns the tensor whose bytes begin at the given offset, and the offset at which they end.
    fn tensor(self, bytes: &Bytes, at: usize) -> Result<((String, Tensor), usize)> {
        let refused = |error: &dyn std::fmt::Display| RlError::state(WHAT, error);
        let name = String::from_utf8(self.name).map_err(|error| refused(&error))?;
        let dtype = String::from_utf8_lossy(&self.dtype).parse::<DType>().map_err(|error| refused(&error))?;
        let end = usize::try_from(self.length).ok().and_then(|length| at.checked_add(length));
        let end = end.filter(|end| *end <= bytes.len()).ok_or_else(|| refused(&"they are truncated"))?;
        let tensor = Tensor::new(dtype, Shape::from(self.dims.as_slice()), bytes.slice(at..end));
        Ok(((name, tensor.map_err(|error| refused(&error))?), end))
    }
}

fn visit(state: &mut State<'_>, parts: &mut Vec<PackedTensor>) {
    state.list(parts, PackedTensor::default, |state, part| {
        state.bytes(&mut part.name);
        state.bytes(&mut part.dtype);
        state.numbers(&mut part.dims);
        state.field(&mut part.length);
    });
}

#[cfg(test)]
mod tests {
    use relive_engine::Engine;

    use super::*;

    fn client() -> Client {
        Client::in_process(Engine::builder().table(table()).table(fresh("a")).build().unwrap()).unwrap()
    }

    #[test]
    fn weights_round_trip_and_the_newest_apply() {
        let client = client();
        let matrix = Tensor::from_slice(&[1.5_f32, -2.0, 0.0, 3.0, 4.0, 5.0], [2, 3]).unwrap();
        for (epoch, version) in [(1, 3), (2, 2)] {
            let parts = [("w".to_owned(), matrix.clone()), ("b".to_owned(), Tensor::scalar(7_i64))];
            Packed::of(&Weights::new(version, parts), epoch).unwrap().put(&client, &[], &|| true).unwrap();
            let packed = get(&client, TIMEOUT).unwrap();
            assert_eq!(packed.stamp, Stamp { epoch, version });
            let back = packed.unpack().unwrap();
            assert_eq!((back.version(), back.parts().len()), (version, 2));
            assert_eq!(back.part("w"), Some(&matrix));
            assert_eq!(back.part("b").unwrap().to_vec::<i64>().unwrap(), [7]);
        }
    }

    #[test]
    fn damaged_weights_are_refused() {
        let parts = [("w".to_owned(), Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3]).unwrap())];
        let packed = Packed::of(&Weights::new(1, parts), 1).unwrap();
        let whole = packed.bytes.bytes().unwrap();
        let cut = |length: usize| flat(whole[..length].to_vec()).unwrap();
        assert!(
            Packed { bytes: cut(16), ..packed.clone() }.unpack().is_ok(),
            "12 bytes, and 4 bytes of padding"
        );
        let error = Packed { bytes: cut(11), ..packed.clone() }.unpack().unwrap_err().to_string();
        assert!(error.contains("truncated"), "{error}");
        assert!(Packed { parts: cut(7), ..packed }.unpack().is_err());
    }

    #[test]
    fn an_absent_reader_finds_only_the_newest_weights_in_its_box() {
        let client = client();
        let mut taken = Vec::new();
        for version in [1, 2, 3] {
            let packed = Packed::of(&Weights::new(version, []), 9).unwrap();
            packed.put(&client, &["a".to_owned()], &|| true).unwrap();
            if version != 2 {
                taken.extend(wait(&client, "a", TIMEOUT).unwrap().map(|packed| packed.stamp.version));
            }
        }
        assert_eq!(taken, [1, 3]);
        assert!(wait(&client, "a", Duration::ZERO).unwrap().is_none());
    }
}
