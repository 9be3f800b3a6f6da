//! Draws that several ranks perform together: each rank holds some of the trajectories, and takes its share of one
//! list.
//!
//! A round consists of two exchanges among all ranks. In the first, each rank sends the masses of its trajectories
//! ([`Together::summary`]). In the second, it pins its own draws and then sends them ([`Together::part`]). These pins
//! prevent the trajectories from being replaced until all ranks have pinned their shares ([`Together::share`]). All
//! ranks have pinned their shares by the time they reach the next list.

use relive_gpu::select::{Order, Part, Selector, Summary};
use relive_gpu::{ErrorKind, Pinned};

use super::draw::{Drawn, Draws, MAX_ROUNDS, too_many_rounds};
use super::raise::{Failed, Result};

/// Represents the generation of a trajectory that was removed before it was pinned.
const GONE: u64 = u64::MAX;

/// The number of bytes of a number.
const NUMBER: usize = 8;

/// The list that all ranks draw, and this process's part of it.
pub(super) struct Together {
    /// The number of rows in the whole list.
    total: u64,
    /// The first row that this process takes; after it, the process takes every `replicas`-th row.
    replica: u64,
    replicas: u64,
    list: Option<List>,
    /// This rank's trajectories in the list, pinned until all ranks have pinned their shares.
    guards: Vec<Pinned>,
}

/// An incomplete list.
struct List {
    drawn: Drawn,
    rounds: usize,
    /// The selector's state before the list, and before its current round.
    before: Selector,
    before_round: Selector,
}

impl Together {
    /// Creates the state for shares of `rows` rows each.
    ///
    /// # Errors
    /// The share does not exist, or the list is too long.
    pub(super) fn new(rows: u64, (replica, replicas): (u64, u64)) -> Result<Together> {
        let total = rows.checked_mul(replicas).filter(|_| replica < replicas);
        let Some(total) = total else {
            let text = format!("there is no share {replica} of {replicas} of {rows} rows each");
            return Err(Failed::new(ErrorKind::InvalidArgument, text));
        };
        Ok(Together { total, replica, replicas, list: None, guards: Vec::new() })
    }

    /// Returns the data that this rank sends to the others before a round.
    pub(super) fn summary(&mut self, draws: &mut Draws) -> Result<Vec<u8>> {
        match &self.list {
            Some(_) => draws.scan_all()?,
            None => draws.follow()?,
        }
        let now = draws.selector.clone();
        let list = self.list.get_or_insert_with(|| List {
            drawn: Drawn::default(),
            rounds: 0,
            before: now.clone(),
            before_round: now.clone(),
        });
        list.before_round = now;
        Ok(draws.summary(self.total - list.drawn.len())?.to_bytes())
    }

    /// Returns the draws that selected this rank's trajectories, given the data of all ranks, and pins them.
    pub(super) fn part(&mut self, draws: &mut Draws, summaries: &[Vec<u8>]) -> Result<Vec<u8>> {
        let list = self.list.as_ref().ok_or_else(out_of_turn)?;
        let summaries: Vec<Summary> =
            summaries.iter().map(|bytes| Summary::from_bytes(bytes)).collect::<relive_gpu::Result<_>>()?;
        if list.rounds == 0 {
            // All ranks have reached this list, so they have pinned their shares of the previous one.
            self.guards.clear();
        }
        let part = draws.part(&summaries, self.total - list.drawn.len())?;
        let indices: Vec<u64> = part.draws().map(|(_, index)| index).collect();
        let (pinned, missing) =
            if draws.counts_late() { draws.hold_drawn(&indices)? } else { draws.pin_drawn(&indices)? };
        let bytes = part_bytes(&part, &pinned, &missing);
        self.guards.push(pinned);
        Ok(bytes)
    }

    /// Merges the parts of all ranks. Returns this process's share of the list, pinned, once the list is complete;
    /// until then, another round is needed.
    ///
    /// # Errors
    /// The parts do not belong to this round. The list is abandoned here; other ranks may keep theirs.
    pub(super) fn share(&mut self, draws: &mut Draws, parts: &[Vec<u8>]) -> Result<Option<(Drawn, Pinned)>> {
        let mut list = self.list.take().ok_or_else(out_of_turn)?;
        list.take_in(draws, parts)?;
        if list.drawn.len() < self.total && list.rounds < MAX_ROUNDS {
            self.list = Some(list);
            return Ok(None);
        }
        if list.drawn.len() < self.total {
            return Err(too_many_rounds(self.total));
        }
        if draws.counts_late()
            && let Some(own) = self.guards.last()
        {
            // Such a list is complete after one round, so the last guard has this rank's part of it.
            draws.count_held(own)?;
        }
        draws.compute_importance(&mut list.drawn, list.rounds - 1);
        let mut own = list.drawn.every(self.replica, self.replicas);
        let Some(pinned) = draws.try_pin_again(&own)? else {
            let text = "a rank replaced trajectories that were drawn from it before all ranks had pinned them, \
                        because it has closed its loader";
            return Err(Failed::new(ErrorKind::Unavailable, text.to_owned()));
        };
        let positions = (self.replica..).step_by(usize::try_from(self.replicas).unwrap_or(usize::MAX));
        draws.complete(&mut own, &pinned, list.before.step(), positions);
        Ok(Some((own, pinned)))
    }

    /// Abandons a list that a rank could not complete; the next list is drawn in its place. If the ranks that failed only
    /// lacked trajectories (`is_short`), a list whose trajectories already count as sampled is kept instead, and continued.
    pub(super) fn give_up(&mut self, draws: &mut Draws, is_short: bool) {
        if is_short
            && draws.counts_early()
            && let Some(list) = self.list.as_mut().filter(|list| list.drawn.len() > 0)
        {
            draws.selector = list.before_round.clone();
            // The rounds of the next call count anew; after the first round, the guards are kept.
            list.rounds = 1;
            return;
        }
        if let Some(list) = self.list.take() {
            draws.selector = list.before;
        }
        self.forget();
    }

    /// Forgets a list that was kept.
    pub(super) fn forget(&mut self) {
        self.list = None;
        self.guards.clear();
    }

    /// Returns the number of rows in a list that was kept.
    pub(super) fn kept(&self) -> u64 {
        self.list.as_ref().map_or(0, |list| list.drawn.len())
    }
}

impl List {
    fn take_in(&mut self, draws: &Draws, parts: &[Vec<u8>]) -> Result<()> {
        let decoded = parts.iter().map(|bytes| decode_part(bytes)).collect::<Result<Vec<_>>>()?;
        let (parts, generations): (Vec<Part>, Vec<Vec<u64>>) = decoded.into_iter().unzip();
        let selected = Selector::merge(&parts, draws.selection, Order::AsDrawn)?;
        let mut by_position = vec![GONE; selected.indices.len()];
        for (part, generations) in parts.iter().zip(&generations) {
            for ((position, _), generation) in part.draws().zip(generations) {
                // Merging has ensured that each position occurs once.
                by_position[usize::try_from(position).unwrap_or(usize::MAX)] = *generation;
            }
        }
        let missing: Vec<usize> = (0..by_position.len()).filter(|&at| by_position[at] == GONE).collect();
        // If a selection has distinct indices, a second selection could return indices of the first one.
        if missing.is_empty() || !draws.selects_once() {
            self.drawn.add(&selected, &missing);
            self.drawn.generations.extend(by_position.into_iter().filter(|&generation| generation != GONE));
        }
        self.rounds += 1;
        Ok(())
    }
}

/// Encodes a part and the pinned generation of each of its draws.
fn part_bytes(part: &Part, pinned: &Pinned, missing: &[usize]) -> Vec<u8> {
    let draws = part.to_bytes();
    let mut bytes = (draws.len() as u64).to_le_bytes().to_vec();
    bytes.extend(draws);
    let (mut rows, mut missing) = (pinned.rows().iter(), missing.iter().peekable());
    for position in 0..part.draws().count() {
        let gone = missing.next_if(|&&next| next == position).is_some();
        let generation = if gone { None } else { rows.next().map(|row| row.generation) };
        bytes.extend(generation.unwrap_or(GONE).to_le_bytes());
    }
    bytes
}

/// Decodes the output of [`part_bytes`].
fn decode_part(bytes: &[u8]) -> Result<(Part, Vec<u64>)> {
    let wrong =
        || Failed::new(ErrorKind::InvalidArgument, "a rank sent its part in an unexpected form".to_owned());
    let (size, rest) = bytes.split_first_chunk::<NUMBER>().ok_or_else(wrong)?;
    let size = usize::try_from(u64::from_le_bytes(*size)).map_err(|_| wrong())?;
    let (part, rest) = rest.split_at_checked(size).ok_or_else(wrong)?;
    let part = Part::from_bytes(part)?;
    let (generations, []) = rest.as_chunks::<NUMBER>() else { return Err(wrong()) };
    if generations.len() != part.draws().count() {
        return Err(wrong());
    }
    Ok((part, generations.iter().map(|number| u64::from_le_bytes(*number)).collect()))
}

fn out_of_turn() -> Failed {
    Failed::new(
        ErrorKind::InvalidArgument,
        "no list is being drawn; send this one to the other ranks first".to_owned(),
    )
}
