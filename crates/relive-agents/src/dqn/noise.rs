//! Noisy networks.

use std::ops::Range;

use relive_nn::{Init, Layout, Leaf, LinearInit, Params, Stream};

/// Noise of learned magnitude on the weights of linear layers: factorized Gaussian noise (Fortunato et al. 2018,
/// equations 10 and 11).
///
/// The standard deviations σ are leaves with the same layout, after the leaves of the network, one for each parameter
/// of a layer.
#[derive(Debug, Clone)]
pub(super) struct Noise {
    layers: Vec<Layer>,
    /// The positions of the parameters without noise.
    others: Vec<Range<usize>>,
}

/// The positions of a linear layer's parameters and of their standard deviations.
#[derive(Debug, Clone)]
struct Layer {
    weights: [Range<usize>; 2],
    biases: [Range<usize>; 2],
}

/// The drawn noise of each layer: one number for each input, and one for each output. The factor of a weight's standard
/// deviation is the product of the numbers of its input and its output; that of a bias is the number of its output.
#[derive(Debug, Clone, Default)]
pub(super) struct Drawn(Vec<[Vec<f32>; 2]>);

/// The initial σ of a layer, times the square root of its number of inputs.
const SIGMA: f32 = 0.5;

/// Returns the initialization of a network's linear layers. The means of noisy weights and biases are uniform in
/// ±1/√inputs (Fortunato et al. 2018, section 3.2), to which [`SIGMA`] is matched.
pub(super) fn initialization(is_noisy: bool) -> LinearInit {
    if is_noisy { LinearInit::PyTorch } else { LinearInit::default() }
}

impl Noise {
    /// Adds standard deviations for all linear layers of a layout.
    pub(super) fn add_to(layout: &mut Layout) -> Noise {
        let all: Vec<_> = layout.leaves().to_vec();
        let mut layers: Vec<Layer> = Vec::new();
        for pair in all.windows(2) {
            let [weight, bias] = pair else { continue };
            let &[inputs, outputs] = weight.shape() else { continue };
            if *bias.shape() != [outputs] {
                continue;
            }
            #[expect(clippy::cast_precision_loss, reason = "inputs of a layer")]
            let init = Init::Constant(SIGMA / (inputs as f32).sqrt());
            let of_weights = layout.add(&format!("{}/sigma", weight.name()), &[inputs, outputs], init);
            let of_biases = layout.add(&format!("{}/sigma", bias.name()), &[outputs], init);
            layers.push(Layer { weights: [weight.range(), of_weights], biases: [bias.range(), of_biases] });
        }
        let is_noisy = |range: &Range<usize>| {
            layers.iter().any(|layer| layer.weights[0] == *range || layer.biases[0] == *range)
        };
        let others = all.iter().map(Leaf::range).filter(|range| !is_noisy(range)).collect();
        Noise { layers, others }
    }

    /// Writes parameters with noise to `noisy`, except the standard deviations. Returns the noise drawn.
    pub(super) fn perturb(&self, params: &Params, stream: &mut Stream, noisy: &mut Params) -> Drawn {
        let (from, to) = (params.values(), noisy.values_mut());
        for range in &self.others {
            to[range.clone()].copy_from_slice(&from[range.clone()]);
        }
        let mut drawn = Vec::new();
        for Layer { weights: [weights, of_weights], biases: [biases, of_biases] } in &self.layers {
            let outputs = biases.len().max(1);
            let by_input: Vec<f32> = (0..weights.len() / outputs).map(|_| root(stream)).collect();
            let by_output: Vec<f32> = (0..biases.len()).map(|_| root(stream)).collect();
            let rows = to[weights.clone()].chunks_exact_mut(outputs);
            let rows = rows.zip(from[weights.clone()].chunks_exact(outputs));
            let rows = rows.zip(from[of_weights.clone()].chunks_exact(outputs));
            for (((to, means), sigmas), input) in rows.zip(&by_input) {
                for (((to, mean), sigma), output) in to.iter_mut().zip(means).zip(sigmas).zip(&by_output) {
                    *to = mean + sigma * (input * output);
                }
            }
            let numbers = to[biases.clone()].iter_mut().zip(&from[biases.clone()]);
            for (((to, mean), sigma), output) in numbers.zip(&from[of_biases.clone()]).zip(&by_output) {
                *to = mean + sigma * output;
            }
            drawn.push([by_input, by_output]);
        }
        Drawn(drawn)
    }

    /// Adds the gradient with respect to the standard deviations to a gradient with respect to noisy parameters.
    pub(super) fn pull_back(&self, drawn: &Drawn, gradient: &mut [f32]) {
        for (layer, [by_input, by_output]) in self.layers.iter().zip(&drawn.0) {
            let Layer { weights: [weights, of_weights], biases: [biases, of_biases] } = layer;
            let factors =
                by_input.iter().flat_map(|input| by_output.iter().map(move |output| input * output));
            for ((number, sigma), factor) in weights.clone().zip(of_weights.clone()).zip(factors) {
                gradient[sigma] = gradient[number] * factor;
            }
            for ((number, sigma), factor) in biases.clone().zip(of_biases.clone()).zip(by_output) {
                gradient[sigma] = gradient[number] * factor;
            }
        }
    }
}

/// Returns `sgn(x)·√|x|` of a sample x from the standard normal distribution.
#[expect(clippy::cast_possible_truncation, reason = "weights are float32")]
fn root(stream: &mut Stream) -> f32 {
    let number = stream.normal() as f32;
    number.abs().sqrt().copysign(number)
}

#[cfg(test)]
mod tests {
    use relive_nn::{Activation, Key, Network};

    use super::*;

    fn network() -> (Network, Noise, Params) {
        let mut layout = Layout::new();
        let network = Network::builder(&mut layout, "q", 3).mlp(&[4], Activation::Relu).duelling(&[5], 2);
        let network = network.build();
        let noise = Noise::add_to(&mut layout);
        (network, noise, layout.init(Key::from_seed(1)))
    }

    #[test]
    fn every_linear_layer_has_noise_of_its_size() {
        let (network, noise, params) = network();
        assert_eq!(noise.layers.len(), 5);
        assert_eq!(params.values().len(), 2 * network.range().len());
        let (mut noisy, mut stream) = (params.clone(), Key::from_seed(2).stream());
        let drawn = noise.perturb(&params, &mut stream, &mut noisy);
        let factors = drawn.0.iter().map(|[by_input, by_output]| (by_input.len() + 1) * by_output.len());
        assert_eq!(factors.sum::<usize>(), network.range().len());
        let changed = noisy.values().iter().zip(params.values()).filter(|(a, b)| a != b).count();
        assert_eq!(changed, network.range().len(), "the standard deviations stay the same");
    }

    #[test]
    fn the_gradient_by_standard_deviations_matches_finite_differences() {
        let (network, noise, params) = network();
        let x = [0.3, -0.2, 0.9, 1.0, 0.5, -0.4];
        let loss = |params: &Params| {
            let mut noisy = params.clone();
            let drawn = noise.perturb(params, &mut Key::from_seed(2).stream(), &mut noisy);
            let (sum, mut gradient) = network.gradient(&noisy, &x, |outputs, by| {
                by.copy_from_slice(&[1.0, -2.0, 0.5, 3.0]);
                outputs.iter().zip([1.0, -2.0, 0.5, 3.0]).map(|(output, by)| output * by).sum::<f32>()
            });
            noise.pull_back(&drawn, &mut gradient);
            (sum, gradient)
        };
        let (_, gradient) = loss(&params);
        for (place, found) in gradient.iter().enumerate() {
            let moved = |by: f32| {
                let mut moved = params.clone();
                moved.values_mut()[place] += by;
                loss(&moved).0
            };
            let expected = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            assert!((found - expected).abs() < 2e-2, "{place}: {found} {expected}");
        }
    }
}
