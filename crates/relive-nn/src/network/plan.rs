use super::pass::Place;
use crate::params::{Init, Layout};

/// The place where a network under construction adds its leaves, with names below the network's name, and positions
/// relative to the network's start.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    layout: &'a mut Layout,
    start: usize,
    scope: String,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(layout: &'a mut Layout, scope: &str) -> Self {
        let start = layout.len();
        Self { layout, start, scope: scope.to_owned() }
    }

    /// Returns the plan of the same network, one name deeper.
    pub(crate) fn inside(&mut self, name: &str) -> Plan<'_> {
        Plan { layout: self.layout, start: self.start, scope: format!("{}/{name}", self.scope) }
    }

    pub(crate) fn leaf(&mut self, name: &str, shape: &[usize], init: Init) -> Place {
        let range = self.layout.add(&format!("{}/{name}", self.scope), shape, init);
        range.start - self.start..range.end - self.start
    }

    /// Returns the range of all added leaves among the layout's numbers.
    pub(crate) fn range(&self) -> Place {
        self.start..self.layout.len()
    }
}
