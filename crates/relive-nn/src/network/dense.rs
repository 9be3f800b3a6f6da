use super::init::LinearInit;
use super::pass::{Backward, Forward, Place};
use super::plan::Plan;
use crate::kernels::activation::Activation;
use crate::kernels::gemm::{Matrix, Target, multiply};
use crate::kernels::wide;

/// Up to this many rows are multiplied row by row; above, packing the weights pays for itself.
const ROW_BY_ROW: usize = 4;

/// `y = activation(x·W + b)`, W of shape [inputs, outputs].
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
        let (weight_init, bias_init) = init.leaves(inputs, outputs);
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
        accumulate(pass.x, (self.inputs, self.outputs), weight, y);
        self.activation.apply(y);
    }

    pub(crate) fn backward(&self, pass: Backward<'_>) {
        let Forward { weights, x, batch } = pass.forward;
        self.activation.pull_back(pass.dy, pass.y);
        let dy = Matrix::new(pass.dy, batch, self.outputs);
        if let Some(dweights) = pass.dweights {
            let x = Matrix::new(x, batch, self.inputs).transposed();
            multiply(&mut dweights[self.weight.clone()], Target::Overwrite, x, dy);
            sum_of_rows(pass.dy, &mut dweights[self.bias.clone()]);
        }
        if let Some(dx) = pass.dx {
            let weight = Matrix::new(&weights[self.weight.clone()], self.inputs, self.outputs);
            multiply(dx, Target::Overwrite, dy, weight.transposed());
        }
    }
}

/// Adds the product of rows and weights [inputs, outputs] to `y`.
pub(crate) fn accumulate(x: &[f32], (inputs, outputs): (usize, usize), weight: &[f32], y: &mut [f32]) {
    let batch = y.len() / outputs;
    if batch <= ROW_BY_ROW {
        wide(|| row_by_row(x, weight, y, outputs));
    } else {
        let x = Matrix::new(x, batch, inputs);
        multiply(y, Target::Add, x, Matrix::new(weight, inputs, outputs));
    }
}

#[inline(always)]
fn row_by_row(x: &[f32], weight: &[f32], y: &mut [f32], outputs: usize) {
    let inputs = weight.len() / outputs;
    for (x, y) in x.chunks_exact(inputs).zip(y.chunks_exact_mut(outputs)) {
        for (x, weight) in x.iter().zip(weight.chunks_exact(outputs)) {
            y.iter_mut().zip(weight).for_each(|(y, w)| *y += x * w);
        }
    }
}

pub(crate) fn sum_of_rows(rows: &[f32], sums: &mut [f32]) {
    sums.fill(0.0);
    wide(|| {
        for row in rows.chunks_exact(sums.len()) {
            sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
    });
}
