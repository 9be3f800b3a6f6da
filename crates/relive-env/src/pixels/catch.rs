//! Catch on a screen.

use relive_tensor::{DType, Nest};

use crate::buffer::Action;
use crate::buffer::ViewMut;
use crate::environment::Environment;
use crate::error::{EnvError, Mismatch};
use crate::random::Generator;
use crate::spec::{ArraySpec, EnvironmentSpec};
use crate::state::State;
use crate::timestep::TimeStep;

/// The height and width of the screen.
const SCREEN: u32 = 84;

/// The width and height of a cell, in pixels.
const CELL: u32 = 4;

/// The number of cells per row, and the number of rows.
const CELLS: u32 = SCREEN / CELL;

/// The width of the paddle, in cells.
const PADDLE: u32 = 3;

/// The number of steps in an episode.
const STEPS: u32 = CELLS - 1;

/// A one-cell ball falls one row per step, in a column drawn at the start. The three-cell paddle in the last row moves
/// one cell to the left (0), stays (1) or moves one cell to the right (2). From the middle, it can reach every column
/// in time.
///
/// Observations are a screen of bytes, `[84, 84, 1]`, with cells of 4 x 4 pixels; the ball and the paddle are 255. The
/// last of 20 steps earns 1 if the ball is caught, otherwise -1. This is a task for convolutional networks: the optimum
/// is 1, and random play achieves about -0.7.
#[derive(Clone, Debug)]
pub struct PixelCatch {
    spec: EnvironmentSpec,
    stream: Generator,
    ball_column: u32,
    ball_row: u32,
    /// The paddle's first column.
    paddle: u32,
    /// Whether the next step is a reset.
    over: bool,
}

impl PixelCatch {
    /// Draws columns from a seed's stream.
    #[must_use]
    pub fn new(seed: u64) -> PixelCatch {
        let screen = ArraySpec::new("screen", DType::UInt8, [SCREEN, SCREEN, 1]);
        let actions = ArraySpec::discrete("action", 3);
        let spec = EnvironmentSpec::new(screen.bounded(0.0, 255.0), actions);
        let stream = Generator::new(seed);
        PixelCatch { spec, stream, ball_column: 0, ball_row: 0, paddle: 0, over: true }
    }

    fn draw(&self, mut observation: ViewMut<'_>) -> Result<(), EnvError> {
        let expected = (SCREEN * SCREEN) as usize;
        let leaves = observation.num_leaves();
        let screen = observation.leaf_mut::<u8>(0)?;
        if leaves != 1 || screen.len() != expected {
            let actual = format_args!("{leaves} leaves, the first of {} bytes", screen.len());
            let spec = match &self.spec.observations {
                Nest::Leaf(spec) => spec.to_string(),
                _ => String::new(),
            };
            return Err(EnvError::Observation(Mismatch::boxed("", spec, actual)));
        }
        screen.fill(0);
        fill(screen, self.ball_row, self.ball_column, 1);
        fill(screen, CELLS - 1, self.paddle, PADDLE);
        Ok(())
    }

    fn visit(&mut self, state: &mut State<'_>) {
        self.stream.state(state);
        state.field(&mut self.ball_column);
        state.field(&mut self.ball_row);
        state.field(&mut self.paddle);
        state.field(&mut self.over);
    }
}

/// Paints `count` cells of a row.
fn fill(screen: &mut [u8], row: u32, column: u32, count: u32) {
    let (begin, width) = ((column * CELL) as usize, (count * CELL) as usize);
    let lines = screen.chunks_exact_mut(SCREEN as usize);
    for line in lines.skip((row * CELL) as usize).take(CELL as usize) {
        line.iter_mut().skip(begin).take(width).for_each(|pixel| *pixel = u8::MAX);
    }
}

impl Environment for PixelCatch {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn reset(&mut self, mut observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        // A row with a different layout is rejected before any change.
        self.draw(observation.reborrow())?;
        self.ball_column = self.stream.below(CELLS);
        self.ball_row = 0;
        self.paddle = (CELLS - PADDLE) / 2;
        self.over = false;
        self.draw(observation)?;
        Ok(TimeStep::restart())
    }

    fn step(&mut self, action: Action<'_>, mut observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        if self.over {
            return self.reset(observation);
        }
        let action = action.discrete(3)?;
        self.draw(observation.reborrow())?;
        self.paddle = (self.paddle + action).saturating_sub(1).min(CELLS - PADDLE);
        self.ball_row += 1;
        self.draw(observation)?;
        if self.ball_row < STEPS {
            return Ok(TimeStep::transition(0.0));
        }
        self.over = true;
        let is_caught = (self.paddle..self.paddle + PADDLE).contains(&self.ball_column);
        Ok(TimeStep::termination(if is_caught { 1.0 } else { -1.0 }))
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.visit(&mut State::writer(&mut bytes));
        Some(bytes)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), EnvError> {
        let mut restored = self.clone();
        let mut state = State::reader(bytes);
        restored.visit(&mut state);
        state.finish()?;
        *self = restored;
        Ok(())
    }

    fn demonstrate(&self, mut action: ViewMut<'_>) -> Result<bool, EnvError> {
        let middle = self.paddle + PADDLE / 2;
        let choice = match self.ball_column.cmp(&middle) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => 1,
            std::cmp::Ordering::Greater => 2,
        };
        action.leaf_mut::<i32>(0)?.fill(choice);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    #[test]
    fn the_ball_can_always_be_caught_and_is_visible_with_the_paddle() {
        let mut environment = PixelCatch::new(1);
        let spec = environment.spec().clone();
        let mut screen = Buffer::for_nest(&spec.observations, 1).unwrap();
        let mut action = Buffer::for_nest(&spec.actions, 1).unwrap();
        let mut seen = [false; CELLS as usize];
        for _ in 0..200 {
            let mut step = environment.reset(screen.row_mut(0)).unwrap();
            let first = screen.leaf::<u8>(0).unwrap();
            let column = first.iter().position(|pixel| *pixel == 255).unwrap();
            seen[column / 4] = true;
            assert_eq!(first.iter().filter(|pixel| **pixel == 255).count(), 4 * 4 + 12 * 4);
            assert!(first.iter().all(|pixel| [0, 255].contains(pixel)) && first[84 * 80 + 36] == 255);
            let mut steps = 0;
            while !step.last() {
                assert!(environment.demonstrate(action.row_mut(0)).unwrap());
                step = environment.step(Action::Nest(action.row(0)), screen.row_mut(0)).unwrap();
                steps += 1;
            }
            assert_eq!((step.reward.to_bits(), steps), (1.0_f64.to_bits(), 20));
        }
        assert!(seen.iter().all(|seen| *seen), "every column: {seen:?}");
    }
}
