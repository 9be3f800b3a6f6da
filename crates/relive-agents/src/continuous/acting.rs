//! Chooses actions with a network whose inputs are observations.

use relive_nn::heads::NormalHead;
use relive_nn::{Key, Network, Params, Scratch};
use relive_rl::{ActStep, Policy, PolicyContext, Purpose, Result, Saveable, Weights};

use super::noise::Noise;
use super::{Layers, Normalizer, Role, Spaces, TanhNormal};
use crate::streams::Streams;
use crate::weights;

/// How an action is drawn from the outputs of the network. An evaluation uses the most likely action, without noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Drawing {
    /// From a normal distribution squashed by tanh.
    TanhNormal,
    /// As the outputs plus normal noise with this standard deviation, clipped to −1..1.
    Noisy { stddev: f32 },
    /// From a normal distribution, clipped to −1..1.
    Normal(NormalHead),
}

/// The policy of all agents that act with one bounded array of numbers.
#[derive(Debug)]
pub(crate) struct ContinuousPolicy {
    spaces: Spaces,
    network: Network,
    params: Params,
    normalizer: Option<Normalizer>,
    drawing: Drawing,
    noise: Noise,
    explores: bool,
    rows: Vec<f32>,
    scratch: Scratch,
    drawn: TanhNormal,
}

impl ContinuousPolicy {
    /// Creates a policy with the network that `layers` describes, which has one or more outputs for each dimension of an
    /// action. The first loaded weights replace the initial ones. `drawing` is called with the number of dimensions.
    /// `correlation` is the autocorrelation of the exploration noise over time.
    ///
    /// # Errors
    /// Agents of this kind do not support the spaces, or the network cannot be built.
    pub(crate) fn create(
        context: &PolicyContext<'_>,
        layers: Layers<'_>,
        (outputs, role): (usize, Role),
        drawing: impl FnOnce(usize) -> Drawing,
        (normalizes, correlation): (bool, f32),
    ) -> Result<Box<dyn Policy>> {
        let spaces = Spaces::of(context.spec)?;
        let (rows, dimensions) = (context.keys.len(), spaces.dimensions());
        let (network, params) = layers.policy(&spaces, outputs * dimensions, role, Key::from_seed(0))?;
        Ok(Box::new(ContinuousPolicy {
            normalizer: normalizes.then(|| Normalizer::new(spaces.width())),
            noise: Noise::new(Streams::new(context.keys), rows, dimensions, correlation),
            explores: context.purpose == Purpose::Training,
            drawing: drawing(dimensions),
            spaces,
            network,
            params,
            rows: Vec::new(),
            scratch: Scratch::default(),
            drawn: TanhNormal::default(),
        }))
    }
}

impl Policy for ContinuousPolicy {
    fn act(&mut self, step: &mut ActStep<'_>) -> Result<()> {
        let Self { spaces, network, params, normalizer, drawing, noise, rows, scratch, drawn, .. } = self;
        spaces.observations.write_rows(step.observations, rows);
        if let Some(normalizer) = normalizer {
            normalizer.apply(rows);
        }
        let outputs = network.infer_each(params, rows, scratch);
        let dimensions = spaces.dimensions();
        for (row, (outputs, draw)) in outputs.chunks_exact(network.outputs()).zip(noise.each()).enumerate() {
            if self.explores {
                drawing.explore(outputs, draw, dimensions, drawn);
            } else {
                drawing.show(&outputs[..dimensions], &mut drawn.actions);
            }
            spaces.write(&drawn.actions, step.actions, row)?;
        }
        Ok(())
    }

    fn load(&mut self, newer: &Weights) -> Result<()> {
        self.normalizer.as_mut().map_or(Ok(()), |normalizer| normalizer.load(newer))?;
        weights::load(&mut self.params, newer)
    }
}

impl Drawing {
    fn explore(
        self,
        outputs: &[f32],
        mut draw: impl FnMut() -> f32,
        dimensions: usize,
        drawn: &mut TanhNormal,
    ) {
        let actions = &mut drawn.actions;
        match self {
            Self::TanhNormal => return drawn.draw(outputs, dimensions, draw),
            Self::Noisy { stddev } => {
                actions.clear();
                actions.extend(outputs.iter().map(|action| action + stddev * draw()));
            }
            Self::Normal(head) => {
                actions.resize(dimensions, 0.0);
                head.sample_by(outputs, draw, actions);
            }
        }
        actions.iter_mut().for_each(|action| *action = action.clamp(-1.0, 1.0));
    }

    /// Writes the most likely action, from the means among the outputs.
    fn show(self, means: &[f32], actions: &mut Vec<f32>) {
        actions.clear();
        match self {
            Self::TanhNormal => actions.extend(means.iter().map(|mean| mean.tanh())),
            Self::Normal(head) if head.tanh_mean => actions.extend(means.iter().map(|mean| mean.tanh())),
            Self::Noisy { .. } | Self::Normal(_) => {
                actions.extend(means.iter().map(|mean| mean.clamp(-1.0, 1.0)));
            }
        }
    }
}

impl Saveable for ContinuousPolicy {
    fn save(&mut self) -> Vec<u8> {
        self.noise.save()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.noise.restore(bytes)
    }
}
