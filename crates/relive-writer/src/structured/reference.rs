//! Finds columns of a step by path.

use relive_connection::{Error, ErrorKind, Result};
use relive_tensor::Nest;

use super::flat_step::fill_gaps;
use super::node::SourceColumn;

/// The columns of steps with a given structure, from which patterns are built. It is created by [`reference_step`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceStep {
    columns: Nest<SourceColumn>,
}

/// Returns the columns of steps with the structure of `step`. Its leaves may have any type; the leaf of an optional
/// value may be [`Nest::None`].
///
/// ```
/// use relive_client::{Condition, Nest, StructuredConfig, reference_step};
///
/// let observation = Nest::dict([("image", ()), ("speed", ())]);
/// let structure: Nest<()> = Nest::dict([("action", Nest::Leaf(())), ("observation", observation)]);
/// let step = reference_step(&structure);
///
/// let pattern = Nest::dict([
///     ("frames", step.column("observation/image")?.slice(-3..)?),
///     ("action", step.column("action")?.step(-1)?),
/// ]);
/// let config = StructuredConfig::new("replay", pattern)
///     .condition(Condition::data(step.column("action")?).ge(1));
/// assert_eq!(config.max_age(), 3);
///
/// let error = step.column("observation/depth").unwrap_err();
/// assert!(error.to_string().contains("observation/speed"), "the error lists the columns: {error}");
/// # Ok::<(), relive_client::Error>(())
/// ```
pub fn reference_step<T>(step: &Nest<T>) -> ReferenceStep {
    let mut next = 0;
    let columns = fill_gaps(step).map(|()| {
        next += 1;
        SourceColumn::at(next - 1)
    });
    ReferenceStep { columns }
}

impl ReferenceStep {
    /// Returns all columns, in the structure of the step. [`Nest::try_map`] builds a pattern of the whole step.
    pub fn columns(&self) -> &Nest<SourceColumn> {
        &self.columns
    }

    /// Returns the column at `path`: keys of dicts and positions in lists, joined by `/`, as in `observation/image`. A
    /// step that is a single tensor has the path `""`.
    ///
    /// # Errors
    /// `NotFound` for an unknown path; `InvalidArgument` for a path that has columns below it. Both errors list the
    /// known paths.
    pub fn column(&self, path: &str) -> Result<SourceColumn> {
        match self.part(path)? {
            Nest::Leaf(column) => Ok(*column),
            part => {
                let below: Vec<String> =
                    part.flatten_with_paths().iter().map(|(below, _)| format!("{path}/{below}")).collect();
                Err(Error::invalid(format!(
                    "{path:?} is not a column of the step, but a container of {below:?}"
                )))
            }
        }
    }

    /// Returns the part of the step at `path`; [`column`](Self::column) describes the form of paths.
    ///
    /// ```
    /// use relive_client::{Nest, StructuredConfig, reference_step};
    ///
    /// let observation = Nest::dict([("image", ()), ("speed", ())]);
    /// let structure: Nest<()> = Nest::dict([("action", Nest::Leaf(())), ("observation", observation)]);
    /// let step = reference_step(&structure);
    /// let newest_two = step.part("observation")?.try_map(&mut |column| column.slice(-2..))?;
    /// assert_eq!(StructuredConfig::new("replay", newest_two).nodes().count(), 2);
    /// # Ok::<(), relive_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound` for an unknown path. The error lists the columns.
    pub fn part(&self, path: &str) -> Result<&Nest<SourceColumn>> {
        let found = if path.is_empty() { Some(&self.columns) } else { find(&self.columns, path) };
        found.ok_or_else(|| {
            let known: Vec<String> =
                self.columns.flatten_with_paths().iter().map(|(path, _)| path.to_string()).collect();
            let text = format!("the step has nothing at {path:?}; its columns are {known:?}");
            Error::new(ErrorKind::NotFound, text)
        })
    }
}

/// Returns the part of `nest` at `path`.
fn find<'a>(nest: &'a Nest<SourceColumn>, path: &str) -> Option<&'a Nest<SourceColumn>> {
    let enter = |key: &str, item: &'a Nest<SourceColumn>| match path.strip_prefix(key)? {
        "" => Some(item),
        rest => find(item, rest.strip_prefix('/')?),
    };
    match nest {
        Nest::Leaf(_) | Nest::None => None,
        Nest::List(items) | Nest::Tuple(items) => {
            items.iter().enumerate().find_map(|(position, item)| enter(&position.to_string(), item))
        }
        Nest::Dict(items) => items.iter().find_map(|(key, item)| enter(key, item)),
        Nest::NamedTuple { fields, .. } => fields.iter().find_map(|(key, item)| enter(key, item)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"a": [x, {"b": x}], "a/2": x, "named": N(c=None)}`, whose columns have the numbers 0, 1, 2 and 3.
    fn step() -> ReferenceStep {
        let inner: Nest<()> = Nest::dict([("b", ())]);
        let named = Nest::NamedTuple { name: "N".to_owned(), fields: vec![("c".to_owned(), Nest::None)] };
        let step: Nest<()> = Nest::dict([
            ("a", Nest::List(vec![Nest::Leaf(()), inner])),
            ("a/2", Nest::Leaf(())),
            ("named", named),
        ]);
        reference_step(&step)
    }

    #[test]
    fn every_path_of_the_flattened_step_finds_its_column() {
        let step = step();
        let leaves = step.columns().flatten_with_paths();
        assert_eq!(leaves.len(), 4);
        for (number, (path, column)) in (0..).zip(&leaves) {
            assert_eq!(step.column(&path.to_string()).unwrap(), **column, "{path}");
            assert_eq!(column.source(), number, "{path}");
        }
        assert_eq!(reference_step(&Nest::Leaf(())).column("").unwrap().source(), 0);
    }

    #[test]
    fn a_subtree_has_the_columns_below_its_path() {
        let step = step();
        let numbers = |path: &str| -> Vec<u32> {
            step.part(path).unwrap().leaves().map(|column| column.source()).collect()
        };
        assert_eq!(numbers("a"), [0, 1]);
        assert_eq!(numbers("a/1"), [1]);
        assert_eq!(numbers(""), [0, 1, 2, 3]);
    }

    #[test]
    fn wrong_paths_are_refused_with_the_existing_ones() {
        let step = step();
        for path in ["b", "a/3", "a/1/b/c", "a/", "/a", "named/d", "nam"] {
            let error = step.column(path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{path}: {error}");
            assert!(error.to_string().contains("a/1/b"), "{path}: {error}");
        }
        let error = step.column("a").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("a/0") && error.to_string().contains("a/1/b"), "{error}");
    }
}
