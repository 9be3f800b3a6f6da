//! The learner of an earlier run, with which a run begins.

use std::path::Path;

use relive_checkpoint::{Catalog, LoadOptions};

use super::checkpoints::{of_no_run, run_in};
use super::counters;
use crate::identity::{Comparison, Identity};
use crate::plan::{EarlierLearner, SavedParts, WARM_START};
use crate::{Result, RlError};

const EXPECTED: &str =
    "a folder with the checkpoints of a run, or one of its checkpoints; the file of a policy has no learner";

/// The advice if the learner of another run does not fit.
const ALIKE: &str = "a warm start needs the same agent, observations and actions";

/// Returns the learner in the newest checkpoint of an earlier run, with which a run with the identity `own` may begin.
///
/// # Errors
/// There is no checkpoint of a run at `place`, it cannot be read, or its agent, observations or actions differ
/// ([`OtherRun`](RlError::OtherRun)).
pub(super) fn earlier_learner(place: &Path, own: &Identity) -> Result<EarlierLearner> {
    let text = place.display().to_string();
    let refused = |got: &str| RlError::setting(WARM_START, got, EXPECTED);
    let is_usable = place.is_dir() || place.extension().is_some_and(|extension| extension == "relive");
    let location = place.to_str().filter(|_| is_usable && place.exists()).ok_or_else(|| refused(&text))?;
    let loaded = Catalog::open(location)?.load(&LoadOptions::new()).map_err(RlError::Unreadable)?;
    let snapshot = loaded.ok_or_else(|| refused(&text))?.snapshot;
    let Some((identity, state)) = run_in(&snapshot)? else {
        return Err(refused(&of_no_run(&text, &snapshot)));
    };
    let (saved, asked) = ("the checkpoint", "this run");
    identity.expect_alike(own, Comparison { place: &text, saved, asked, advice: ALIKE })?;
    let (_, parts) = counters::restore_with(&state)?;
    let learner = EarlierLearner::of(SavedParts::from_bytes(&parts)?, text.clone());
    learner.ok_or_else(|| refused(&text))
}
