//! Draws that several ranks make together: each has some of the trajectories, and takes its share of one list.
//!
//! A round has two exchanges among all ranks. In the first, each tells the masses of its trajectories
//! ([`Together::summary`]); in the second, which draws were its own ([`Together::part`]), after it has pinned them,
//! so that nobody replaces them until all ranks have pinned their shares ([`Together::share`]). That all have, a rank
//! knows when they come to the next list.

use relive_gpu::select::{Order, Part, Selector, Summary};
use relive_gpu::{ErrorKind, Pinned};

use super::draw::{Drawn, Draws, MAX_ROUNDS, too_many_rounds};
use super::raise::{Failed, Result};

/// In place of the generation of a trajectory that had gone before it was pinned.
const GONE: u64 = u64::MAX;

/// Bytes of a number.
const NUMBER: usize = 8;

/// The list that all ranks draw, and which part of it is this process's.
pub(super) struct Together {
    /// Rows of the whole list.
    total: u64,
    /// This process has every `replicas`-th row, from this one on.
    replica: u64,
    replicas: u64,
    list: Option<List>,
    /// This rank's trajectories of the list, pinned until all have pinned their shares.
    guards: Vec<Pinned>,
}

/// A list in the making.
struct List {
    drawn: Drawn,
    rounds: usize,
    /// As the selector was before.
    before: Selector,
}

impl Together {
    /// For shares of `rows` rows each.
    ///
    /// # Errors
    /// The share is none of them, or the list is too long.
    pub(super) fn new(rows: u64, (replica, replicas): (u64, u64)) -> Result<Together> {
        let total = rows.checked_mul(replicas).filter(|_| replica < replicas);
        let Some(total) = total else {
            let text = format!("share {replica} of {replicas} of {rows} rows each; there is no such share");
            return Err(Failed::new(ErrorKind::InvalidArgument, text));
        };
        Ok(Together { total, replica, replicas, list: None, guards: Vec::new() })
    }

    /// What this rank tells the others before a round.
    pub(super) fn summary(&mut self, draws: &mut Draws) -> Result<Vec<u8>> {
        match &self.list {
            Some(_) => draws.look_at_all()?,
            None => draws.follow()?,
        }
        let before = draws.selector.clone();
        let list = self.list.get_or_insert_with(|| List { drawn: Drawn::default(), rounds: 0, before });
        Ok(draws.summary(self.total - list.drawn.len())?.to_bytes())
    }

    /// Which draws were this rank's, after all have told theirs; it pins them.
    pub(super) fn part(&mut self, draws: &mut Draws, summaries: &[Vec<u8>]) -> Result<Vec<u8>> {
        let list = self.list.as_ref().ok_or_else(out_of_turn)?;
        let summaries: Vec<Summary> =
            summaries.iter().map(|bytes| Summary::from_bytes(bytes)).collect::<relive_gpu::Result<_>>()?;
        if list.rounds == 0 {
            // All ranks have come to this list, and with it have pinned their shares of the one before.
            self.guards.clear();
        }
        let part = draws.part(&summaries, self.total - list.drawn.len())?;
        let indices: Vec<u64> = part.draws().map(|(_, index)| index).collect();
        let (pinned, missing) = draws.reader.pin_present(&indices)?;
        let bytes = part_bytes(&part, &pinned, &missing);
        self.guards.push(pinned);
        Ok(bytes)
    }

    /// Takes in the parts of all ranks. This process's share of the list, pinned, once the list is complete; until
    /// then there is another round.
    ///
    /// # Errors
    /// The parts are not those of this round. The list is given up; others may have theirs.
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
        draws.weigh(&mut list.drawn, list.rounds - 1);
        let mut own = list.drawn.every(self.replica, self.replicas);
        let Some(pinned) = draws.hold_again(&own)? else {
            let text = "a rank replaced trajectories that were drawn from it before all had pinned them: it has closed its loader";
            return Err(Failed::new(ErrorKind::Unavailable, text.to_owned()));
        };
        let positions = (self.replica..).step_by(usize::try_from(self.replicas).unwrap_or(usize::MAX));
        draws.complete(&mut own, &pinned, list.before.step(), positions);
        Ok(Some((own, pinned)))
    }

    /// Gives a list up, of which a rank has said that it cannot go on with it; the next one is drawn in its place.
    pub(super) fn give_up(&mut self, draws: &mut Draws) {
        if let Some(list) = self.list.take() {
            draws.selector = list.before;
        }
        self.guards.clear();
    }
}

impl List {
    fn take_in(&mut self, draws: &Draws, parts: &[Vec<u8>]) -> Result<()> {
        let told = parts.iter().map(|bytes| told(bytes)).collect::<Result<Vec<_>>>()?;
        let (parts, generations): (Vec<Part>, Vec<Vec<u64>>) = told.into_iter().unzip();
        let selected = Selector::merge(&parts, draws.selection, Order::AsDrawn)?;
        let mut by_position = vec![GONE; selected.indices.len()];
        for (part, generations) in parts.iter().zip(&generations) {
            for ((position, _), generation) in part.draws().zip(generations) {
                // Merging has made sure that each position is there once.
                by_position[usize::try_from(position).unwrap_or(usize::MAX)] = *generation;
            }
        }
        let missing: Vec<usize> = (0..by_position.len()).filter(|&at| by_position[at] == GONE).collect();
        // Where each index is selected once, a second selection could give the same ones.
        if missing.is_empty() || !draws.selects_once() {
            self.drawn.add(&selected, &missing);
            self.drawn.generations.extend(by_position.into_iter().filter(|&generation| generation != GONE));
        }
        self.rounds += 1;
        Ok(())
    }
}

/// The bytes of a part and, for each of its draws, the generation that was pinned.
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

/// What [`part_bytes`] wrote.
fn told(bytes: &[u8]) -> Result<(Part, Vec<u64>)> {
    let wrong =
        || Failed::new(ErrorKind::InvalidArgument, "a rank told of its part in another form".to_owned());
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
        "no list is being drawn; tell the other ranks of this one first".to_owned(),
    )
}
