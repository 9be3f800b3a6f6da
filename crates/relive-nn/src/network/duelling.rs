use super::pass::{Backward, Forward};
use super::stack::Stack;
use crate::kernels::buffers::Buffer;

/// `q = v + a − mean(a)`: a stream for the state's value and one for the actions' advantages (Wang et al. 2016, eq. 9).
#[derive(Debug, Clone)]
pub(crate) struct Duelling {
    pub(crate) value: Stack,
    pub(crate) advantage: Stack,
    /// Numbers per action, all combined alike: 1, or the atoms of a distribution.
    pub(crate) atoms: usize,
}

impl Duelling {
    pub(crate) fn outputs(&self) -> usize {
        self.advantage.outputs()
    }

    pub(crate) fn cache_len(&self, batch: usize) -> usize {
        self.value.trace_len(batch) + self.advantage.trace_len(batch)
    }

    pub(crate) fn forward(&self, pass: Forward<'_>, y: &mut [f32], cache: &mut [f32]) {
        let (value, advantage) = cache.split_at_mut(self.value.trace_len(pass.batch));
        self.value.forward(pass, value);
        self.advantage.forward(pass, advantage);
        let values = self.value.last(value, pass.batch).chunks_exact(self.atoms);
        let advantages = self.advantage.last(advantage, pass.batch).chunks_exact(self.outputs());
        for ((y, value), advantage) in y.chunks_exact_mut(self.outputs()).zip(values).zip(advantages) {
            self.combine(value, advantage, y);
        }
    }

    fn combine(&self, value: &[f32], advantage: &[f32], y: &mut [f32]) {
        for (atom, value) in value.iter().enumerate() {
            let offset = value - self.mean(advantage, atom);
            let own = |row: &mut [f32], of: &[f32]| row[atom] = of[atom] + offset;
            y.chunks_exact_mut(self.atoms)
                .zip(advantage.chunks_exact(self.atoms))
                .for_each(|(y, a)| own(y, a));
        }
    }

    /// Over the actions.
    #[expect(clippy::cast_precision_loss, reason = "actions are few")]
    fn mean(&self, row: &[f32], atom: usize) -> f32 {
        let actions = row.len() / self.atoms;
        row.iter().skip(atom).step_by(self.atoms).sum::<f32>() / actions as f32
    }

    pub(crate) fn backward(&self, pass: Backward<'_>) {
        let Backward { forward, cache, dy, mut dweights, mut dx, .. } = pass;
        let (value_trace, advantage_trace) = cache.split_at(self.value.trace_len(forward.batch));
        let mut by_value = Buffer::take(forward.batch * self.atoms);
        self.split(dy, &mut by_value);
        let wanted = dx.is_some();
        let mut by_input = Buffer::take(if wanted { forward.x.len() } else { 0 });
        let inputs = wanted.then_some(&mut *by_input);
        self.value.backward(Backward {
            forward,
            y: value_trace,
            cache: &[],
            dy: &mut by_value,
            dweights: dweights.as_deref_mut(),
            dx: inputs,
        });
        let (y, inputs) = (advantage_trace, dx.as_deref_mut());
        self.advantage.backward(Backward { forward, y, cache: &[], dy, dweights, dx: inputs });
        if let Some(dx) = dx {
            dx.iter_mut().zip(by_input.iter()).for_each(|(dx, more)| *dx += more);
        }
    }

    /// By the value: the sum over actions. By the advantages: what is left without their mean.
    #[expect(clippy::cast_precision_loss, reason = "actions are few")]
    fn split(&self, dy: &mut [f32], by_value: &mut [f32]) {
        let actions = (self.outputs() / self.atoms) as f32;
        for (dy, by_value) in dy.chunks_exact_mut(self.outputs()).zip(by_value.chunks_exact_mut(self.atoms)) {
            for (atom, by_value) in by_value.iter_mut().enumerate() {
                *by_value = dy.iter().skip(atom).step_by(self.atoms).sum();
                let mean = *by_value / actions;
                dy.iter_mut().skip(atom).step_by(self.atoms).for_each(|d| *d -= mean);
            }
        }
    }
}
