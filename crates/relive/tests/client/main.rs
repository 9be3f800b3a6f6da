//! Tests of the client with a Relive server, over every transport, and with tables in its own process.

#[cfg(test)]
mod batches;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod codecs;
#[cfg(test)]
mod common;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod gather;
#[cfg(test)]
mod in_process;
#[cfg(test)]
mod items;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod listing;
#[cfg(test)]
mod many;
#[cfg(test)]
mod many_readers;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod names;
#[cfg(test)]
mod operate;
#[cfg(test)]
mod place;
#[cfg(test)]
mod reconnect;
#[cfg(test)]
mod roundtrip;
#[cfg(test)]
mod samplers;
#[cfg(test)]
mod security;
#[cfg(test)]
mod sequences;
mod spawn;
#[cfg(test)]
mod structured;
#[cfg(test)]
mod ways;
#[cfg(test)]
mod writers;
