//! The entry point: a sequence of selections from a seed.

use super::draws::{Draw, Places};
use super::keys::KeyKind;
use super::math;
use super::philox::{MAX_STEP, Numbers};
use super::pool::{Pool, Rank, RankTotals};
use super::radix;
use super::ranks::{self, Part, SelectionRequest, Summary};
use super::selection::{Order, Plan, Selected, Selection};
use super::smallest::{Candidate, first};
use super::sums::Measure;
use super::weights::WeightsConfig;
use crate::bytes::{Cursor, put};
use crate::{Error, ErrorKind, Result};

const MAGIC: [u8; 8] = *b"RLSELE01";

/// The maximum number of indices in one selection.
pub const MAX_COUNT: u64 = u32::MAX as u64;

/// The minimum mean mass, in units of the grid. Below it, probabilities would be off by more than 0.4 %.
const MIN_MEAN_UNITS: u64 = 256;

/// Selects indices. The result is determined by the seed, the step, the weights and the request; each selection is one
/// step.
///
/// With one rank, [`select`](Self::select) suffices. With several, every rank has a selector with the same seed and
/// makes the same calls: [`summary`](Self::summary) for all ranks, [`select_with`](Self::select_with) on the gathered
/// summaries, and [`merge`](Self::merge) where the whole list is needed. The list is the same for any number of ranks,
/// and on a GPU.
///
/// ```
/// use relive_gpu::select::{Order, Pool, Selection, Selector, Weights, WeightsConfig};
///
/// let mut weights = Weights::new(WeightsConfig::new(100))?;
/// weights.update(&[10, 20, 30], &[1.0, 1.0, 2.0])?;
/// let mut selector = Selector::new(7);
/// let selected = selector.select(&Pool::new(&weights), Selection::Weighted, 1_000, Order::AsDrawn)?;
/// let thirties = selected.indices.iter().filter(|index| **index == 30).count();
/// assert!((400..600).contains(&thirties));
/// # Ok::<(), relive_gpu::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    seed: u64,
    step: u64,
}

impl Selector {
    /// Creates a selector at its first step.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, step: 0 }
    }

    /// Returns the number of selections so far.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Selects `count` indices, for a single rank that owns all indices.
    ///
    /// # Errors
    /// Same as [`select_with`](Self::select_with).
    pub fn select(
        &mut self,
        pool: &Pool<'_>,
        selection: Selection,
        count: u64,
        order: Order,
    ) -> Result<Selected> {
        let summary = self.summary(pool, selection, count)?;
        let part = self.select_with(pool, &[summary], 0, selection, count)?;
        Self::merge(&[part], selection, order)
    }

    /// Returns this rank's message to the others before they select.
    ///
    /// # Errors
    /// The count or β is out of range, or insertion numbers are missing.
    pub fn summary(&self, pool: &Pool<'_>, selection: Selection, count: u64) -> Result<Summary> {
        let request = self.request(pool, selection, count)?;
        let candidates = match selection.plan() {
            Plan::Draws { .. } => Vec::new(),
            Plan::Smallest(kind) => pool.0.smallest(kind, &self.numbers(), count)?,
        };
        Summary::new(request, &*pool.0, candidates)
    }

    /// Returns the draws of this rank's indices. `summaries` are the summaries of all ranks for this selection, by
    /// rank. On success the selector advances to its next step.
    ///
    /// # Errors
    /// Nothing is selectable, or a selection of distinct indices requests more than are selectable
    /// ([`ErrorKind::Unavailable`]); the ranks disagree; or the summary of this rank does not match its weights.
    pub fn select_with(
        &mut self,
        pool: &Pool<'_>,
        summaries: &[Summary],
        rank: usize,
        selection: Selection,
        count: u64,
    ) -> Result<Part> {
        let request = self.request(pool, selection, count)?;
        let whole = ranks::whole(summaries, &request)?;
        let own = summaries.get(rank).ok_or_else(|| {
            Error::invalid(format!("this is rank {rank}, but there are {} summaries", summaries.len()))
        })?;
        if !own.is_of(&*pool.0)? {
            return Err(Error::invalid(format!(
                "the summary of rank {rank} does not match the weights that it selects from; they must not change in between"
            )));
        }
        check_selectable(selection, count, whole)?;
        check_resolution(selection, whole, &*pool.0)?;
        let draws = match selection.plan() {
            Plan::Draws { measure, stratified } => {
                let (own, total) = own_mass(summaries, rank, measure);
                let places = Places { numbers: self.numbers(), count, total, stratified };
                pool.0.draw(measure, &places, own)?
            }
            Plan::Smallest(_) => own_candidates(summaries, rank, count),
        };
        self.advance();
        Ok(Part { request, whole, draws })
    }

    /// Returns the parameters with which a single rank that owns all indices draws with replacement.
    ///
    /// # Errors
    /// The errors of [`select`](Self::select), or the selection selects each index only once.
    pub(crate) fn draws(
        &self,
        rank: &dyn Rank,
        selection: Selection,
        count: u64,
    ) -> Result<(Measure, Places)> {
        self.check_request(selection, count)?;
        let Plan::Draws { measure, stratified } = selection.plan() else {
            return Err(Error::invalid(format!("{selection:?} does not draw with replacement")));
        };
        let whole = rank.whole()?;
        check_selectable(selection, count, whole)?;
        check_resolution(selection, whole, rank)?;
        let total = match measure {
            Measure::Units => whole.units,
            Measure::Count => whole.selectable,
        };
        Ok((measure, Places { numbers: self.numbers(), count, total, stratified }))
    }

    /// Ends a selection.
    pub(crate) fn advance(&mut self) {
        self.step += 1;
    }

    /// Returns the whole list, given the parts of all ranks in any order.
    ///
    /// # Errors
    /// The parts do not all belong to one selection, or that selection is not `selection`.
    pub fn merge(parts: &[Part], selection: Selection, order: Order) -> Result<Selected> {
        let (request, whole, mut draws) = ranks::assemble(parts)?;
        if request.selection != selection.code() {
            return Err(Error::invalid(format!("the parts do not belong to the selection {selection:?}")));
        }
        if order == Order::ByIndex {
            let order = radix::order(&draws.iter().map(|draw| draw.index).collect::<Vec<u64>>());
            draws = order.iter().map(|position| draws[*position as usize]).collect();
        }
        Ok(finish(selection, whole, &draws))
    }

    /// Returns the seed and the step, for a checkpoint.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put(&mut out, [self.seed, self.step]);
        out
    }

    /// Restores a selector from the output of [`to_bytes`](Self::to_bytes); it continues with the same selections.
    ///
    /// # Errors
    /// The bytes do not encode a selector.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut from = Cursor::new(bytes, "the state of a selector");
        from.expect_magic(MAGIC)?;
        let [seed, step] = from.words()?;
        if step > MAX_STEP {
            let text = format!("the state of a selector has step {step}; the limit is {MAX_STEP}");
            return Err(Error::corrupt(text));
        }
        from.finish("the step")?;
        Ok(Self { seed, step })
    }

    pub(crate) fn numbers(&self) -> Numbers {
        Numbers::new(self.seed, self.step)
    }

    fn request(&self, pool: &Pool<'_>, selection: Selection, count: u64) -> Result<SelectionRequest> {
        self.check_request(selection, count)?;
        if let Plan::Smallest(kind) = selection.plan() {
            pool.check(kind)?;
        }
        Ok(SelectionRequest {
            seed: self.seed,
            step: self.step,
            selection: selection.code(),
            count,
            grid: ranks::grid_code(&*pool.0),
            total_capacity: pool.0.config().total_capacity,
        })
    }

    fn check_request(&self, selection: Selection, count: u64) -> Result<()> {
        selection.check()?;
        if count > MAX_COUNT {
            return Err(Error::invalid(format!(
                "{count} indices in one selection; the limit is {MAX_COUNT}"
            )));
        }
        if self.step >= MAX_STEP {
            return Err(Error::invalid(format!("step {MAX_STEP} is the last one; use another seed")));
        }
        Ok(())
    }
}

fn check_selectable(selection: Selection, count: u64, whole: RankTotals) -> Result<()> {
    let wanted = match selection.plan() {
        Plan::Draws { .. } => count.min(1),
        Plan::Smallest(_) => count,
    };
    if whole.selectable >= wanted {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        format!(
            "{count} indices were requested ({selection:?}), but {} have a weight above 0; insert more, or request fewer",
            whole.selectable
        ),
    ))
}

/// Checks the resolution of the grid. Each mass is off by less than a unit: with a mean of n units, all probabilities
/// together are off by less than 1/n.
fn check_resolution(selection: Selection, whole: RankTotals, rank: &dyn Rank) -> Result<()> {
    let is_by_mass = matches!(
        selection.plan(),
        Plan::Draws { measure: Measure::Units, .. } | Plan::Smallest(KeyKind::Race)
    );
    if !is_by_mass || whole.units / MIN_MEAN_UNITS >= whole.selectable {
        return Ok(());
    }
    let WeightsConfig { max_weight, exponent, .. } = *rank.config();
    let resolution = rank.grid().resolution();
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let mean = whole.units as f64 / whole.selectable as f64 * resolution;
    Err(Error::invalid(format!(
        "max_weight {max_weight} is too high for these weights: weights to the power of {exponent} are rounded to \
         multiples of {resolution:.3e}, but their mean is {mean:.3e}, and must be at least {MIN_MEAN_UNITS} times as \
         large as this unit; give a max_weight close to the largest expected weight"
    )))
}

/// Returns this rank's part of the whole mass, and the whole mass.
fn own_mass(summaries: &[Summary], rank: usize, measure: Measure) -> (std::ops::Range<u64>, u64) {
    let mass = |summary: &Summary| match measure {
        Measure::Units => summary.units,
        Measure::Count => summary.selectable,
    };
    let before: u64 = summaries[..rank].iter().map(mass).sum();
    (before..before + mass(&summaries[rank]), summaries.iter().map(mass).sum())
}

/// Returns this rank's candidates that are among the first of all ranks.
fn own_candidates(summaries: &[Summary], rank: usize, count: u64) -> Vec<Draw> {
    let mut all: Vec<Candidate> = summaries.iter().flat_map(|summary| &summary.candidates).copied().collect();
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    first(&mut all, count);
    all.truncate(count);
    let own = &summaries[rank].indices;
    let mine = (0..).zip(all).filter(|(_, candidate)| own.contains(&candidate.index));
    mine.map(|(position, Candidate { index, units, .. })| Draw { position, index, units }).collect()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "results are rounded to f32"
)]
fn finish(selection: Selection, whole: RankTotals, draws: &[Draw]) -> Selected {
    let probability = |units: u64| match selection {
        Selection::Uniform => (1.0 / whole.selectable as f64) as f32,
        Selection::TopK | Selection::Fifo | Selection::Lifo => 1.0,
        _ => (units as f64 / whole.units as f64) as f32,
    };
    // (N · p)^-β divided by the largest value of the batch is (the smallest p of the batch / p)^β: N and the whole mass
    // cancel.
    let least = draws.iter().map(|draw| draw.units).min().unwrap_or(1) as f64;
    let importance = |units: u64| match selection {
        Selection::Prioritized { beta, .. } => {
            math::exp2(f64::from(beta) * math::log2(least / units as f64)) as f32
        }
        _ => 1.0,
    };
    Selected {
        indices: draws.iter().map(|draw| draw.index).collect(),
        probabilities: draws.iter().map(|draw| probability(draw.units)).collect(),
        importance: draws.iter().map(|draw| importance(draw.units)).collect(),
    }
}
