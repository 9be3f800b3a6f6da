//! Adders and loggers, as agents use them.

#[cfg(test)]
mod adders;
#[cfg(test)]
mod adders_rows;
#[cfg(test)]
mod logging;
#[cfg(test)]
mod pictures;
