//! Weights in a table.

use std::time::Duration;

use bytes::Bytes;
use relive_client::blocking::Client;
use relive_client::{Nest, Tensor};
use relive_env::State;
use relive_table::TableConfig;
use relive_tensor::{DType, Shape};

use crate::run::saved::{self, GoesOn};
use crate::{Result, RlError, Weights, state};

/// The table whose one item are the newest weights.
pub(crate) const TABLE: &str = "weights";

/// Waiting for weights that are there.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn table() -> TableConfig {
    TableConfig::new(TABLE).max_size(1)
}

/// Puts weights in the place of those before.
pub(crate) fn put(client: &Client, weights: &Weights, goes_on: GoesOn<'_>) -> Result<()> {
    let mut parts: Vec<Part> = weights.parts().iter().map(Part::of).collect();
    let mut version = weights.version();
    let bytes = state::save(|state| visit(state, &mut version, &mut parts));
    let step = Nest::dict([("weights", saved::leaf(&bytes)?)]);
    saved::insert(client, TABLE, &step, goes_on)
}

/// The newest weights.
///
/// # Errors
/// The server is lost; what is there are no weights.
pub(crate) fn get(client: &Client) -> Result<Weights> {
    let samples = client.with_timeout(PATIENCE).sample(TABLE, 1)?;
    let columns = samples.first().map_or_else(|| Ok(Vec::new()), relive_client::Sample::columns)?;
    let refused = |error: &dyn std::fmt::Display| RlError::state("weights", error);
    let bytes = columns.first().map(Tensor::to_vec::<u8>).transpose().map_err(|error| refused(&error))?;
    let (mut version, mut parts) = (0, Vec::new());
    state::restore("weights", &bytes.unwrap_or_default(), |state| visit(state, &mut version, &mut parts))?;
    let parts = parts.into_iter().map(Part::into_tensor).collect::<Result<Vec<_>>>()?;
    Ok(Weights::new(version, parts))
}

/// A tensor, field by field.
#[derive(Default)]
struct Part {
    name: Vec<u8>,
    dtype: Vec<u8>,
    dims: Vec<u32>,
    bytes: Vec<u8>,
}

impl Part {
    fn of((name, tensor): &(String, Tensor)) -> Part {
        Part {
            name: name.clone().into_bytes(),
            dtype: tensor.dtype().name().as_bytes().to_vec(),
            dims: tensor.shape().dims().to_vec(),
            bytes: tensor.bytes().map(|bytes| bytes.to_vec()).unwrap_or_default(),
        }
    }

    fn into_tensor(self) -> Result<(String, Tensor)> {
        let refused = |error: &dyn std::fmt::Display| RlError::state("weights", error);
        let name = String::from_utf8(self.name).map_err(|error| refused(&error))?;
        let dtype = String::from_utf8_lossy(&self.dtype).parse::<DType>().map_err(|error| refused(&error))?;
        let shape = Shape::from(self.dims.as_slice());
        let tensor = Tensor::new(dtype, shape, Bytes::from(self.bytes)).map_err(|error| refused(&error))?;
        Ok((name, tensor))
    }
}

fn visit(state: &mut State<'_>, version: &mut u64, parts: &mut Vec<Part>) {
    state.field(version);
    state.list(parts, Part::default, |state, part| {
        state.bytes(&mut part.name);
        state.bytes(&mut part.dtype);
        state.numbers(&mut part.dims);
        state.bytes(&mut part.bytes);
    });
}

#[cfg(test)]
mod tests {
    use relive_engine::Engine;

    use super::*;

    #[test]
    fn weights_come_back_as_they_were_and_the_newest_count() {
        let client = Client::in_process(Engine::builder().table(table()).build().unwrap()).unwrap();
        let matrix = Tensor::from_slice(&[1.5_f32, -2.0, 0.0, 3.0, 4.0, 5.0], [2, 3]).unwrap();
        for version in [3, 2] {
            let parts = [("w".to_owned(), matrix.clone()), ("b".to_owned(), Tensor::scalar(7_i64))];
            put(&client, &Weights::new(version, parts), &|| true).unwrap();
            let back = get(&client).unwrap();
            assert_eq!((back.version(), back.parts().len()), (version, 2));
            assert_eq!(back.part("w"), Some(&matrix));
            assert_eq!(back.part("b").unwrap().to_vec::<i64>().unwrap(), [7]);
        }
    }
}
