use std::cell::RefCell;
use std::ops::Range;

use burn_tensor::Tensor;

use super::tensors::{constant, variable};
use crate::params::Params;

/// Parameters on the tape, for one step of a learner.
#[derive(Debug)]
pub struct Weights<'a> {
    params: &'a Params,
    tracked: bool,
    used: RefCell<Vec<(Range<usize>, Tensor<1>)>>,
}

impl<'a> Weights<'a> {
    /// Creates parameters that receive gradients from the loss.
    pub fn tracked(params: &'a Params) -> Self {
        Self { params, tracked: true, used: RefCell::default() }
    }

    /// Creates parameters that receive no gradients; gradients still flow through their networks to the inputs.
    pub fn frozen(params: &'a Params) -> Self {
        Self { params, tracked: false, used: RefCell::default() }
    }

    /// Returns a leaf as a tensor, for layers that this crate does not provide.
    ///
    /// # Panics
    /// If the layout has no such leaf, or the leaf does not have `D` dimensions.
    pub fn leaf<const D: usize>(&self, name: &str) -> Tensor<D> {
        let leaf = self.params.layout().leaves().iter().find(|leaf| leaf.name() == name);
        let leaf = leaf.unwrap_or_else(|| panic!("no leaf is named {name}"));
        let shape: [usize; D] = leaf.shape().try_into().unwrap_or_else(|_| {
            panic!("leaf {name} has shape {:?}, not {D} dimensions", leaf.shape());
        });
        self.block(leaf.range()).reshape(shape)
    }

    /// Returns a block of the numbers. The same range always yields the same tensor.
    pub(crate) fn block(&self, range: Range<usize>) -> Tensor<1> {
        let mut used = self.used.borrow_mut();
        if let Some((_, tensor)) = used.iter().find(|(known, _)| *known == range) {
            return tensor.clone();
        }
        let values = self.params.values()[range.clone()].to_vec();
        let len = values.len();
        let tensor = if self.tracked { variable(values, [len]) } else { constant(values, [len]) };
        used.push((range, tensor.clone()));
        tensor
    }

    pub(crate) fn len(&self) -> usize {
        self.params.values().len()
    }

    pub(crate) fn used(&self) -> Vec<(Range<usize>, Tensor<1>)> {
        self.used.borrow().clone()
    }
}
