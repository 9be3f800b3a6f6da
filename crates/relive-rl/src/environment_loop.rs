//! Actors in environments.

use std::time::{Duration, Instant};

use relive_env::{Action, Buffer, Environment, TimeStep, View};

use crate::finite::FiniteCheck;
use crate::{Actor, Result};

/// An actor in an environment, episode by episode.
pub struct EnvironmentLoop<E, A> {
    environment: E,
    actor: A,
    observation: Buffer,
    action: Buffer,
    observers: Vec<Box<dyn Observer>>,
    finite: FiniteCheck,
}

/// Looks on while episodes are played.
pub trait Observer: Send {
    /// An episode has begun.
    fn observe_first(&mut self, observation: View<'_>);

    /// `action` has led to `step` and `observation`.
    fn observe(&mut self, action: View<'_>, step: TimeStep, observation: View<'_>);

    /// What is to be told of the episode that has just ended, by name.
    fn metrics(&mut self) -> Vec<(String, f64)>;
}

/// An episode that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// Steps, the first observation not counted.
    pub length: u64,
    /// The undiscounted sum of its rewards.
    pub episode_return: f64,
    /// How long it took.
    pub duration: Duration,
    /// What the observers tell.
    pub metrics: Vec<(String, f64)>,
}

impl<E: Environment, A: Actor> EnvironmentLoop<E, A> {
    /// # Errors
    /// The environment's spec describes no memory for observations or actions.
    pub fn new(environment: E, actor: A) -> Result<Self> {
        let observation = Buffer::for_nest(&environment.spec().observations, 1)?;
        let action = Buffer::for_nest(&environment.spec().actions, 1)?;
        let finite = FiniteCheck::new(environment.spec());
        Ok(Self { environment, actor, observation, action, observers: Vec::new(), finite })
    }

    /// The environment's name, in messages.
    #[must_use]
    pub fn named(mut self, environment: &str) -> Self {
        self.finite.name(environment);
        self
    }

    /// Adds somebody who looks on.
    #[must_use]
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.observers.push(Box::new(observer));
        self
    }

    /// The environment.
    pub fn environment(&self) -> &E {
        &self.environment
    }

    /// The environment, between episodes.
    pub fn environment_mut(&mut self) -> &mut E {
        &mut self.environment
    }

    /// The actor.
    pub fn actor_mut(&mut self) -> &mut A {
        &mut self.actor
    }

    /// Plays one episode to its end. `after_step` is called after each step with the actor, and may have it learn.
    ///
    /// # Errors
    /// The environment's or the actor's; [`NotFinite`](crate::RlError::NotFinite) if an observation, a reward or a discount is NaN or
    /// infinite. The next call begins another episode.
    pub fn run_episode(&mut self, mut after_step: impl FnMut(&mut A) -> Result<()>) -> Result<Episode> {
        let started = Instant::now();
        self.environment.reset(self.observation.view_mut())?;
        let first = self.observation.view();
        self.finite.first(first)?;
        self.actor.observe_first(first)?;
        self.observers.iter_mut().for_each(|observer| observer.observe_first(first));
        let (mut length, mut episode_return) = (0, 0.0);
        loop {
            self.actor.select_action(self.observation.view(), self.action.view_mut())?;
            let action = self.action.view();
            let step = self.environment.step(Action::Nest(action), self.observation.view_mut())?;
            let observation = self.observation.view();
            self.finite.next(step, observation)?;
            self.actor.observe(action, step, observation)?;
            self.observers.iter_mut().for_each(|observer| observer.observe(action, step, observation));
            length += 1;
            episode_return += step.reward;
            after_step(&mut self.actor)?;
            if step.last() {
                let metrics = self.observers.iter_mut().flat_map(|observer| observer.metrics()).collect();
                return Ok(Episode { length, episode_return, duration: started.elapsed(), metrics });
            }
        }
    }
}
