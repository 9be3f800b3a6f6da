//! Plays an environment of bsuite or one of Gymnasium's classic tasks at random. Prints bsuite's log and score.
//!
//! ```console
//! $ cargo run --release -p relive-env --example random_play -- catch/0 1000
//! $ cargo run --release -p relive-env --example random_play -- CartPole-v1 100
//! ```

use std::error::Error;

use relive_env::bsuite::{BsuiteId, Logged, Run, score, write_csv};
use relive_env::{Action, Buffer, Environment, RandomPolicy, make};

const SEED: u32 = 1;

/// Plays the given number of episodes, and returns their mean return.
fn play(environment: &mut impl Environment, episodes: u32) -> Result<f64, Box<dyn Error>> {
    let mut observation = Buffer::for_nest(&environment.spec().observations, 1)?;
    let mut action = Buffer::for_nest(&environment.spec().actions, 1)?;
    let mut policy = RandomPolicy::new(&environment.spec().actions, 1);
    let mut total = 0.0;
    for _ in 0..episodes {
        let mut step = environment.reset(observation.view_mut())?;
        while !step.last() {
            policy.act(action.view_mut())?;
            step = environment.step(Action::Nest(action.view()), observation.view_mut())?;
            total += step.reward;
        }
    }
    Ok(total / f64::from(episodes))
}

#[expect(clippy::print_stdout, reason = "an example shows what it found")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "catch/0".to_owned());
    let episodes = arguments.next().map_or(Ok(1000), |text| text.parse())?;
    if let Ok(id) = name.parse::<BsuiteId>() {
        let mut environment = Logged::new(id.load(SEED)?);
        let mean = play(&mut environment, episodes)?;
        let run = Run { id, rows: environment.rows().to_vec() };
        print!("{}", write_csv(&run.rows));
        println!("mean return {mean:.3}, score {:.3}", score(id.experiment(), &[run])?);
    } else {
        let mut environment = make(&name, SEED.into())?;
        println!("mean return {:.3}", play(&mut environment, episodes)?);
    }
    Ok(())
}
