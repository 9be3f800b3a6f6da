use super::init::LinearInit;
use super::pass::{Backward, Forward, Place};
use super::plan::Plan;
use crate::kernels::activation::Activation;
use crate::kernels::buffers::Buffer;
use crate::kernels::gemm::{Matrix, Target, multiply};
use crate::kernels::narrow::{AddOutputs, InputGradient, NARROW, transpose};
use crate::kernels::outer::{ColumnSums, OuterProducts};
use crate::kernels::rows::{AddProduct, Rows};
use crate::kernels::wide;

/// The number of rows up to which rows are multiplied one by one. For more rows, packing the weights is worthwhile.
pub(crate) const FEW_ROWS: usize = 16;

/// The number of weights up to which any number of rows is multiplied row by row, provided that the weights fill whole
/// registers. This many weights fit in the cache without packing.
const FEW_WEIGHTS: usize = 16_384;

/// The number of values in the widest register.
const LANES: usize = 16;

/// `y = activation(x·W + b)`, W of shape `[inputs, outputs]`.
#[derive(Debug, Clone)]
pub(crate) struct Dense {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) activation: Activation,
    weight: Place,
    bias: Place,
}

impl Dense {
    pub(crate) fn new(plan: &mut Plan<'_>, inputs: usize, outputs: usize, init: LinearInit) -> Self {
        let (weight_init, bias_init) = init.leaves(inputs, outputs, outputs);
        Self {
            inputs,
            outputs,
            activation: Activation::Identity,
            weight: plan.leaf("w", &[inputs, outputs], weight_init),
            bias: plan.leaf("b", &[outputs], bias_init),
        }
    }

    pub(crate) fn forward(&self, pass: Forward<'_>, y: &mut [f32]) {
        let (weight, bias) = (&pass.weights[self.weight.clone()], &pass.weights[self.bias.clone()]);
        y.chunks_exact_mut(self.outputs).for_each(|row| row.copy_from_slice(bias));
        accumulate(pass.x.floats(), (self.inputs, self.outputs), weight, y);
        self.activation.apply(y);
    }

    pub(crate) fn backward(&self, pass: Backward<'_>) {
        self.activation.pull_back(pass.dy, pass.y);
        if self.outputs <= NARROW { self.narrow_backward(pass) } else { self.wide_backward(pass) }
    }

    fn wide_backward(&self, pass: Backward<'_>) {
        let Forward { weights, x, batch } = pass.forward;
        let dy = Matrix::new(pass.dy, batch, self.outputs);
        if let Some(dweights) = pass.dweights {
            let by_weights = &mut dweights[self.weight.clone()];
            if is_small(by_weights, self.outputs) {
                wide(OuterProducts { a: x.floats(), b: pass.dy, width: self.outputs, out: by_weights });
            } else {
                let x = Matrix::new(x.floats(), batch, self.inputs).transposed();
                multiply(by_weights, Target::Overwrite, x, dy);
            }
            sum_of_rows(pass.dy, &mut dweights[self.bias.clone()]);
        }
        if let Some(dx) = pass.dx {
            let weight = Matrix::new(&weights[self.weight.clone()], self.inputs, self.outputs);
            multiply(dx, Target::Overwrite, dy, weight.transposed());
        }
    }

    fn narrow_backward(&self, pass: Backward<'_>) {
        let (Forward { weights, x, .. }, dy, inputs) = (pass.forward, &*pass.dy, self.inputs);
        let mut turned = Buffer::take(self.weight.len());
        if let Some(dweights) = pass.dweights {
            wide(OuterProducts { a: dy, b: x.floats(), width: inputs, out: &mut turned });
            transpose(&turned, self.outputs, &mut dweights[self.weight.clone()]);
            sum_of_rows(dy, &mut dweights[self.bias.clone()]);
        }
        if let Some(out) = pass.dx {
            transpose(&weights[self.weight.clone()], inputs, &mut turned);
            wide(InputGradient { dy, weight: &turned, inputs, out });
        }
    }
}

/// Adds the product of rows and weights `[inputs, outputs]` to `y`.
pub(crate) fn accumulate(x: &[f32], (inputs, outputs): (usize, usize), weight: &[f32], y: &mut [f32]) {
    let batch = y.len() / outputs;
    if batch <= FEW_ROWS || is_small(weight, outputs) {
        wide(AddProduct { rows: Rows { x, inputs }, weight, outputs, out: y });
    } else if outputs <= NARROW {
        let mut turned = Buffer::take(weight.len());
        transpose(weight, inputs, &mut turned);
        wide(AddOutputs { x, weight: &turned, inputs, out: y });
    } else {
        let x = Matrix::new(x, batch, inputs);
        multiply(y, Target::Add, x, Matrix::new(weight, inputs, outputs));
    }
}

/// Returns whether products with these weights are faster without packing, for any number of rows.
fn is_small(weight: &[f32], outputs: usize) -> bool {
    weight.len() <= FEW_WEIGHTS && outputs.is_multiple_of(LANES)
}

/// Computes the sums of columns, adding in the order of the rows.
pub(crate) fn sum_of_rows(rows: &[f32], sums: &mut [f32]) {
    match sums {
        [only] => *only = rows.iter().sum(),
        _ => wide(ColumnSums { rows, sums }),
    }
}
