//! Copies between buffers.

use relive_tensor::DType;

use super::action::Action;
use super::memory::Buffer;
use super::place::Place;
use super::view::{View, ViewMut};
use crate::error::{EnvError, Mismatch};

impl ViewMut<'_> {
    /// Checks that the leaves have the same types and sizes as another row's.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if they differ.
    pub fn expect_like(&self, other: View<'_>) -> Result<(), EnvError> {
        like(self.places(), other.places()).map_err(EnvError::Observation)
    }

    /// Copies the leaves of another row.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if their types or sizes differ.
    pub fn copy_from(&mut self, other: View<'_>) -> Result<(), EnvError> {
        self.expect_like(other)?;
        for leaf in 0..other.num_leaves() {
            if let (Some(to), Some(from)) = (self.leaf_bytes_mut(leaf), other.leaf_bytes(leaf)) {
                to.copy_from_slice(from);
            }
        }
        Ok(())
    }
}

impl Buffer {
    /// Writes an action, in any form, to a row.
    ///
    /// # Errors
    /// [`EnvError::Action`] if its layout differs from the row's. Bounds are not checked.
    ///
    /// # Panics
    /// If the row does not exist.
    pub fn set_action(&mut self, row: usize, action: Action<'_>) -> Result<(), EnvError> {
        let mut target = self.row_mut(row);
        match action {
            Action::Nest(view) => {
                like(target.places(), view.places()).map_err(EnvError::Action)?;
                target.copy_from(view)
            }
            Action::Discrete(value) => set_choice(&mut target, value),
            Action::Continuous(values) => set_values(&mut target, values),
        }
    }

    /// Copies `count` rows of another buffer with the same leaves, starting at its row `from`, to this buffer, starting
    /// at its row `to`.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if the leaves differ, or one of the buffers has too few rows.
    pub fn copy_rows(&mut self, to: usize, other: &Self, from: usize, count: usize) -> Result<(), EnvError> {
        let end = |start: usize| start.checked_add(count);
        let fits = |rows: usize, start| end(start).is_some_and(|end| end <= rows);
        if !fits(self.rows(), to) || !fits(other.rows(), from) {
            let expected = format_args!("rows within {} and {}", self.rows(), other.rows());
            let actual = format_args!("{count} rows at {to} and {from}");
            return Err(EnvError::Observation(Mismatch::boxed("", expected, actual)));
        }
        self.expect_leaves_of(other)?;
        for (leaf, place) in other.places().iter().enumerate() {
            let (bytes, source) = (place.cell_bytes, other.leaf_bytes(leaf).unwrap_or_default());
            let target = self.leaf_bytes_mut(leaf).unwrap_or_default();
            target[to * bytes..(to + count) * bytes]
                .copy_from_slice(&source[from * bytes..(from + count) * bytes]);
        }
        Ok(())
    }

    /// Checks that rows have the layout of another buffer's rows; the number of rows may differ.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if they differ.
    pub fn expect_leaves_of(&self, other: &Self) -> Result<(), EnvError> {
        like(self.places(), other.places()).map_err(EnvError::Observation)
    }
}

fn like(wanted: &[Place], given: &[Place]) -> Result<(), Box<Mismatch>> {
    if wanted.len() != given.len() {
        return Err(Mismatch::boxed("", format_args!("{} leaves", wanted.len()), given.len()));
    }
    let differ = |(a, b): (&Place, &Place)| a.dtype != b.dtype || a.cell_bytes != b.cell_bytes;
    match wanted.iter().zip(given).position(differ) {
        None => Ok(()),
        Some(index) => Err(Mismatch::boxed(index, shown(wanted[index]), shown(given[index]))),
    }
}

fn shown(place: Place) -> String {
    format!("{} bytes of {}", place.cell_bytes, place.dtype.numpy_name())
}

fn set_choice(target: &mut ViewMut<'_>, value: i64) -> Result<(), EnvError> {
    let wrong = |target: &ViewMut<'_>| EnvError::Action(Mismatch::boxed("", described(target), value));
    match target.places() {
        [Place { dtype: DType::Int32, cell_bytes: 4, .. }] => {
            let Ok(narrow) = i32::try_from(value) else { return Err(wrong(target)) };
            target.leaf_mut::<i32>(0)?.fill(narrow);
        }
        [Place { dtype: DType::Int64, cell_bytes: 8, .. }] => target.leaf_mut::<i64>(0)?.fill(value),
        _ => return Err(wrong(target)),
    }
    Ok(())
}

fn set_values(target: &mut ViewMut<'_>, values: &[f32]) -> Result<(), EnvError> {
    match target.places() {
        [Place { dtype: DType::Float32, cell_bytes, .. }] if *cell_bytes == size_of_val(values) => {
            target.leaf_mut::<f32>(0)?.copy_from_slice(values);
        }
        [Place { dtype: DType::Float64, cell_bytes, .. }] if *cell_bytes == 2 * size_of_val(values) => {
            let wide = target.leaf_mut::<f64>(0)?;
            wide.iter_mut().zip(values).for_each(|(to, from)| *to = f64::from(*from));
        }
        _ => {
            let actual = format_args!("{} numbers of float32", values.len());
            return Err(EnvError::Action(Mismatch::boxed("", described(target), actual)));
        }
    }
    Ok(())
}

fn described(target: &ViewMut<'_>) -> String {
    target.places().iter().map(|place| shown(*place)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use relive_tensor::Nest;

    use super::*;
    use crate::spec::ArraySpec;

    fn of(dtype: DType, dims: &[u32], rows: usize) -> Buffer {
        Buffer::for_nest(&Nest::Leaf(ArraySpec::new("", dtype, dims)), rows).unwrap()
    }

    #[test]
    fn actions_are_written_with_the_dtype_of_the_row() {
        let mut narrow = of(DType::Int32, &[], 2);
        narrow.set_action(1, Action::Discrete(7)).unwrap();
        assert_eq!(narrow.leaf::<i32>(0).unwrap(), [0, 7]);
        let mut wide = of(DType::Int64, &[], 1);
        wide.set_action(0, Action::Discrete(1 << 40)).unwrap();
        assert_eq!(wide.leaf::<i64>(0).unwrap(), [1 << 40]);
        let mut double = of(DType::Float64, &[2], 1);
        double.set_action(0, Action::Continuous(&[0.5, -0.5])).unwrap();
        assert_eq!(double.leaf::<f64>(0).unwrap(), [0.5, -0.5]);
    }

    #[test]
    fn actions_with_a_different_layout_are_refused() {
        let error_of =
            |mut buffer: Buffer, action: Action<'_>| buffer.set_action(0, action).unwrap_err().to_string();
        let too_wide = error_of(of(DType::Int32, &[], 1), Action::Discrete(1 << 40));
        assert_eq!(too_wide, "action expected 4 bytes of int32, got 1099511627776");
        let too_short = error_of(of(DType::Float32, &[3], 1), Action::Continuous(&[1.0]));
        assert_eq!(too_short, "action expected 12 bytes of float32, got 1 numbers of float32");
        let other = of(DType::Float32, &[2], 1);
        let unlike = error_of(of(DType::Float32, &[3], 1), Action::Nest(other.view()));
        assert_eq!(unlike, "action at `0`: expected 12 bytes of float32, got 8 bytes of float32");
    }

    #[test]
    fn rows_are_copied_to_their_positions() {
        let mut target = of(DType::UInt8, &[2], 4);
        let mut source = of(DType::UInt8, &[2], 3);
        source.leaf_mut::<u8>(0).unwrap().copy_from_slice(&[1, 2, 3, 4, 5, 6]);
        target.copy_rows(2, &source, 1, 2).unwrap();
        assert_eq!(target.leaf::<u8>(0).unwrap(), [0, 0, 0, 0, 3, 4, 5, 6]);
        let error = target.copy_rows(3, &source, 1, 2).unwrap_err().to_string();
        assert_eq!(error, "observation expected rows within 4 and 3, got 2 rows at 3 and 1");
        assert!(target.copy_rows(0, &of(DType::UInt8, &[1], 4), 0, 1).is_err());
    }
}
