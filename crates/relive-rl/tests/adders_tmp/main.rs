//! Agents, and what they write.

#[cfg(test)]
mod adders;
#[cfg(test)]
mod adders_rows;
#[cfg(test)]
mod dqn;
#[cfg(test)]
mod finite;
#[cfg(test)]
mod logging;
#[cfg(test)]
mod panics;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod remote;
#[cfg(test)]
mod resume;
