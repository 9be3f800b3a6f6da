//! The settings of R2D2.

use relive_rl::Result;

use crate::off_policy::{Demonstrations, OffPolicy, off_policy};
use crate::settings::{bsuite_family, check, fraction, layers, positive, settings, whole};

settings! {
    /// The settings of R2D2 (Kapturowski et al. 2019): an LSTM that learns from sequences by n-step double Q-learning,
    /// with rescaled values, stored states, and burn-in. The defaults are taken from Acme's agent.
    ///
    /// Deviations from the paper: the importance weights are those of prioritized DQN; the squared error is summed over
    /// a sequence, and a new sequence has the priority 1, as in Acme. If a sequence starts with its episode, the agent
    /// also learns from the first steps: their initial state is known, so burn-in is unnecessary.
    pub struct R2d2Config {
        /// The number of sequences in a batch.
        pub batch_size: usize = 32,
        /// How many times each sequence is sampled, on average.
        pub samples_per_insert: f64 = 32.0,
        /// The number of steps at the start of a sequence that only warm up the recurrent state.
        pub burn_in_length: usize = 40,
        /// The number of steps after the burn-in, from which the agent learns.
        pub trace_length: usize = 40,
        /// The number of steps between the starts of consecutive sequences.
        pub replay_period: usize = 40,
        /// The number of steps that a return spans.
        pub n_step: usize = 5,
        /// The agent's discount γ.
        pub discount: f32 = 0.99,
        /// The number of sequences in the table before learning starts.
        pub min_replay_size: usize = 1_000,
        /// The capacity of the replay table, in sequences.
        pub max_replay_size: u64 = 100_000,
        /// The number of environments, divided among the actors; at least one for each actor. An actor acts in all of its
        /// environments at once.
        pub num_envs: usize = 1,
        /// The exponent of the priorities when sequences are sampled; 0 samples uniformly.
        pub priority_exponent: f64 = 0.6,
        /// The exponent β of the importance weights, which correct the bias of prioritized sampling.
        pub importance_exponent: f32 = 0.2,
        /// The weight η of a sequence's largest error in its priority, relative to the mean error.
        pub max_priority_weight: f32 = 0.9,
        /// The probability of a random action.
        pub epsilon: f64 = 0.01,
        /// The spread of ε over the environments: row i of N has ε^(1 + α·i/(N − 1)), as in Ape-X; 0 gives all rows the
        /// same ε.
        pub epsilon_alpha: f64 = 0.0,
        /// The step size of Adam.
        pub learning_rate: f32 = 1e-3,
        /// The constant ε of Adam.
        pub adam_epsilon: f32 = 1e-3,
        /// The number of learner steps between copies to the target network.
        pub target_update_period: u64 = 100,
        /// The bound on the gradient's norm; none unless set.
        pub max_gradient_norm: Option<f32> = None,
        /// The sizes of the hidden layers before the LSTM.
        pub hidden: Vec<usize> = vec![50],
        /// The number of units of the LSTM.
        pub lstm_units: usize = 50,
        /// The sizes of the hidden layers after the LSTM; with `duelling`, both the value head and the advantage head
        /// have these layers.
        pub head: Vec<usize> = vec![50],
        /// Whether the network has a value and an advantage head.
        pub duelling: bool = true,
        /// Demonstrations from which the agent learns in addition to its own experience; none by default.
        /// Demonstrations have no stored states, so their sequences start with a state of zeros.
        pub demonstrations: Demonstrations = Demonstrations::default(),
    }
}

impl R2d2Config {
    /// Returns the settings for a named environment: tuned settings if there are any, otherwise the defaults.
    #[must_use]
    pub fn for_environment(name: &str) -> R2d2Config {
        match bsuite_family(name) {
            // Most episodes of bsuite have ten to a hundred steps, and there are few episodes.
            Some(_) => R2d2Config {
                burn_in_length: 5,
                trace_length: 20,
                replay_period: 10,
                min_replay_size: 100,
                ..R2d2Config::default()
            },
            None => R2d2Config::default(),
        }
    }

    /// Returns the number of rows of a sequence: its steps, and the observation after the last.
    pub(super) fn rows(&self) -> usize {
        self.burn_in_length.saturating_add(self.trace_length).saturating_add(1)
    }

    /// Returns the settings of the replay table and of the adders that fill it.
    pub(super) fn off_policy(&self) -> OffPolicy {
        off_policy!(self)
    }

    /// Checks that all settings are within their ranges.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn validate(&self) -> Result<()> {
        self.off_policy().validate()?;
        whole("trace_length", self.trace_length)?;
        whole("replay_period", self.replay_period)?;
        let rows = self.rows();
        check("the rows of a sequence", rows, rows <= MAX_ROWS, "at most 65536")?;
        self.demonstrations.validate(self.batch_size)?;
        fraction("importance_exponent", self.importance_exponent)?;
        fraction("max_priority_weight", self.max_priority_weight)?;
        check("epsilon", self.epsilon, (0.0..=1.0).contains(&self.epsilon), "from 0 to 1")?;
        let alpha = self.epsilon_alpha;
        check("epsilon_alpha", alpha, alpha >= 0.0 && alpha.is_finite(), "at least 0")?;
        let exponent = self.priority_exponent;
        check("priority_exponent", exponent, exponent >= 0.0 && exponent.is_finite(), "at least 0")?;
        positive("learning_rate", self.learning_rate)?;
        positive("adam_epsilon", self.adam_epsilon)?;
        self.max_gradient_norm.map_or(Ok(()), |norm| positive("max_gradient_norm", norm))?;
        let period = self.target_update_period;
        check("target_update_period", period, period >= 1, "at least 1")?;
        check("the number of hidden layers", 0, !self.hidden.is_empty(), "at least 1")?;
        whole("lstm_units", self.lstm_units)?;
        layers(&self.hidden)?;
        layers(&self.head)
    }
}

/// The maximum number of rows of a sequence; in practice, sequences have at most a few hundred rows.
const MAX_ROWS: usize = 1 << 16;
