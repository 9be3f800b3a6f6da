//! The pole on a cart that two of bsuite's environments share.

use std::f64::consts::PI;

use crate::number::{remainder, square};
use crate::random::RandomState;
use crate::state::State;

const GRAVITY: f64 = 9.8;
const POLE_MASS: f64 = 0.1;
const TOTAL_MASS: f64 = 1.0 + POLE_MASS;
const LENGTH: f64 = 0.5;
const POLE_MOMENT: f64 = POLE_MASS * LENGTH;
const FORCE: f64 = 10.0;
const STEP_SECONDS: f64 = 0.01;
const START: f64 = 0.05;
/// The limit on the cart's position.
pub(super) const MAX_POSITION: f64 = 3.0;
/// The maximum duration of an episode.
const MAX_SECONDS: f64 = 10.0;

#[derive(Clone, Debug, Default)]
pub(super) struct Pole {
    pub(super) position: f64,
    speed: f64,
    angle: f64,
    pub(super) angle_speed: f64,
    seconds: f64,
}

impl Pole {
    /// Creates a pole that is nearly at rest, with an angle near `angle`.
    pub(super) fn start(stream: &mut RandomState, angle: f64) -> Self {
        let mut near = |value: f64| value + stream.uniform(-START, START);
        let (position, speed) = (near(0.0), near(0.0));
        let (angle, angle_speed) = (near(angle), near(0.0));
        Self { position, speed, angle, angle_speed, seconds: 0.0 }
    }

    /// Pushes the cart left (0), not at all (1) or right (2).
    #[inline]
    pub(super) fn push(&mut self, action: u32) {
        let force = (f64::from(action) - 1.0) * FORCE;
        let (sin, cos) = self.angle.sin_cos();
        let push = (force + POLE_MOMENT * square(self.angle_speed) * sin) / TOTAL_MASS;
        let angle_acceleration =
            (GRAVITY * sin - cos * push) / (LENGTH * (4.0 / 3.0 - POLE_MASS * square(cos) / TOTAL_MASS));
        let acceleration = push - POLE_MOMENT * angle_acceleration * cos / TOTAL_MASS;
        self.position += STEP_SECONDS * self.speed;
        self.speed += STEP_SECONDS * acceleration;
        self.angle = remainder(self.angle + STEP_SECONDS * self.angle_speed, 2.0 * PI);
        self.angle_speed += STEP_SECONDS * angle_acceleration;
        self.seconds += STEP_SECONDS;
    }

    /// Returns the height of the tip: 1 upright, -1 hanging.
    #[inline]
    pub(super) fn height(&self) -> f64 {
        self.angle.cos()
    }

    #[inline]
    pub(super) fn out_of_time(&self) -> bool {
        self.seconds > MAX_SECONDS
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "observations are float32")]
    pub(super) fn observe(&self, observation: &mut [f32]) {
        let (sin, cos) = self.angle.sin_cos();
        let (position, speed) = (self.position / MAX_POSITION, self.speed / MAX_POSITION);
        let values = [position, speed, sin, cos, self.angle_speed, self.seconds / MAX_SECONDS];
        for (cell, value) in observation.iter_mut().zip(values) {
            *cell = value as f32;
        }
    }

    pub(super) fn state(&mut self, state: &mut State<'_>) {
        let fields =
            [&mut self.position, &mut self.speed, &mut self.angle, &mut self.angle_speed, &mut self.seconds];
        fields.into_iter().for_each(|field| state.field(field));
    }
}
