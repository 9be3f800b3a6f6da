//! Where the operators of a graph are, as numbers that can be kept.

use std::collections::BTreeMap;

use crate::{ErrorKind, FlowError, Result};

/// Where a graph is: what [`Flow::save`](crate::Flow::save) gives and [`Flow::restore`](crate::Flow::restore) takes.
/// Its fields are plain, to be written in any format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphState {
    /// The operators, each before those that it pulls from.
    pub operators: Vec<OperatorState>,
    /// The counters of the graph's [`Metrics`](crate::Metrics).
    pub counters: BTreeMap<String, i64>,
}

/// Where an operator is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorState {
    /// Its name.
    pub name: String,
    /// What it counts, in an order of its own.
    pub numbers: Vec<u64>,
}

/// A [`GraphState`] that is written or read, operator by operator.
#[derive(Debug)]
pub struct Checkpoint {
    operators: Vec<OperatorState>,
    is_read: bool,
    /// The operators that are open, each in the one before: their places, and how many of their numbers were read.
    open: Vec<(usize, usize)>,
    /// Operators that were opened so far.
    opened: usize,
    /// Parts that several operators share and one of them has visited.
    shared: Vec<usize>,
    /// Operators that hold items, and how many.
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

    /// Whether it is read, and the operator is to go where it was.
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
        // Beyond the last one, too: `operator` compares the two.
        *taken += 1;
    }

    /// [`number`](Self::number) for a count of what is in memory.
    pub fn count(&mut self, count: &mut usize) {
        let mut number = *count as u64;
        self.number(&mut number);
        *count = usize::try_from(number).unwrap_or(usize::MAX);
    }

    /// [`number`](Self::number) for a flag.
    pub fn flag(&mut self, flag: &mut bool) {
        let mut number = u64::from(*flag);
        self.number(&mut number);
        *flag = number != 0;
    }

    /// Writes places of which some are left, or reads them.
    pub fn places(&mut self, places: &mut Vec<usize>) {
        let mut count = places.len();
        self.count(&mut count);
        if self.is_read {
            let operator = self.open.last().and_then(|(place, _)| self.operators.get(*place));
            places.resize(count.min(operator.map_or(0, |operator| operator.numbers.len())), 0);
        }
        places.iter_mut().for_each(|place| self.count(place));
    }

    /// The operator holds so many items. Items are not saved: with any, this is no moment for a checkpoint.
    pub fn holds(&mut self, items: usize) {
        if items > 0 && !self.is_read {
            self.held.push((self.name(), items));
        }
    }

    /// The error of an operator that cannot be saved at all, for this reason.
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
                let text =
                    format!("what was saved is of another graph: it has {there} where this one has `{name}`");
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
            self.fault = Some(format!("{} was saved with other numbers", operator.name));
        }
        Ok(())
    }

    /// Whether nobody has visited the part at this address before.
    pub(crate) fn is_first_at(&mut self, address: usize) -> bool {
        let is_first = !self.shared.contains(&address);
        self.shared.push(address);
        is_first
    }

    /// The operators, once all were visited; none while some of them hold items, who are returned.
    pub(crate) fn into_written(self) -> Result<Vec<OperatorState>, Vec<(String, usize)>> {
        if self.held.is_empty() { Ok(self.operators) } else { Err(self.held) }
    }

    /// Expects that all was read.
    pub(crate) fn finish_read(self) -> Result<()> {
        let left = self.operators.get(self.opened).map(|left| format!("there is `{}` left over", left.name));
        match self.fault.or(left) {
            None => Ok(()),
            Some(fault) => Err(FlowError::new(
                ErrorKind::Unsaved,
                format!("what was saved is of another graph: {fault}"),
            )),
        }
    }

    fn name(&self) -> String {
        let open = self.open.last().and_then(|(place, _)| self.operators.get(*place));
        open.map_or_else(String::new, |operator| operator.name.clone())
    }
}
