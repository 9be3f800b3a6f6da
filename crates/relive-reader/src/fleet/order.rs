//! Hands out samples in the order in which their servers were drawn.
//!
//! Samples of one server arrive together. In the order of their arrival, a batch would often be from one server only.

use std::collections::VecDeque;

/// Draws whose samples have not been handed out, and the samples of these draws that have arrived.
pub(super) struct DrawOrder<S> {
    /// The drawn servers, by number.
    drawn: VecDeque<u32>,
    /// The arrived samples of each server, which belong to its first draws.
    arrived: Vec<(u32, VecDeque<S>)>,
}

impl<S> Default for DrawOrder<S> {
    fn default() -> Self {
        Self { drawn: VecDeque::new(), arrived: Vec::new() }
    }
}

impl<S> DrawOrder<S> {
    /// Adds a draw.
    pub(super) fn draw(&mut self, server: u32) {
        self.drawn.push_back(server);
    }

    /// Removes the draws of a server whose samples have not arrived.
    pub(super) fn withdraw(&mut self, server: u32) {
        let mut left = self.arrived_from(server).len();
        self.drawn.retain(|drawn| {
            let is_kept = *drawn != server || left > 0;
            left -= usize::from(*drawn == server && is_kept);
            is_kept
        });
    }

    /// Returns the queue of a server's arrived samples.
    pub(super) fn arrived_from(&mut self, server: u32) -> &mut VecDeque<S> {
        let place = self.arrived.iter().position(|(number, _)| *number == server).unwrap_or_else(|| {
            self.arrived.push((server, VecDeque::new()));
            self.arrived.len() - 1
        });
        &mut self.arrived[place].1
    }

    /// Returns the number of samples that have arrived and have not been handed out.
    pub(super) fn arrived(&self) -> usize {
        self.arrived.iter().map(|(_, samples)| samples.len()).sum()
    }

    /// Appends samples to `into` up to the first draw whose sample has not arrived. A draw of a server for which `is_skipped`
    /// returns true is skipped; its sample follows when it arrives.
    pub(super) fn hand_out(&mut self, into: &mut VecDeque<S>, is_skipped: impl Fn(u32) -> bool) {
        let mut place = 0;
        while let Some(server) = self.drawn.get(place).copied() {
            if let Some(sample) = self.arrived_from(server).pop_front() {
                into.push_back(sample);
                self.drawn.remove(place);
            } else if is_skipped(server) {
                place += 1;
            } else {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(drawn: &[u32]) -> DrawOrder<&'static str> {
        let mut order = DrawOrder::default();
        drawn.iter().for_each(|server| order.draw(*server));
        order
    }

    fn handed_out(order: &mut DrawOrder<&'static str>, not_waited_for: &[u32]) -> Vec<&'static str> {
        let mut into = VecDeque::new();
        order.hand_out(&mut into, |server| not_waited_for.contains(&server));
        into.into()
    }

    #[test]
    fn samples_are_handed_out_as_they_were_drawn() {
        let mut order = order(&[1, 2, 2, 1, 2]);
        order.arrived_from(2).extend(["2a", "2b"]);
        assert_eq!(handed_out(&mut order, &[]), [""; 0], "server 1 comes first");
        order.arrived_from(1).push_back("1a");
        assert_eq!(handed_out(&mut order, &[]), ["1a", "2a", "2b"]);
        order.arrived_from(1).push_back("1b");
        assert_eq!((handed_out(&mut order, &[]), order.arrived()), (vec!["1b"], 0));
    }

    #[test]
    fn a_server_that_is_not_waited_for_delays_nothing() {
        let mut order = order(&[1, 2, 1, 2]);
        order.arrived_from(2).extend(["2a", "2b"]);
        assert_eq!(handed_out(&mut order, &[1]), ["2a", "2b"]);
        order.arrived_from(1).extend(["1a", "1b"]);
        assert_eq!(handed_out(&mut order, &[1]), ["1a", "1b"]);
    }

    #[test]
    fn withdrawn_draws_are_forgotten_and_arrived_samples_kept() {
        let mut order = order(&[1, 2, 1, 1, 2]);
        order.arrived_from(1).push_back("1a");
        order.withdraw(1);
        order.arrived_from(2).extend(["2a", "2b"]);
        assert_eq!((order.arrived(), handed_out(&mut order, &[])), (3, vec!["1a", "2a", "2b"]));
    }
}
