//! Conversion between network parameters and published weights.

use bytes::Bytes;
use relive_nn::Params;
use relive_rl::{Result, RlError, Weights};
use relive_tensor::{DType, Shape, Tensor};

/// Returns all leaves of the parameters by name, as slices of one copy.
///
/// # Errors
/// A leaf has more dimensions than a tensor may have.
pub fn published(params: &Params) -> Result<Weights> {
    let all = Bytes::copy_from_slice(params.as_bytes());
    let parts = params.layout().leaves().iter().map(|leaf| {
        let range = leaf.range();
        let dims: Vec<u32> = leaf.shape().iter().map(|dim| u32::try_from(*dim).unwrap_or(u32::MAX)).collect();
        let bytes = all.slice(range.start * size_of::<f32>()..range.end * size_of::<f32>());
        let tensor = Tensor::new(DType::Float32, Shape::from(dims.as_slice()), bytes);
        tensor.map(|tensor| (leaf.name().to_owned(), tensor)).map_err(|error| refused(&error))
    });
    Ok(Weights::new(params.version(), parts.collect::<Result<Vec<_>>>()?))
}

/// Loads weights that [`published`] created from parameters with the same layout.
///
/// # Errors
/// [`State`](RlError::State): the weights have a different layout.
pub fn load(params: &mut Params, weights: &Weights) -> Result<()> {
    let mut all = Vec::with_capacity(params.as_bytes().len());
    for leaf in params.layout().leaves() {
        let part = weights.part(leaf.name()).and_then(Tensor::bytes);
        all.extend_from_slice(part.ok_or_else(|| refused(&format_args!("{} is missing", leaf.name())))?);
    }
    params.set_bytes(&all, weights.version()).map_err(|error| refused(&error))
}

fn refused(reason: &dyn std::fmt::Display) -> RlError {
    RlError::State { what: "the weights of a policy", reason: reason.to_string() }
}
