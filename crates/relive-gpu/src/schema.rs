//! The schema of trajectories.

use relive_tensor::DType;

use crate::error::{Error, Result};

/// The maximum number of columns in a schema. It keeps a segment's header small enough to be read at once.
pub const MAX_COLUMNS: usize = 1024;
/// The maximum length of a column's name, in bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// The maximum number of dimensions of one step.
pub const MAX_RANK: usize = 16;
/// The maximum number of steps of a trajectory. Lengths have 32 bits in the segment.
pub const MAX_STEPS: u64 = u32::MAX as u64;

/// One column: a named part of each step of a trajectory.
///
/// ```
/// use relive_gpu::Column;
/// use relive_tensor::DType;
/// let column = Column::new("observation", DType::UInt8, &[84, 84]);
/// assert_eq!(column.step_bytes(), Some(7056));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name that identifies the column.
    pub name: String,
    /// The type of its elements; strings have no fixed size and are refused.
    pub dtype: DType,
    /// The shape of one step; `[]` for a single number.
    pub shape: Vec<u64>,
}

impl Column {
    /// Creates a column with the given name, type and shape per step.
    #[must_use]
    pub fn new(name: impl Into<String>, dtype: DType, shape: &[u64]) -> Self {
        Self { name: name.into(), dtype, shape: shape.to_vec() }
    }

    /// Returns the number of elements of one step, or `None` if it does not fit into 64 bits.
    #[must_use]
    pub fn step_elements(&self) -> Option<u64> {
        self.shape.iter().try_fold(1_u64, |product, &size| product.checked_mul(size))
    }

    /// Returns the number of bytes of one step, or `None` if the type has no fixed size or the product does not fit
    /// into 64 bits.
    #[must_use]
    pub fn step_bytes(&self) -> Option<u64> {
        self.step_elements()?.checked_mul(self.dtype.size_bytes()? as u64)
    }

    fn check(&self) -> Result<()> {
        let name = &self.name;
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(Error::invalid(format!(
                "the name of column {name:?} has {} bytes; it must have 1 to {MAX_NAME_BYTES}",
                name.len()
            )));
        }
        if self.shape.len() > MAX_RANK {
            let rank = self.shape.len();
            return Err(Error::invalid(format!(
                "column {name:?} has {rank} dimensions; the limit is {MAX_RANK}"
            )));
        }
        if self.shape.contains(&0) {
            return Err(Error::invalid(format!(
                "column {name:?} has shape {:?}, whose steps have no bytes; omit the column",
                self.shape
            )));
        }
        if self.dtype.size_bytes().is_none() {
            return Err(Error::invalid(format!(
                "column {name:?} has dtype {}, whose elements have no fixed size; store numbers instead",
                self.dtype
            )));
        }
        self.step_bytes().map(drop).ok_or_else(|| {
            Error::invalid(format!(
                "a step of column {name:?} with shape {:?} has 2^64 bytes or more",
                self.shape
            ))
        })
    }
}

/// The columns of all trajectories of a store, and the maximum number of steps of a trajectory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    max_steps: u64,
    columns: Vec<Column>,
}

impl Schema {
    /// Creates a schema with the given columns, for trajectories of up to `max_steps` steps.
    ///
    /// # Errors
    /// The number of columns or steps is 0 or too large, two columns have the same name, or a column has no fixed size.
    pub fn new(max_steps: u64, columns: Vec<Column>) -> Result<Self> {
        if max_steps == 0 || max_steps > MAX_STEPS {
            return Err(Error::invalid(format!("max_steps is {max_steps}; it must be 1 to {MAX_STEPS}")));
        }
        if columns.is_empty() || columns.len() > MAX_COLUMNS {
            let count = columns.len();
            return Err(Error::invalid(format!("{count} columns; there must be 1 to {MAX_COLUMNS}")));
        }
        for (position, column) in columns.iter().enumerate() {
            column.check()?;
            if columns[..position].iter().any(|other| other.name == column.name) {
                return Err(Error::invalid(format!("two columns have the name {:?}", column.name)));
            }
        }
        Ok(Self { max_steps, columns })
    }

    /// Returns the maximum number of steps of a trajectory.
    #[must_use]
    pub fn max_steps(&self) -> u64 {
        self.max_steps
    }

    /// Returns the columns, in order.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the position of the named column.
    ///
    /// # Errors
    /// The column does not exist; the error lists the existing ones.
    pub fn position(&self, name: &str) -> Result<usize> {
        self.columns.iter().position(|column| column.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
            Error::not_found(format!("there is no column {name:?}; the columns are {names:?}"))
        })
    }

    /// Returns the number of bytes of one step of a column. The constructor has checked that they fit into 64 bits.
    pub(crate) fn step_bytes(&self, column: usize) -> u64 {
        self.columns[column].step_bytes().expect("checked by Schema::new")
    }

    /// Returns a short form of the schema, for errors that compare two.
    pub(crate) fn describe(&self) -> String {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|column| format!("{} {}{:?}", column.name, column.dtype.numpy_name(), column.shape))
            .collect();
        format!("{} steps of ({})", self.max_steps, columns.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_schemas_are_refused() {
        let float = |name: &str, shape: &[u64]| Column::new(name, DType::Float32, shape);
        for (steps, columns, expected) in [
            (0, vec![float("a", &[])], "max_steps is 0"),
            (1 << 32, vec![float("a", &[])], "max_steps is 4294967296"),
            (1, vec![], "0 columns"),
            (1, vec![float("a", &[]), float("a", &[])], "two columns"),
            (1, vec![float("", &[])], "0 bytes"),
            (1, vec![float("a", &[3, 0])], "whose steps have no bytes"),
            (1, vec![float("a", &[1 << 40, 1 << 40])], "2^64 bytes"),
            (1, vec![float("a", &[1; 17])], "17 dimensions"),
            (1, vec![Column::new("a", DType::String, &[])], "no fixed size"),
        ] {
            let error = Schema::new(steps, columns).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    /// Defect 17: every dtype has the same size and name as in numpy.
    #[test]
    fn small_integers_are_not_swapped() {
        for (dtype, name) in [(DType::Int8, "int8"), (DType::UInt8, "uint8")] {
            assert_eq!(dtype.numpy_name(), name);
            assert_eq!(Column::new("a", dtype, &[3]).step_bytes(), Some(3));
        }
        for dtype in [DType::Float16, DType::BFloat16] {
            assert_eq!(Column::new("a", dtype, &[3]).step_bytes(), Some(6));
        }
    }
}
