//! The forward and backward pass over a sequence. The terms that depend only on inputs are computed in one product for
//! all steps; each step adds the terms that depend on the state.

use std::ops::Range;

use crate::kernels::buffers::Buffer;
use crate::kernels::gemm::{Matrix, Target, multiply};
use crate::kernels::{math, wide};
use crate::network::dense::{accumulate, sum_of_rows};

/// The state of an [`Lstm`](super::Lstm) between steps, `[batch, units]` each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LstmState {
    /// The hidden state h, which is also the last output.
    pub hidden: Vec<f32>,
    /// The cell state c.
    pub cell: Vec<f32>,
}

/// The layout of sequences in rows.
#[derive(Debug, Clone, Copy)]
pub struct Steps<'a> {
    /// The number of sequences that are processed side by side.
    pub batch: usize,
    /// For each row, whether the state is cleared before it, as at the first step of an episode.
    pub resets: &'a [bool],
    /// For each row, whether gradients stop before it, as after a burn-in. Empty if gradients flow back to the start.
    pub cuts: &'a [bool],
}

impl Steps<'_> {
    /// Returns the layout of sequences through which gradients flow back to the start.
    #[must_use]
    pub fn new(batch: usize, resets: &[bool]) -> Steps<'_> {
        Steps { batch, resets, cuts: &[] }
    }
}

/// The sizes and the positions of the leaves.
#[derive(Debug, Clone)]
pub(super) struct LeafPlaces {
    pub(super) inputs: usize,
    pub(super) units: usize,
    pub(super) by_input: Range<usize>,
    pub(super) by_hidden: Range<usize>,
    pub(super) bias: Range<usize>,
}

/// The inputs of the LSTM for a sequence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) weights: &'a [f32],
    pub(super) x: &'a [f32],
    pub(super) steps: Steps<'a>,
}

/// The values kept for the backward pass, for all rows: the activations of the four gates, the cells, their tanh, the
/// previous hidden states and the previous cells.
struct Trace<'a> {
    gates: &'a [f32],
    squashed: &'a [f32],
    hidden_before: &'a [f32],
    cell_before: &'a [f32],
}

impl LeafPlaces {
    pub(super) fn trace_len(&self, rows: usize) -> usize {
        rows * self.units * 8
    }

    /// Returns the cells after the last step, from a trace.
    pub(super) fn last_cell<'a>(&self, trace: &'a [f32], rows: usize, batch: usize) -> &'a [f32] {
        let end = rows * self.units * 5;
        &trace[end - batch * self.units..end]
    }

    fn split<'a>(&self, trace: &'a [f32], rows: usize) -> Trace<'a> {
        let size = rows * self.units;
        let (gates, rest) = trace.split_at(4 * size);
        let (squashed, rest) = rest[size..].split_at(size);
        let (hidden_before, cell_before) = rest.split_at(size);
        Trace { gates, squashed, hidden_before, cell_before }
    }
}

/// Fills outputs and trace.
pub(super) fn forward(
    places: &LeafPlaces,
    run: Run<'_>,
    state: &LstmState,
    y: &mut [f32],
    trace: &mut [f32],
) {
    let Run { weights, x, steps } = run;
    let (units, rows) = (places.units, steps.resets.len());
    let (gates, rest) = trace.split_at_mut(4 * rows * units);
    let [cells, squashed, hidden_before, cell_before] = quarters(rest);
    gates.chunks_exact_mut(4 * units).for_each(|row| row.copy_from_slice(&weights[places.bias.clone()]));
    accumulate(x, (places.inputs, 4 * units), &weights[places.by_input.clone()], gates);
    let step = steps.batch * units;
    for (t, resets) in steps.resets.chunks_exact(steps.batch).enumerate() {
        let (now, before) = (t * step..(t + 1) * step, t.saturating_sub(1) * step..t * step);
        let (hidden, cell) = match t {
            0 => (&state.hidden[..], &state.cell[..]),
            _ => (&y[before.clone()], &cells[before]),
        };
        keep(hidden, resets, units, &mut hidden_before[now.clone()]);
        keep(cell, resets, units, &mut cell_before[now.clone()]);
        let gates = &mut gates[4 * now.start..4 * now.end];
        accumulate(
            &hidden_before[now.clone()],
            (units, 4 * units),
            &weights[places.by_hidden.clone()],
            gates,
        );
        let outputs = Outputs {
            cell: &mut cells[now.clone()],
            squashed: &mut squashed[now.clone()],
            hidden: &mut y[now.clone()],
        };
        advance(units, gates, &cell_before[now], outputs);
    }
}

fn quarters(rest: &mut [f32]) -> [&mut [f32]; 4] {
    let size = rest.len() / 4;
    let (a, rest) = rest.split_at_mut(size);
    let (b, rest) = rest.split_at_mut(size);
    let (c, d) = rest.split_at_mut(size);
    [a, b, c, d]
}

/// Copies rows. Rows that are reset become zeros.
fn keep(from: &[f32], resets: &[bool], units: usize, to: &mut [f32]) {
    to.copy_from_slice(from);
    forget(to, resets, units);
}

fn forget(rows: &mut [f32], resets: &[bool], units: usize) {
    let reset = rows.chunks_exact_mut(units).zip(resets).filter(|(_, reset)| **reset);
    reset.for_each(|(row, _)| row.fill(0.0));
}

struct Outputs<'a> {
    cell: &'a mut [f32],
    squashed: &'a mut [f32],
    hidden: &'a mut [f32],
}

/// Takes one step: converts the sums of the gates to activations, and the activations to the new state.
fn advance(units: usize, gates: &mut [f32], cell_before: &[f32], outputs: Outputs<'_>) {
    let Outputs { cell, squashed, hidden } = outputs;
    wide(|| {
        for (row, gates) in gates.chunks_exact_mut(4 * units).enumerate() {
            let at = row * units..(row + 1) * units;
            let out = [&mut cell[at.clone()], &mut squashed[at.clone()], &mut hidden[at.clone()]];
            advance_row(units, gates, &cell_before[at], out);
        }
    });
}

#[inline(always)]
fn advance_row(units: usize, gates: &mut [f32], before: &[f32], [cell, squashed, hidden]: [&mut [f32]; 3]) {
    let (input, rest) = gates.split_at_mut(units);
    let (candidate, rest) = rest.split_at_mut(units);
    let (forget, output) = rest.split_at_mut(units);
    input.iter_mut().for_each(|v| *v = math::sigmoid(*v));
    candidate.iter_mut().for_each(|v| *v = math::tanh(*v));
    forget.iter_mut().for_each(|v| *v = math::sigmoid(*v + 1.0));
    output.iter_mut().for_each(|v| *v = math::sigmoid(*v));
    for (c, (((i, g), f), before)) in cell.iter_mut().zip(input.iter().zip(candidate).zip(forget).zip(before))
    {
        *c = *f * before + *i * *g;
    }
    for ((s, h), (c, o)) in squashed.iter_mut().zip(hidden).zip(cell.iter().zip(output)) {
        *s = math::tanh(*c);
        *h = *o * *s;
    }
}

/// The requested gradients.
pub(super) struct RequestedGradients<'a> {
    pub(super) dweights: Option<&'a mut [f32]>,
    pub(super) dx: Option<&'a mut [f32]>,
}

/// Converts the gradient with respect to outputs to gradients with respect to weights and inputs. No gradient is
/// computed for the initial state.
pub(super) fn backward(
    places: &LeafPlaces,
    run: Run<'_>,
    trace: &[f32],
    dy: &[f32],
    wanted: RequestedGradients<'_>,
) {
    let Run { weights, x, steps } = run;
    let (units, rows) = (places.units, steps.resets.len());
    let mut sums = Buffer::take(4 * rows * units);
    let trace = places.split(trace, rows);
    through_time(places, run, &trace, dy, &mut sums);
    let by_sums = Matrix::new(&sums, rows, 4 * units);
    if let Some(dweights) = wanted.dweights {
        let x = Matrix::new(x, rows, places.inputs).transposed();
        multiply(&mut dweights[places.by_input.clone()], Target::Overwrite, x, by_sums);
        let hidden = Matrix::new(trace.hidden_before, rows, units).transposed();
        multiply(&mut dweights[places.by_hidden.clone()], Target::Overwrite, hidden, by_sums);
        sum_of_rows(&sums, &mut dweights[places.bias.clone()]);
    }
    if let Some(dx) = wanted.dx {
        let by_input = Matrix::new(&weights[places.by_input.clone()], places.inputs, 4 * units);
        multiply(dx, Target::Overwrite, by_sums, by_input.transposed());
    }
    debug_assert_eq!(steps.batch * (rows / steps.batch), rows);
}

/// Computes the gradient with respect to the gates' sums, from the last step to the first.
fn through_time(places: &LeafPlaces, run: Run<'_>, trace: &Trace<'_>, dy: &[f32], sums: &mut [f32]) {
    let Run { weights, steps, .. } = run;
    let (units, step) = (places.units, steps.batch * places.units);
    let by_hidden = Matrix::new(&weights[places.by_hidden.clone()], units, 4 * units).transposed();
    let (mut dh, mut dc) = (Buffer::take(step), Buffer::take(step));
    dh.fill(0.0);
    dc.fill(0.0);
    for (t, resets) in steps.resets.chunks_exact(steps.batch).enumerate().rev() {
        let now = t * step..(t + 1) * step;
        let wide_now = 4 * now.start..4 * now.end;
        dh.iter_mut().zip(&dy[now.clone()]).for_each(|(sum, dy)| *sum += dy);
        let parts = [&trace.gates[wide_now.clone()], &trace.squashed[now.clone()], &trace.cell_before[now]];
        retreat(units, parts, &dh, &mut dc, &mut sums[wide_now.clone()]);
        let by_sums = Matrix::new(&sums[wide_now], steps.batch, 4 * units);
        multiply(&mut dh, Target::Overwrite, by_sums, by_hidden);
        let cuts = steps.cuts.get(t * steps.batch..(t + 1) * steps.batch).unwrap_or_default();
        for ends in [resets, cuts] {
            forget(&mut dh, ends, units);
            forget(&mut dc, ends, units);
        }
    }
}

/// Goes one step back: `dc` becomes the gradient with respect to the previous cells.
fn retreat(units: usize, parts: [&[f32]; 3], dh: &[f32], dc: &mut [f32], sums: &mut [f32]) {
    let [gates, squashed, before] = parts;
    wide(|| {
        let rows = gates.chunks_exact(4 * units).zip(sums.chunks_exact_mut(4 * units));
        for (row, (gates, sums)) in rows.enumerate() {
            let at = row * units..(row + 1) * units;
            let parts = [gates, &squashed[at.clone()], &before[at.clone()]];
            retreat_row(units, parts, &dh[at.clone()], &mut dc[at], sums);
        }
    });
}

#[inline(always)]
fn retreat_row(units: usize, parts: [&[f32]; 3], dh: &[f32], dc: &mut [f32], sums: &mut [f32]) {
    let [gates, squashed, before] = parts;
    let (input, rest) = gates.split_at(units);
    let (candidate, rest) = rest.split_at(units);
    let (forget, output) = rest.split_at(units);
    let [by_input, by_candidate, by_forget, by_output] = quarters(sums);
    for (((by_output, dc), (dh, s)), o) in
        by_output.iter_mut().zip(dc.iter_mut()).zip(dh.iter().zip(squashed)).zip(output)
    {
        *by_output = dh * s * o * (1.0 - o);
        *dc += dh * o * (1.0 - s * s);
    }
    for ((by_input, by_candidate), ((dc, i), g)) in
        by_input.iter_mut().zip(by_candidate).zip(dc.iter().zip(input).zip(candidate))
    {
        *by_input = dc * g * i * (1.0 - i);
        *by_candidate = dc * i * (1.0 - g * g);
    }
    for ((by_forget, dc), (f, before)) in by_forget.iter_mut().zip(dc).zip(forget.iter().zip(before)) {
        *by_forget = *dc * before * f * (1.0 - f);
        *dc *= f;
    }
}
