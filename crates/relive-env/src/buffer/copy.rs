//! From one buffer to another.

use relive_tensor::DType;

use super::memory::Place;
use super::{Buffer, View, ViewMut};
use crate::action::Action;
use crate::error::{EnvError, Mismatch};

impl ViewMut<'_> {
    /// Whether the leaves are of the same types and sizes as another row's.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if not.
    pub fn expect_like(&self, other: View<'_>) -> Result<(), EnvError> {
        like(self.places(), other.places()).map_err(EnvError::Observation)
    }

    /// Takes over the leaves of another row.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if they are of other types or sizes.
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
    /// Writes an action into a row, in whichever shape it comes.
    ///
    /// # Errors
    /// [`EnvError::Action`] if it is not laid out as the row is. Values are not compared with bounds.
    ///
    /// # Panics
    /// If there is no such row.
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

    /// Takes over `count` rows of another buffer of the same leaves, from its row `from` on, to this one's row `to` on.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if the leaves are others, or there are not so many rows.
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

    /// Whether rows are laid out as another buffer's; there may be more of them, or fewer.
    ///
    /// # Errors
    /// [`EnvError::Observation`] if not.
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
    format!("{} bytes of {}", place.cell_bytes, place.dtype)
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
