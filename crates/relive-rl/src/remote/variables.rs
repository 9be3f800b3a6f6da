//! Parameters in a table.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_client::blocking::Client;
use relive_client::{Nest, Tensor};
use relive_nn::Params;

use super::tables::{is_timeout, wait_for_learner};
use crate::experiment::identity::Identity;
use crate::experiment::{Stop, saved};
use crate::variables::VariableSource;
use crate::{Result, RlError};

/// The table whose one item are the newest parameters.
pub(super) const TABLE: &str = "variables";

/// How old parameters may be before newer ones are fetched.
const FETCH_EVERY: Duration = Duration::from_millis(100);

/// Waiting for an item that is there.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a run is, and what to do if it is another one.
const PLACE: &str = "the server's table `variables`";
const ADVICE: &str = "tell actors and evaluators the same as the learner, or give them another server";

/// Puts parameters in the place of those before, with what they are of.
pub(super) fn put(client: &Client, identity: &Identity, params: &Params, is_over: bool) -> Result<()> {
    let step = Nest::dict([
        ("is_over", Nest::Leaf(Tensor::scalar(u8::from(is_over)))),
        ("of", saved::leaf(&identity.to_bytes()?)?),
        ("params", saved::leaf(params.as_bytes())?),
        ("version", Nest::Leaf(Tensor::scalar(params.version()))),
    ]);
    Ok(client.insert(&step, &[(TABLE, 1.0)])?)
}

/// Whether the learner whose parameters are on a server has all steps that it wants.
///
/// # Errors
/// The server cannot be reached, or has no such parameters.
pub fn is_over(client: &Client) -> Result<bool> {
    let samples = match client.with_timeout(PATIENCE).sample(TABLE, 1) {
        Err(error) if is_timeout(&error) => return Ok(false),
        samples => samples?,
    };
    let Some(sample) = samples.first() else { return Ok(false) };
    let flag = sample.columns()?.first().map(Tensor::to_vec::<u8>);
    let flag = flag.transpose().map_err(|error| RlError::state("parameters", error))?;
    Ok(flag.is_some_and(|flag| flag.first() == Some(&1)))
}

/// The parameters of a learner elsewhere, fetched at most ten times a second.
pub(super) struct RemoteVariables {
    client: Client,
    newest: Mutex<Newest>,
}

struct Newest {
    asked: Identity,
    /// What it is of there, once that was seen to be the same.
    known: Option<Vec<u8>>,
    params: Arc<Params>,
    is_over: bool,
    at: Instant,
}

impl RemoteVariables {
    /// Waits until there is a learner; `like` has the layout of its parameters, and `asked` is what they must be of.
    ///
    /// # Errors
    /// The server cannot be reached, the learner's parameters are of another run, or `stop` was told.
    pub(super) fn connect(
        client: &Client,
        asked: Identity,
        like: Params,
        stop: &Stop,
    ) -> Result<RemoteVariables> {
        wait_for_learner(client, stop)?;
        let params = Arc::new(like);
        let mut newest = Newest { asked, known: None, params, is_over: false, at: Instant::now() };
        while newest.known.is_none() {
            stop.check()?;
            newest.fetch(client)?;
        }
        Ok(RemoteVariables { client: client.clone(), newest: Mutex::new(newest) })
    }

    /// Whether the learner has all steps that it wants.
    ///
    /// # Errors
    /// As [`newest`](VariableSource::newest).
    pub(super) fn is_over(&self) -> Result<bool> {
        self.newest()?;
        Ok(self.newest.lock().is_over)
    }
}

impl VariableSource for RemoteVariables {
    fn newest(&self) -> Result<Arc<Params>> {
        let mut newest = self.newest.lock();
        if newest.at.elapsed() >= FETCH_EVERY {
            newest.fetch(&self.client)?;
        }
        Ok(Arc::clone(&newest.params))
    }
}

impl Newest {
    fn fetch(&mut self, client: &Client) -> Result<()> {
        self.at = Instant::now();
        let samples = match client.with_timeout(PATIENCE).sample(TABLE, 1) {
            // The learner is putting newer ones there, and this is the moment in between.
            Err(error) if is_timeout(&error) => return Ok(()),
            samples => samples?,
        };
        let Some(sample) = samples.first() else { return Ok(()) };
        let columns = sample.columns()?;
        let [is_over, of, params, version] = columns.as_slice() else {
            return Err(RlError::state("parameters", format_args!("{} columns, not 4", columns.len())));
        };
        let damaged = |error: relive_tensor::TensorError| RlError::state("parameters", error);
        self.expect(of.to_vec().map_err(damaged)?)?;
        self.is_over = is_over.to_vec::<u8>().map_err(damaged)?.first() == Some(&1);
        let version = version.to_vec::<u64>().map_err(damaged)?.first().copied().unwrap_or_default();
        if version == self.params.version() && version > 0 {
            return Ok(());
        }
        let bytes = params.to_vec::<u8>().map_err(damaged)?;
        let mut params = Params::clone(&self.params);
        params.set_bytes(&bytes, version)?;
        self.params = Arc::new(params);
        Ok(())
    }

    /// The learner's seed need not be that of those who act.
    fn expect(&mut self, of: Vec<u8>) -> Result<()> {
        if self.known.as_ref() == Some(&of) {
            return Ok(());
        }
        let there = Identity::from_bytes(&of)?;
        let asked = self.asked.clone().with_seed_of(&there);
        there.expect(&asked, PLACE, ADVICE)?;
        self.known = Some(of);
        Ok(())
    }
}
