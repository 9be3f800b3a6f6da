//! Tagged fields, so that later versions can add fields.

use crate::layout::{Cursor, Malformed, Put};

/// The first tag of the fields that readers may skip if they do not know them.
pub(super) const OPTIONAL: u16 = 1 << 15;

/// Appends a field.
pub(super) fn put_field(out: &mut Vec<u8>, tag: u16, put: impl FnOnce(&mut Vec<u8>)) {
    let mut content = Vec::new();
    put(&mut content);
    out.put_u16(tag);
    out.put_u16(0);
    out.put_sized(&content);
}

/// Returns the next field, or `None` at the end.
pub(super) fn next_field<'a>(fields: &mut Cursor<'a>) -> Result<Option<(u16, Cursor<'a>)>, Malformed> {
    if fields.is_empty() {
        return Ok(None);
    }
    let (tag, reserved) = (fields.u16()?, fields.u16()?);
    if reserved != 0 {
        return Err(Malformed::Code { what: "the third byte of a field", code: reserved.into() });
    }
    Ok(Some((tag, Cursor::new(fields.sized()?))))
}

/// Handles an unknown field.
pub(super) fn unknown(tag: u16) -> Result<(), Malformed> {
    if tag >= OPTIONAL { Ok(()) } else { Err(Malformed::UnknownField { tag }) }
}

/// Stores the value of a field that may occur once. All of its bytes must have been read.
pub(super) fn once<T>(
    slot: &mut Option<T>,
    field: &'static str,
    value: T,
    left: Cursor<'_>,
) -> Result<(), Malformed> {
    left.finish()?;
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Malformed::Repeated { field }),
    }
}

/// Returns the value of a mandatory field.
pub(super) fn required<T>(slot: Option<T>, field: &'static str) -> Result<T, Malformed> {
    slot.ok_or(Malformed::Missing { field })
}
