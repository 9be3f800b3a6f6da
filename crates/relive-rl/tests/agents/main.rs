//! Agents, and what they write.

#[cfg(test)]
mod adders;
#[cfg(test)]
mod dqn;
