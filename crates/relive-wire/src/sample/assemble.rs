//! Reassembles samples from the messages on a response stream, which are parsed in place.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use relive_table::ItemStructure;

use super::pack::STRUCTURE_FIELD;
use super::received::{ReceivedSample, part};
use crate::WireError;
use crate::reader::{Field, Fields, MalformedMessage};
use crate::structure;
use crate::v1;

/// Collects entries until a sample is complete.
#[derive(Debug, Default)]
pub struct Assembler {
    begun: Option<ReceivedSample>,
    structure: Option<Arc<ItemStructure>>,
}

/// An entry in its message, and whether it begins or ends a sample.
struct Entry {
    begins: bool,
    ends: bool,
}

impl Assembler {
    /// Creates an assembler for a stream whose items have the given structure.
    #[must_use]
    pub fn of_items_like(structure: Option<Arc<ItemStructure>>) -> Assembler {
        Assembler { begun: None, structure }
    }

    /// Returns the last received structure of items.
    #[must_use]
    pub fn structure(&self) -> Option<&Arc<ItemStructure>> {
        self.structure.as_ref()
    }

    /// Adds the next encoded `SampleStreamResponse`, and appends the samples that it completes to `out`.
    ///
    /// The samples keep parts of `message`, whose memory is freed when the last of these samples is dropped.
    ///
    /// # Errors
    /// If the bytes are not such a message, an entry continues a sample that has not begun, or an entry begins a sample
    /// inside another one. After an error, the stream cannot be read further.
    pub fn push(&mut self, message: &Bytes, out: &mut Vec<ReceivedSample>) -> Result<(), WireError> {
        let mut fields = Fields::new(message, 0..message.len());
        while let Some(field) = fields.next().map_err(|e| WireError::malformed_sample(0, e))? {
            if field.number == 1 {
                let range = field.bytes().map_err(|e| WireError::malformed_sample(0, e))?;
                out.extend(self.push_entry(message.slice(range))?);
            } else if field.number == u64::from(STRUCTURE_FIELD) {
                let range = field.bytes().map_err(|e| WireError::malformed_sample(0, e))?;
                let structure = v1::ItemStructure::decode(message.slice(range));
                let structure = structure
                    .map_err(|_| WireError::SampleStream("the description of the items cannot be read"))?;
                self.structure = structure::items_of(&structure)?;
            }
        }
        Ok(())
    }

    /// Adds the next entry. Returns the sample that it completes.
    fn push_entry(&mut self, entry: Bytes) -> Result<Option<ReceivedSample>, WireError> {
        let Entry { begins, ends } =
            Entry::of(&entry).map_err(|error| WireError::malformed_sample(0, error))?;
        let sample = match (self.begun.take(), begins) {
            (None, true) => ReceivedSample::begin(entry, self.structure.clone())?,
            (Some(mut begun), false) => {
                begun.extend(entry);
                begun
            }
            (None, false) => return Err(WireError::SampleStream("the first entry of a sample has no info")),
            (Some(_), true) => return Err(WireError::SampleStream("a sample starts inside another one")),
        };
        if ends {
            return Ok(Some(sample));
        }
        self.begun = Some(sample);
        Ok(None)
    }

    /// Returns whether a sample has begun and is not complete yet.
    #[must_use]
    pub fn is_mid_sample(&self) -> bool {
        self.begun.is_some()
    }
}

impl Entry {
    fn of(entry: &[u8]) -> Result<Entry, MalformedMessage> {
        let mut found = Entry { begins: false, ends: false };
        let mut fields = Fields::new(entry, 0..entry.len());
        while let Some(field) = fields.next()? {
            found.take(&field)?;
        }
        Ok(found)
    }

    fn take(&mut self, field: &Field) -> Result<(), MalformedMessage> {
        match field.number {
            part::INFO => {
                field.bytes()?;
                self.begins = true;
            }
            part::CHUNK => {
                field.bytes()?;
            }
            part::END => self.ends = field.varint()? != 0,
            _ => {}
        }
        Ok(())
    }
}
