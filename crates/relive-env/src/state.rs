//! Saved state: one list of fields is used for both writing and reading.

use crate::StepType;
use crate::error::{EnvError, Mismatch};

/// Visits the fields on which an environment's future depends, and either writes or reads them.
///
/// The bytes are little endian, in the order of the calls, without names.
#[derive(Debug)]
pub struct State<'a>(Direction<'a>);

#[derive(Debug)]
enum Direction<'a> {
    Write(&'a mut Vec<u8>),
    Read { rest: &'a [u8], short: bool },
}

/// A field with a fixed number of bytes.
pub trait Field: Copy {
    #[doc(hidden)]
    fn write(self, bytes: &mut Vec<u8>);
    #[doc(hidden)]
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])>;
}

macro_rules! fields {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn write(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
                let (field, rest) = bytes.split_first_chunk()?;
                Some((Self::from_le_bytes(*field), rest))
            }
        }
    )*};
}

fields!(u8, u32, u64, u128, i32, i64, f32, f64);

impl Field for bool {
    fn write(self, bytes: &mut Vec<u8>) {
        bytes.push(self.into());
    }

    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (field, rest) = bytes.split_first()?;
        (*field < 2).then_some((*field == 1, rest))
    }
}

impl Field for StepType {
    fn write(self, bytes: &mut Vec<u8>) {
        bytes.push(self as u8);
    }

    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (number, rest) = bytes.split_first()?;
        Some((StepType::of_number(*number)?, rest))
    }
}

impl<'a> State<'a> {
    /// Appends the fields to `bytes`.
    pub fn writer(bytes: &'a mut Vec<u8>) -> Self {
        Self(Direction::Write(bytes))
    }

    /// Reads the fields from `bytes`.
    #[must_use]
    pub fn reader(bytes: &'a [u8]) -> Self {
        Self(Direction::Read { rest: bytes, short: false })
    }

    /// Visits one field.
    pub fn field<T: Field>(&mut self, value: &mut T) {
        match &mut self.0 {
            Direction::Write(bytes) => value.write(bytes),
            Direction::Read { rest, short } => match T::read(rest) {
                Some((read, after)) if !*short => (*value, *rest) = (read, after),
                _ => *short = true,
            },
        }
    }

    /// Visits a fixed number of fields.
    pub fn fields<T: Field>(&mut self, values: &mut [T]) {
        values.iter_mut().for_each(|value| self.field(value));
    }

    /// Visits a setting that must have the same value when it is read.
    pub fn constant<T: Field + PartialEq>(&mut self, value: T) {
        let mut read = value;
        self.field(&mut read);
        if let Direction::Read { short, .. } = &mut self.0 {
            *short |= read != value;
        }
    }

    /// Visits a fixed number of bytes.
    pub fn raw_bytes(&mut self, value: &mut [u8]) {
        match &mut self.0 {
            Direction::Write(bytes) => bytes.extend_from_slice(value),
            Direction::Read { rest, short } => match rest.split_at_checked(value.len()) {
                Some((read, after)) if !*short => {
                    value.copy_from_slice(read);
                    *rest = after;
                }
                _ => *short = true,
            },
        }
    }

    /// Returns the number of bytes that are still to be read, or `None` while writing.
    #[must_use]
    pub fn unread(&self) -> Option<usize> {
        match &self.0 {
            Direction::Write(_) => None,
            Direction::Read { rest, .. } => Some(rest.len()),
        }
    }

    /// Visits a variable number of bytes.
    pub fn bytes(&mut self, value: &mut Vec<u8>) {
        let mut length = value.len() as u64;
        self.field(&mut length);
        if let Direction::Read { rest, short } = &mut self.0 {
            // Allocates at most as many bytes as remain.
            let count = usize::try_from(length).ok().filter(|count| *count <= rest.len());
            *short |= count.is_none();
            *value = vec![0; count.unwrap_or(0)];
        }
        self.raw_bytes(value);
    }

    /// Visits a variable number of fields.
    pub fn numbers<T: Field + Default>(&mut self, values: &mut Vec<T>) {
        let mut length = values.len() as u64;
        self.field(&mut length);
        if let Direction::Read { rest, short } = &mut self.0 {
            // Reads at most as many fields as the remaining bytes permit.
            let count = usize::try_from(length).ok().filter(|count| *count <= rest.len());
            *short |= count.is_none();
            values.clear();
            values.resize(count.unwrap_or(0), T::default());
        }
        self.fields(values);
    }

    /// Visits a list of variable length. `empty` creates the elements that are read.
    pub fn list<T>(
        &mut self,
        list: &mut Vec<T>,
        empty: impl Fn() -> T,
        visit: impl Fn(&mut State<'_>, &mut T),
    ) {
        let mut length = list.len() as u64;
        self.field(&mut length);
        if let Direction::Write(_) = self.0 {
            return list.iter_mut().for_each(|element| visit(self, element));
        }
        list.clear();
        for _ in 0..length {
            let mut element = empty();
            visit(self, &mut element);
            // If the length is damaged, the number of created elements is limited by the number of bytes.
            if let Direction::Read { short: true, .. } = self.0 {
                break;
            }
            list.push(element);
        }
    }

    /// Checks that all bytes of an environment's state were read, and that none were missing.
    ///
    /// # Errors
    /// [`EnvError::State`] if not. Some fields may then already have been read.
    pub fn finish(self) -> Result<(), EnvError> {
        let expected = "the state of an environment with the same settings";
        self.defect().map_or(Ok(()), |defect| Err(EnvError::State(Mismatch::boxed("", expected, defect))))
    }

    /// Returns what is wrong with the bytes that were read: some were missing, invalid or left over.
    #[must_use]
    pub fn defect(&self) -> Option<String> {
        match self.0 {
            Direction::Write(_) | Direction::Read { rest: [], short: false } => None,
            Direction::Read { short: true, .. } => Some("too few bytes, or invalid values".to_owned()),
            Direction::Read { rest: [_], .. } => Some("1 extra byte".to_owned()),
            Direction::Read { rest, .. } => Some(format!("{} extra bytes", rest.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(state: &mut State<'_>, fields: &mut (u32, f64, bool, Vec<u8>)) {
        state.field(&mut fields.0);
        state.field(&mut fields.1);
        state.field(&mut fields.2);
        state.bytes(&mut fields.3);
    }

    #[test]
    fn environment_states_round_trip_and_other_bytes_are_refused() {
        let mut bytes = Vec::new();
        let mut written = (7, 0.5, true, vec![1, 2, 3]);
        visit(&mut State::writer(&mut bytes), &mut written);
        let read = |bytes: &[u8]| {
            let mut fields = (0, 0.0, false, Vec::new());
            let mut state = State::reader(bytes);
            visit(&mut state, &mut fields);
            state.finish().map(|()| fields)
        };
        assert_eq!(read(&bytes), Ok(written));
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length}");
        }
        bytes.push(0);
        let error = read(&bytes).unwrap_err().to_string();
        assert!(error.ends_with("got 1 extra byte"), "{error}");
    }
}
