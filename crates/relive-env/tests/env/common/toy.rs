//! An environment with every kind of leaf, with 64 bits if there is a choice.

use relive_env::random::Generator;
use relive_env::{
    Action, ArraySpec, Buffer, EnvError, Environment, EnvironmentSpec, State, TimeStep, ViewMut,
};
use relive_tensor::{DType, Nest};

/// An environment with episodes of five steps that earn 0.1, 0.2, … with discount 0.5.
#[derive(Debug)]
pub struct Toy {
    spec: EnvironmentSpec,
    stream: Generator,
    action: Buffer,
    steps: i64,
    over: bool,
    pub last_force: [f64; 2],
}

pub fn toy_action(force: [f64; 2], choice: i64) -> Buffer {
    let mut action = Buffer::for_nest(&actions(), 1).unwrap();
    action.leaf_mut::<i64>(0).unwrap()[0] = choice;
    action.leaf_mut::<f64>(1).unwrap().copy_from_slice(&force);
    action
}

fn actions() -> Nest<ArraySpec> {
    let choice = ArraySpec { dtype: DType::Int64, ..ArraySpec::discrete("choice", 3) };
    Nest::dict([
        ("choice", choice),
        ("force", ArraySpec::new("force", DType::Float64, [2]).bounded(0.0, 1.0)),
    ])
}

fn observations() -> Nest<ArraySpec> {
    let unit = |dims: &[u32]| ArraySpec::new("", DType::Float64, dims).bounded(0.0, 1.0);
    Nest::dict([
        ("a", Nest::Leaf(unit(&[3]))),
        ("b", Nest::dict([("x", unit(&[])), ("y", ArraySpec::new("", DType::Int64, []))])),
        ("c", Nest::List(vec![Nest::Leaf(ArraySpec::new("", DType::UInt8, [2, 2]))])),
    ])
}

impl Toy {
    pub fn new(seed: u64) -> Self {
        let spec = EnvironmentSpec::new(observations(), actions());
        let stream = Generator::new(seed);
        let action = Buffer::for_nest(&spec.actions, 1).unwrap();
        Self { spec, stream, action, steps: 0, over: true, last_force: [0.0; 2] }
    }

    fn show(&mut self, mut observation: ViewMut<'_>) -> Result<(), EnvError> {
        let like = Buffer::for_nest(&self.spec.observations, 1)?;
        observation.expect_like(like.view())?;
        observation.leaf_mut::<f64>(0)?.fill_with(|| self.stream.random());
        observation.leaf_mut::<f64>(1)?[0] = self.stream.random();
        observation.leaf_mut::<i64>(2)?[0] = -self.steps;
        observation.leaf_mut::<u8>(3)?.fill(7);
        Ok(())
    }

    fn fields(&mut self, state: &mut State<'_>) {
        self.stream.state(state);
        state.field(&mut self.steps);
        state.field(&mut self.over);
        state.fields(&mut self.last_force);
    }
}

impl Environment for Toy {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.show(observation)?;
        (self.steps, self.over) = (0, false);
        Ok(TimeStep::restart())
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        if self.over {
            return self.reset(observation);
        }
        self.action.set_action(0, action)?;
        self.last_force.copy_from_slice(self.action.leaf::<f64>(1)?);
        self.steps += 1;
        self.show(observation)?;
        let reward = 0.1 * self.steps as f64;
        self.over = self.steps == 5;
        let step = TimeStep { discount: 0.5, ..TimeStep::transition(reward) };
        Ok(if self.over { TimeStep::termination(reward) } else { step })
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.fields(&mut State::writer(&mut bytes));
        Some(bytes)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), EnvError> {
        let mut state = State::reader(bytes);
        self.fields(&mut state);
        state.finish()
    }
}
