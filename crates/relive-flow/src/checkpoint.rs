//! The positions of a graph's operators, as numbers that can be saved.

use std::collections::BTreeMap;

use crate::metrics::Timer;
use crate::{ErrorKind, FlowError, Result};

/// The position of a graph: the result of [`Flow::save`](crate::Flow::save) and the input of
/// [`Flow::restore`](crate::Flow::restore). Its fields are plain data, for any serialization format.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphState {
    /// The operators, each before the operators from which it pulls.
    pub operators: Vec<OperatorState>,
    /// The counters of the graph's [`Metrics`](crate::Metrics).
    pub counters: BTreeMap<String, i64>,
    /// The values of the graph's metrics.
    pub values: BTreeMap<String, f64>,
    /// The timers of the graph's metrics.
    pub timers: BTreeMap<String, Timer>,
}

/// The position of an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorState {
    /// The operator's name.
    pub name: String,
    /// The operator's numbers, in an order that it defines.
    pub numbers: Vec<u64>,
}

/// A [`GraphState`] that is being written or read, one operator after the other.
#[derive(Debug)]
pub struct Checkpoint {
    operators: Vec<OperatorState>,
    is_read: bool,
    /// The operators being visited, each nested in the previous one: their indices, and how many of their numbers have
    /// been read.
    open: Vec<(usize, usize)>,
    /// The number of operators visited so far.
    opened: usize,
    /// The parts shared by several operators that have already been visited.
    shared: Vec<usize>,
    /// The operators that hold items, with the number of items.
    held: Vec<(String, usize)>,
    fault: Option<String>,
}

impl Checkpoint {
    pub(crate) fn written() -> Self {
        Self::over(Vec::new(), false)
    }

    pub(crate) fn read(operators: Vec<OperatorState>) -> Self {
        Self::over(operators, true)
    }

    fn over(operators: Vec<OperatorState>, is_read: bool) -> Self {
        let (open, opened, shared, held, fault) = (Vec::new(), 0, Vec::new(), Vec::new(), None);
        Self { operators, is_read, open, opened, shared, held, fault }
    }

    /// Returns whether the operator should read its position, rather than write it.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.is_read
    }

    /// Writes a number of the operator, or reads it.
    pub fn number(&mut self, number: &mut u64) {
        let Some((place, taken)) = self.open.last_mut() else { return };
        let Some(operator) = self.operators.get_mut(*place) else { return };
        if !self.is_read {
            operator.numbers.push(*number);
            return;
        }
        if let Some(read) = operator.numbers.get(*taken) {
            *number = *read;
        }
        // Reads beyond the last number are also counted, because `operator` compares the counts.
        *taken += 1;
    }

    /// Like [`number`](Self::number), but for a count in memory.
    pub fn count(&mut self, count: &mut usize) {
        let mut number = *count as u64;
        self.number(&mut number);
        *count = usize::try_from(number).unwrap_or(usize::MAX);
    }

    /// Like [`number`](Self::number), but for a flag.
    pub fn flag(&mut self, flag: &mut bool) {
        let mut number = u64::from(*flag);
        self.number(&mut number);
        *flag = number != 0;
    }

    /// Writes or reads a list of indices, in which some indices may be missing.
    pub fn places(&mut self, places: &mut Vec<usize>) {
        let mut count = places.len();
        self.count(&mut count);
        if self.is_read {
            let operator = self.open.last().and_then(|(place, _)| self.operators.get(*place));
            places.resize(count.min(operator.map_or(0, |operator| operator.numbers.len())), 0);
        }
        places.iter_mut().for_each(|place| self.count(place));
    }

    /// Declares that the operator holds this many items. Items are not saved, so a checkpoint is impossible while an
    /// operator holds items.
    pub fn holds(&mut self, items: usize) {
        if items > 0 && !self.is_read {
            self.held.push((self.name(), items));
        }
    }

    /// Returns the error of an operator that cannot be saved at all, with the reason.
    #[must_use]
    pub fn refusal(&self, reason: &str) -> FlowError {
        FlowError::new(ErrorKind::Unsaved, format!("{}: {reason}", self.name()))
    }

    /// Visits an operator.
    pub(crate) fn operator(&mut self, name: &str, visit: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if !self.is_read {
            self.operators.push(OperatorState { name: name.to_owned(), numbers: Vec::new() });
        }
        match self.operators.get(self.opened) {
            Some(operator) if operator.name == name => {}
            other => {
                let there = other.map_or("nothing".to_owned(), |other| format!("`{}`", other.name));
                let text = format!(
                    "the checkpoint is of a different graph: it has {there} where this graph has `{name}`"
                );
                return Err(FlowError::new(ErrorKind::Unsaved, text));
            }
        }
        self.open.push((self.opened, 0));
        self.opened += 1;
        visit(self)?;
        let closed = self.open.pop().and_then(|(place, taken)| Some((self.operators.get(place)?, taken)));
        if let Some((operator, _)) =
            closed.filter(|(operator, taken)| self.is_read && operator.numbers.len() != *taken)
        {
            self.fault = Some(format!("{} was saved with other settings", operator.name));
        }
        Ok(())
    }

    /// Returns whether this is the first visit of the part at the given address.
    pub(crate) fn is_first_at(&mut self, address: usize) -> bool {
        let is_first = !self.shared.contains(&address);
        self.shared.push(address);
        is_first
    }

    /// Returns the operators, after all have been visited. If any operators hold items, the error lists these
    /// operators.
    pub(crate) fn into_written(self) -> Result<Vec<OperatorState>, Vec<(String, usize)>> {
        if self.held.is_empty() { Ok(self.operators) } else { Err(self.held) }
    }

    /// Checks that everything was read.
    pub(crate) fn finish_read(self) -> Result<()> {
        let left = self.operators.get(self.opened).map(|left| format!("it also has `{}`", left.name));
        match self.fault.or(left) {
            None => Ok(()),
            Some(fault) => Err(FlowError::new(
                ErrorKind::Unsaved,
                format!("the checkpoint is of a different graph: {fault}"),
            )),
        }
    }

    fn name(&self) -> String {
        let open = self.open.last().and_then(|(place, _)| self.operators.get(*place));
        open.map_or_else(String::new, |operator| operator.name.clone())
    }
}
