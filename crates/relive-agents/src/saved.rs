//! The states of learners and policies. The same list of parts is used for saving and restoring.

use std::fmt::Display;

use relive_env::State;
use relive_nn::{Optimizer, Params, Stream};
use relive_rl::{Result, RlError, state};

use crate::streams::Streams;

/// A saved part.
pub(crate) enum Saved<'a> {
    Params(&'a mut Params),
    Optimizer(&'a mut Optimizer),
    Stream(&'a mut Stream),
    Streams(&'a mut Streams),
    /// A part with its own fields, or a closure that visits any other fields.
    Fields(&'a mut dyn Visited),
}

/// Visits the part's fields, in the same order for saving and restoring.
pub(crate) trait Visited {
    fn visit(&mut self, state: &mut State<'_>);
}

impl<F: FnMut(&mut State<'_>)> Visited for F {
    fn visit(&mut self, state: &mut State<'_>) {
        self(state);
    }
}

impl Visited for f32 {
    fn visit(&mut self, state: &mut State<'_>) {
        state.field(self);
    }
}

/// Returns the states of all parts.
pub(crate) fn save(parts: &mut [Saved<'_>]) -> Vec<u8> {
    let mut sections: Vec<_> = parts.iter_mut().map(Saved::section).collect();
    let mut bytes = Vec::new();
    let state = &mut State::writer(&mut bytes);
    sections.iter_mut().for_each(|section| section.visit(state));
    bytes
}

/// Restores parts that were [saved](save).
///
/// # Errors
/// [`State`](RlError::State): the bytes do not fit these parts.
pub(crate) fn restore(what: &'static str, parts: &mut [Saved<'_>], bytes: &[u8]) -> Result<()> {
    let refused = |reason: &dyn Display| RlError::State { what, reason: reason.to_string() };
    let mut sections: Vec<_> = parts.iter().map(|_| Section::default()).collect();
    state::restore(what, bytes, |state| sections.iter_mut().for_each(|section| section.visit(state)))?;
    for (part, Section { version, bytes }) in parts.iter_mut().zip(&sections) {
        match part {
            Saved::Params(params) => params.set_bytes(bytes, *version).map_err(|error| refused(&error))?,
            Saved::Optimizer(optimizer) => optimizer.set_bytes(bytes).map_err(|error| refused(&error))?,
            Saved::Stream(stream) => {
                **stream = Stream::from_bytes(bytes).map_err(|error| refused(&error))?;
            }
            Saved::Streams(streams) => streams.restore(bytes)?,
            Saved::Fields(fields) => state::restore(what, bytes, |state| fields.visit(state))?,
        }
    }
    Ok(())
}

/// The bytes of a part.
#[derive(Default)]
struct Section {
    /// The version of the parameters.
    version: u64,
    bytes: Vec<u8>,
}

impl Section {
    fn visit(&mut self, state: &mut State<'_>) {
        state.field(&mut self.version);
        state.bytes(&mut self.bytes);
    }
}

impl Saved<'_> {
    fn section(&mut self) -> Section {
        let (mut version, mut bytes) = (0, Vec::new());
        match self {
            Saved::Params(params) => (version, bytes) = (params.version(), params.as_bytes().to_vec()),
            Saved::Optimizer(optimizer) => bytes = optimizer.to_bytes(),
            Saved::Stream(stream) => bytes = stream.to_bytes(),
            Saved::Streams(streams) => bytes = streams.save(),
            Saved::Fields(fields) => fields.visit(&mut State::writer(&mut bytes)),
        }
        Section { version, bytes }
    }
}
