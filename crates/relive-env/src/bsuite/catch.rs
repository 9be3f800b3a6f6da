//! Catch: a paddle below a falling ball.

use relive_tensor::DType;

use super::Totals;
use crate::random::RandomState;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

/// A ball falls one row per step, in a column drawn at the start. The paddle below moves left (0), stays (1) or moves
/// right (2).
///
/// Observations are the board, `[10, 5]`, with 1 at the places of the ball and the paddle. The last of nine steps earns
/// 1 if the paddle is below the ball, otherwise -1.
pub type Catch = Native<CatchTask>;

/// The task of [`Catch`].
#[derive(Clone, Debug)]
pub struct CatchTask {
    rows: u32,
    columns: u32,
    stream: RandomState,
    ball_column: u32,
    ball_row: u32,
    paddle: u32,
    total_regret: f64,
}

impl Catch {
    /// Creates a board of ten rows and five columns.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self::from(CatchTask::with_board(10, 5, seed))
    }
}

impl CatchTask {
    fn with_board(rows: u32, columns: u32, seed: u32) -> Self {
        let stream = RandomState::new(seed);
        Self { rows, columns, stream, ball_column: 0, ball_row: 0, paddle: 0, total_regret: 0.0 }
    }

    #[inline]
    fn draw(&self, board: &mut [f32]) {
        board.fill(0.0);
        let mut mark = |row, column| {
            if let Some(cell) = board.get_mut((row * self.columns + column) as usize) {
                *cell = 1.0;
            }
        };
        mark(self.ball_row, self.ball_column);
        mark(self.rows - 1, self.paddle);
    }
}

impl Task for CatchTask {
    type Action<'a> = u32;

    fn observations(&self) -> ArraySpec {
        ArraySpec::new("observation", DType::Float32, [self.rows, self.columns]).bounded(0.0, 1.0)
    }

    fn actions(&self) -> ArraySpec {
        ArraySpec::discrete("action", 3)
    }

    #[inline]
    fn begin(&mut self, observation: &mut [f32]) {
        let column = self.stream.randint(0, i64::from(self.columns));
        self.ball_column = u32::try_from(column).unwrap_or(0);
        self.ball_row = 0;
        self.paddle = self.columns / 2;
        self.draw(observation);
    }

    #[inline]
    fn act(&mut self, action: u32, observation: &mut [f32]) -> TimeStep {
        self.paddle = (self.paddle + action).saturating_sub(1).min(self.columns - 1);
        self.ball_row += 1;
        self.draw(observation);
        if self.ball_row < self.rows - 1 {
            return TimeStep::transition(0.0);
        }
        let reward = if self.paddle == self.ball_column { 1.0 } else { -1.0 };
        self.total_regret += 1.0 - reward;
        TimeStep::termination(reward)
    }

    fn state(&mut self, state: &mut State<'_>) {
        state.constant(self.rows);
        state.constant(self.columns);
        self.stream.state(state);
        state.field(&mut self.ball_column);
        state.field(&mut self.ball_row);
        state.field(&mut self.paddle);
        state.field(&mut self.total_regret);
    }
}

impl Totals for CatchTask {
    fn totals(&self) -> Vec<(&'static str, f64)> {
        vec![("total_regret", self.total_regret)]
    }
}
