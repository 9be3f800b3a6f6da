//! Implicit quantile networks.

use std::f64::consts::PI;

use relive_nn::{Activation, Inputs, Layout, Network, Params, Scratch, Stream};

use super::DqnConfig;
use super::noise::initialization;
use crate::torso::Torso;

/// The number of cosines that embed a fraction, n.
const COSINES: usize = 64;

/// The number of fractions whose quantiles choose the action, K.
const FRACTIONS: usize = 32;

/// A network of quantiles at any fraction τ (Dabney et al. 2018, "Implicit quantile networks", section 3): the torso's
/// features of an observation, multiplied by a cosine embedding of τ (equation 4), go through a head.
///
/// So that acting is deterministic, the action is chosen by the mean over the midpoints of K equal parts of the
/// interval from 0 to 1, whereas the paper draws K fractions.
#[derive(Debug, Clone)]
pub(super) struct Implicit {
    torso: Network,
    embedding: Network,
    head: Network,
    /// The embedding's inputs at the midpoints of equal parts of the interval from 0 to 1.
    middles: Vec<f32>,
}

/// Reused memory.
#[derive(Debug, Default, Clone)]
pub(super) struct Buffers {
    parts: [Scratch; 3],
    cosines: Vec<f32>,
    product: Vec<f32>,
    outputs: Vec<f32>,
}

/// The fractions of the requested quantiles.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fractions<'a> {
    /// The midpoints of equal parts, the same for all rows.
    Middles,
    /// Random fractions, with the same number for each row.
    Drawn(&'a [f32]),
}

impl Implicit {
    /// Adds the network for the given number of actions. Its head has one more layer, which is as wide as the last
    /// hidden layer.
    pub(super) fn add_to(layout: &mut Layout, torso: &Torso, config: &DqnConfig, actions: usize) -> Implicit {
        let width = config.hidden.last().copied().unwrap_or(1);
        let init = initialization(config.noisy);
        let builder = torso.layers(Network::builder(layout, "q/torso", torso.inputs())).init(init);
        let of_torso = builder.mlp(&config.hidden, Activation::Relu).build();
        let embedding = Network::builder(layout, "q/embedding", COSINES).init(init);
        let embedding = embedding.mlp(&[width], Activation::Relu).build();
        let builder = Network::builder(layout, "q/head", width).init(init);
        let head = match config.duelling {
            true => builder.duelling_atoms(&[width], actions, 1),
            false => builder.mlp(&[width], Activation::Relu).linear(actions),
        };
        #[expect(clippy::cast_precision_loss, reason = "fractions are few")]
        let middles: Vec<f32> = (0..FRACTIONS).map(|index| (index as f32 + 0.5) / FRACTIONS as f32).collect();
        let mut cosines = Vec::new();
        embed(&middles, &mut cosines);
        Implicit { torso: of_torso, embedding, head: head.build(), middles: cosines }
    }

    /// Returns the number of quantiles that choose an action.
    pub(super) fn fractions() -> usize {
        FRACTIONS
    }

    pub(super) fn inputs(&self) -> usize {
        self.torso.inputs()
    }

    /// Returns the quantiles of all actions at fractions, `[rows, actions, fractions]`.
    pub(super) fn infer<'m>(
        &self,
        params: &Params,
        seen: Inputs<'_>,
        fractions: Fractions<'_>,
        memory: &'m mut Buffers,
    ) -> &'m [f32] {
        let Buffers { parts: [of_torso, of_embedding, of_head], cosines, product, outputs } = memory;
        let features = self.torso.infer(params, seen, of_torso);
        let embedded = self.embedded(params, fractions, cosines, of_embedding);
        let rows = features.len() / self.width();
        let each = self.each(fractions, rows);
        multiplied(features, embedded, each, self.width(), product);
        transposed(self.head.infer(params, &product[..], of_head), each, self.head.outputs(), outputs);
        outputs
    }

    /// Returns the quantiles at the midpoints, for the policy. A row's result does not depend on the number of rows.
    pub(super) fn infer_each<'m>(
        &self,
        params: &Params,
        seen: Inputs<'_>,
        memory: &'m mut Buffers,
    ) -> &'m [f32] {
        let Buffers { parts: [of_torso, of_embedding, of_head], product, outputs, .. } = memory;
        let features = self.torso.infer_each(params, seen, of_torso);
        let embedded = self.embedding.infer(params, &self.middles[..], of_embedding);
        let mut found = std::mem::take(outputs);
        found.clear();
        let mut row = Vec::new();
        for features in features.chunks_exact(self.width()) {
            multiplied(features, embedded, FRACTIONS, self.width(), product);
            transposed(
                self.head.infer(params, &product[..], of_head),
                FRACTIONS,
                self.head.outputs(),
                &mut row,
            );
            found.extend_from_slice(&row);
        }
        *outputs = found;
        outputs
    }

    /// Returns a loss of the quantiles at drawn fractions, and its gradient with respect to all parameters.
    pub(super) fn gradient<R>(
        &self,
        params: &Params,
        seen: Inputs<'_>,
        taus: &[f32],
        memory: &mut Buffers,
        loss: impl FnOnce(&[f32], &mut [f32]) -> R,
    ) -> (R, Vec<f32>) {
        let Buffers { parts: [of_torso, of_embedding, _], cosines, product, outputs } = memory;
        let mut gradient = vec![0.0; params.values().len()];
        let width = self.width();
        let features = self.torso.infer(params, seen, of_torso);
        let embedded = self.embedded(params, Fractions::Drawn(taus), cosines, of_embedding);
        let (rows, actions) = (features.len() / width, self.head.outputs());
        let each = taus.len() / rows.max(1);
        multiplied(features, embedded, each, width, product);
        let mut by_product = vec![0.0; product.len()];
        let found = self.head.gradients_into(
            params,
            &product[..],
            (&mut gradient, &mut by_product),
            |quantiles, by_quantiles| {
                transposed(quantiles, each, actions, outputs);
                let mut by = vec![0.0; outputs.len()];
                let found = loss(outputs, &mut by);
                // Transposes back, with the two sizes swapped.
                transposed(&by, actions, each, outputs);
                by_quantiles.copy_from_slice(outputs);
                found
            },
        );
        self.embedding.gradient_into(params, &cosines[..], &mut gradient, |_, by_embedded| {
            for (index, (by, slope)) in by_embedded.iter_mut().zip(&by_product).enumerate() {
                *by = slope * features[index / (width * each) * width + index % width];
            }
        });
        self.torso.gradient_into(params, seen, &mut gradient, |_, by_features| {
            by_features.fill(0.0);
            for (index, (slope, embedded)) in by_product.iter().zip(embedded).enumerate() {
                by_features[index / (width * each) * width + index % width] += slope * embedded;
            }
        });
        (found, gradient)
    }

    /// Returns the embedding of fractions, one row each.
    fn embedded<'s>(
        &self,
        params: &Params,
        fractions: Fractions<'_>,
        cosines: &mut Vec<f32>,
        scratch: &'s mut Scratch,
    ) -> &'s [f32] {
        match fractions {
            Fractions::Middles => self.embedding.infer(params, &self.middles[..], scratch),
            Fractions::Drawn(taus) => {
                embed(taus, cosines);
                self.embedding.infer(params, &cosines[..], scratch)
            }
        }
    }

    fn each(&self, fractions: Fractions<'_>, rows: usize) -> usize {
        match fractions {
            Fractions::Middles => FRACTIONS,
            Fractions::Drawn(taus) => taus.len() / rows.max(1),
        }
    }

    fn width(&self) -> usize {
        self.embedding.outputs()
    }
}

/// Draws fractions from 0 to 1.
#[expect(clippy::cast_possible_truncation, reason = "fractions are float32")]
pub(super) fn draw(count: usize, stream: &mut Stream, taus: &mut Vec<f32>) {
    taus.clear();
    taus.extend((0..count).map(|_| stream.uniform() as f32));
}

/// Computes cos(πiτ) for i from 0 to n − 1, for each τ, by cos((i + 1)x) = 2·cos(x)·cos(ix) − cos((i − 1)x).
#[expect(clippy::cast_possible_truncation, reason = "inputs of networks are float32")]
fn embed(taus: &[f32], cosines: &mut Vec<f32>) {
    cosines.clear();
    for tau in taus {
        let first = (PI * f64::from(*tau)).cos();
        let (mut before, mut now) = (first, 1.0);
        for _ in 0..COSINES {
            cosines.push(now as f32);
            (before, now) = (now, 2.0 * first * now - before);
        }
    }
}

/// Computes the features of each row times the embeddings of its fractions, `[rows, fractions, width]`. If there are
/// embeddings of only one row, all rows share them.
fn multiplied(features: &[f32], embedded: &[f32], each: usize, width: usize, product: &mut Vec<f32>) {
    product.clear();
    let mut of_rows = embedded.chunks_exact(each * width).cycle();
    for features in features.chunks_exact(width) {
        for embedded in of_rows.next().unwrap_or_default().chunks_exact(width) {
            product.extend(features.iter().zip(embedded).map(|(feature, embedded)| feature * embedded));
        }
    }
}

/// Transposes `[rows, height, width]` to `[rows, width, height]`.
fn transposed(values: &[f32], height: usize, width: usize, to: &mut Vec<f32>) {
    to.clear();
    for row in values.chunks_exact(height * width) {
        for column in 0..width {
            to.extend(row.iter().skip(column).step_by(width));
        }
    }
}

#[cfg(test)]
mod tests {
    use relive_env::{ArraySpec, EnvironmentSpec};
    use relive_nn::{Key, losses};
    use relive_tensor::{DType, Nest};

    use super::*;

    fn network(duelling: bool) -> (Implicit, Params) {
        let spec = EnvironmentSpec::new(
            Nest::Leaf(ArraySpec::new("", DType::Float32, [3])),
            Nest::Leaf(ArraySpec::discrete("", 2)),
        );
        let config = DqnConfig { hidden: vec![5], duelling, ..DqnConfig::default() };
        let mut layout = Layout::new();
        let network = Implicit::add_to(&mut layout, &Torso::of(&spec).unwrap(), &config, 2);
        let mut params = layout.init(Key::from_seed(3));
        // No unit is exactly at the kink of its ReLU.
        let moved = params.values_mut().iter_mut().zip((0_u8..13).cycle());
        moved.for_each(|(value, number)| *value += 0.01 * (f32::from(number) - 5.5));
        (network, params)
    }

    const SEEN: [f32; 6] = [0.3, -0.2, 0.9, 1.0, 0.5, -0.4];
    const TAUS: [f32; 6] = [0.1, 0.5, 0.9, 0.3, 0.7, 0.2];

    #[test]
    fn fractions_are_embedded_by_cosines() {
        let mut cosines = Vec::new();
        embed(&[0.0, 0.25, 1.0, 0.7], &mut cosines);
        for (index, found) in cosines.iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "few")]
            let expected =
                (PI * f64::from([0.0_f32, 0.25, 1.0, 0.7][index / COSINES]) * (index % COSINES) as f64).cos();
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{index}: {found} {expected}");
        }
    }

    #[test]
    fn the_gradient_matches_finite_differences() {
        for duelling in [false, true] {
            let (network, params) = network(duelling);
            let loss = |params: &Params| {
                let selected = losses::Selected { actions: &[1, 0], weights: &[1.0, 0.5] };
                let rule = |outputs: &[f32], by: &mut [f32]| {
                    losses::implicit_quantile_loss(outputs, &TAUS, selected, &[0.4, -0.3, 1.2, 0.1], 1.0, by)
                };
                let memory = &mut Buffers::default();
                let (found, gradient) = network.gradient(params, Inputs::Floats(&SEEN), &TAUS, memory, rule);
                (found.loss, gradient)
            };
            let (_, gradient) = loss(&params);
            for (place, found) in gradient.iter().enumerate() {
                let moved = |by: f32| {
                    let mut moved = params.clone();
                    moved.values_mut()[place] += by;
                    loss(&moved).0
                };
                let expected = (moved(2e-3) - moved(-2e-3)) / 4e-3;
                assert!((found - expected).abs() < 1e-2, "{place}: {found} {expected}");
            }
        }
    }

    #[test]
    fn a_policy_uses_quantile_midpoints() {
        let (network, params) = network(false);
        let (mut all, mut each) = (Buffers::default(), Buffers::default());
        let seen = Inputs::Floats(&SEEN);
        let all = network.infer(&params, seen, Fractions::Middles, &mut all).to_vec();
        let each = network.infer_each(&params, seen, &mut each);
        assert_eq!(all.len(), 2 * 2 * FRACTIONS);
        assert!(all.iter().zip(each).all(|(a, b)| (a - b).abs() < 1e-6));
        let mut one = Buffers::default();
        let alone = network.infer_each(&params, Inputs::Floats(&SEEN[3..]), &mut one);
        assert_eq!(alone, &each[2 * FRACTIONS..], "the same numbers, bit for bit");
    }
}
