//! Adders, loggers and recorded episodes, as agents use them.

#[cfg(test)]
mod adders;
#[cfg(test)]
mod adders_rows;
#[cfg(test)]
mod datasets;
#[cfg(test)]
mod logging;
#[cfg(test)]
mod pictures;
