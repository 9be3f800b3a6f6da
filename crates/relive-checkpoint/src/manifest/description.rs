//! The description of a checkpoint.

use relive_table::Timestamp;

use super::TableDescription;
use super::fields::{next_field, once, put_field, required, unknown};
use crate::layout::{Cursor, Malformed, Put};
use crate::segment::{SegmentId, WrittenSegment};

/// The fields that occur once in a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Description {
    /// The number of the checkpoint at the time of writing.
    pub(crate) number: u64,
    pub(crate) created_at: Timestamp,
    pub(crate) software: String,
    pub(crate) tables: Vec<TableDescription>,
    /// The segments to which the checkpoint refers. Empty in the description at the start of the file.
    pub(crate) segments: Vec<WrittenSegment>,
    /// `None` in the description at the start of the file.
    pub(crate) totals: Option<Totals>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) items: u64,
    pub(crate) chunks: u64,
    /// The number of bytes in the records of the chunks.
    pub(crate) chunk_bytes: u64,
}

const NUMBER: u16 = 1;
const CREATED_AT: u16 = 2;
const SOFTWARE: u16 = 3;
const TABLE: u16 = 4;
const SEGMENT: u16 = 5;
const TOTALS: u16 = 6;

impl Description {
    /// Returns the number of bytes in all segments.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.size_bytes).sum()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_field(&mut out, NUMBER, |out| out.put_u64(self.number));
        put_field(&mut out, CREATED_AT, |out| out.put_i64(self.created_at.as_nanos()));
        put_field(&mut out, SOFTWARE, |out| out.put(self.software.as_bytes()));
        for table in &self.tables {
            put_field(&mut out, TABLE, |out| table.encode(out));
        }
        for WrittenSegment { id, size_bytes } in &self.segments {
            put_field(&mut out, SEGMENT, |out| {
                out.put(&id.0);
                out.put_u64(*size_bytes);
            });
        }
        if let Some(Totals { items, chunks, chunk_bytes }) = self.totals {
            put_field(&mut out, TOTALS, |out| {
                [items, chunks, chunk_bytes].iter().for_each(|total| out.put_u64(*total));
            });
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Cursor::new(bytes);
        let (mut number, mut created_at, mut software, mut totals) = (None, None, None, None);
        let (mut tables, mut segments) = (Vec::new(), Vec::new());
        while let Some((tag, mut field)) = next_field(&mut fields)? {
            match tag {
                NUMBER => once(&mut number, "number", field.u64()?, field)?,
                CREATED_AT => once(&mut created_at, "time", field.i64()?, field)?,
                SOFTWARE => {
                    let text = std::str::from_utf8(field.rest()).map_err(|_| Malformed::Text)?;
                    once(&mut software, "software", text.to_owned(), Cursor::new(&[]))?;
                }
                TABLE => tables.push(TableDescription::decode(field)?),
                SEGMENT => {
                    segments.push(WrittenSegment { id: SegmentId(field.array()?), size_bytes: field.u64()? });
                    field.finish()?;
                }
                TOTALS => {
                    let value =
                        Totals { items: field.u64()?, chunks: field.u64()?, chunk_bytes: field.u64()? };
                    once(&mut totals, "totals", value, field)?;
                }
                tag => unknown(tag)?,
            }
        }
        Ok(Self {
            number: required(number, "number")?,
            created_at: Timestamp::from_nanos(required(created_at, "time")?),
            software: required(software, "software")?,
            tables,
            segments,
            totals,
        })
    }
}
