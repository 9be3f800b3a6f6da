//! Acting.

use relive_nn::{Key, Network, Params, Scratch};
use relive_rl::{ActStep, Policy, Purpose, Result, Saveable, Seat, Weights};

use super::SacConfig;
use super::loss::Drawn;
use super::network::{self, Spaces};
use crate::streams::Streams;
use crate::weights;

/// Draws actions by the policy network; in an evaluation it takes the means.
#[derive(Debug)]
pub(super) struct SacPolicy {
    spaces: Spaces,
    network: Network,
    params: Params,
    streams: Streams,
    explores: bool,
    rows: Vec<f32>,
    scratch: Scratch,
    drawn: Drawn,
}

impl SacPolicy {
    pub(super) fn new(config: &SacConfig, seat: &Seat<'_>) -> Result<SacPolicy> {
        let spaces = Spaces::of(seat.spec)?;
        let (network, params) = network::policy(&spaces, &config.hidden, Key::from_seed(0))?;
        Ok(SacPolicy {
            spaces,
            network,
            params,
            streams: Streams::new(seat.keys),
            explores: seat.purpose == Purpose::Training,
            rows: Vec::new(),
            scratch: Scratch::default(),
            drawn: Drawn::default(),
        })
    }
}

impl Policy for SacPolicy {
    fn act(&mut self, step: &mut ActStep<'_>) -> Result<()> {
        let SacPolicy { spaces, network, params, streams, rows, scratch, drawn, .. } = self;
        spaces.observations.write_rows(step.observations, rows);
        let outputs = network.infer_each(params, rows, scratch);
        let dimensions = spaces.dimensions();
        for (row, (outputs, stream)) in outputs.chunks_exact(2 * dimensions).zip(streams.each()).enumerate() {
            if self.explores {
                drawn.draw(outputs, dimensions, stream);
            } else {
                drawn.actions.clear();
                drawn.actions.extend(outputs[..dimensions].iter().map(|mean| mean.tanh()));
            }
            spaces.write(&drawn.actions, step.actions, row)?;
        }
        Ok(())
    }

    fn load(&mut self, newer: &Weights) -> Result<()> {
        weights::load(&mut self.params, newer)
    }
}

impl Saveable for SacPolicy {
    fn save(&mut self) -> Vec<u8> {
        self.streams.save()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.streams.restore(bytes)
    }
}
