//! The structure of a table's items: the names of their columns.

use std::sync::Arc;

use relive_tensor::Nest;

/// The longest text for a structure in an error message, in bytes.
const MAX_SHOWN_BYTES: usize = 600;

/// The structure of a table's items. The leaves of `names` are the columns of an item in flattening order.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemStructure {
    /// Containers and names around the columns.
    pub names: Arc<Nest<()>>,
    /// Whether the structure comes from the table's signature; otherwise, it comes from the table's first writer.
    pub is_signature: bool,
    /// A structure with different column names that writers have also used for items.
    pub disputed_by: Option<Arc<Nest<()>>>,
}

impl ItemStructure {
    /// Creates the structure of a table's signature.
    #[must_use]
    pub fn of_signature(names: Nest<()>) -> Self {
        Self { names: Arc::new(names), is_signature: true, disputed_by: None }
    }

    /// Creates the structure that the first writer of a table proposes.
    #[must_use]
    pub fn of_writer(names: Nest<()>) -> Self {
        Self { names: Arc::new(names), is_signature: false, disputed_by: None }
    }

    /// Returns whether items with the structure `given` have the same column names.
    #[must_use]
    pub fn fits<T>(&self, given: &Nest<T>) -> bool {
        have_same_columns(&self.names, given)
    }

    /// Checks that items of `table` may have the structure `given`.
    ///
    /// ```
    /// use relive_table::ItemStructure;
    /// use relive_tensor::Nest;
    ///
    /// let kept = ItemStructure::of_signature(Nest::dict([("obs", ()), ("act", ())]));
    /// assert!(kept.check("replay", &Nest::dict([("act", ()), ("obs", ())])).is_ok());
    /// let why = kept.check("replay", &Nest::dict([("a_obs", ()), ("b_act", ())])).unwrap_err();
    /// assert!(why.contains("its signature says {act, obs}, but the item is {a_obs, b_act}"), "{why}");
    /// ```
    ///
    /// # Errors
    /// Returns a human-readable message that shows both structures.
    pub fn check<T>(&self, table: &str, given: &Nest<T>) -> Result<(), String> {
        if self.fits(given) {
            return Ok(());
        }
        let (who, advice) = if self.is_signature {
            ("its signature says", "give the item's columns the names of the signature")
        } else {
            ("its first writer wrote", "give the item's columns the same names")
        };
        Err(format!(
            "table {table:?} has items with a different structure: {who} {}, but the item is {}; columns are \
             identified only by their order, so readers would get them under wrong names: {advice}, or write \
             the item to another table",
            shown(&self.names),
            shown(given)
        ))
    }
}

/// Returns whether the columns of both structures have the same names in the same order. Lists match tuples, and dicts
/// match named tuples; parts without columns are ignored. A single column without a container has no name and matches
/// any other column.
#[must_use]
pub fn have_same_columns<A, B>(one: &Nest<A>, other: &Nest<B>) -> bool {
    match (one, other) {
        (Nest::Leaf(_), Nest::Leaf(_)) => true,
        (Nest::Leaf(_), other) => other.len() == 1,
        (one, Nest::Leaf(_)) => one.len() == 1,
        (one, other) => match (parts(one), parts(other)) {
            (Some(one), Some(other)) => same_parts(&one, &other),
            _ => one.is_empty() && other.is_empty(),
        },
    }
}

/// The parts of a structure that have columns, with their names or numbers.
type Parts<'a, T> = Vec<(Place<'a>, &'a Nest<T>)>;

#[derive(PartialEq)]
enum Place<'a> {
    Number(usize),
    Name(&'a str),
}

fn parts<T>(nest: &Nest<T>) -> Option<Parts<'_, T>> {
    let parts: Parts<'_, T> = match nest {
        Nest::Leaf(_) | Nest::None => return None,
        Nest::List(parts) | Nest::Tuple(parts) => {
            parts.iter().enumerate().map(|(at, part)| (Place::Number(at), part)).collect()
        }
        Nest::Dict(fields) => fields.iter().map(|(name, part)| (Place::Name(name), part)).collect(),
        Nest::NamedTuple { fields, .. } => {
            fields.iter().map(|(name, part)| (Place::Name(name), part)).collect()
        }
    };
    Some(parts.into_iter().filter(|(_, part)| !part.is_empty()).collect())
}

fn same_parts<A, B>(one: &[(Place<'_>, &Nest<A>)], other: &[(Place<'_>, &Nest<B>)]) -> bool {
    let mut pairs = one.iter().zip(other);
    one.len() == other.len()
        && pairs.all(|((place, one), (other_place, other))| {
            // A leaf inside containers is named by them.
            let same_depth = matches!(one, Nest::Leaf(_)) == matches!(other, Nest::Leaf(_));
            place == other_place && same_depth && have_same_columns(one, other)
        })
}

/// Formats a structure for display: `{act, obs: (_, _)}`.
#[must_use]
pub fn shown<T>(nest: &Nest<T>) -> String {
    let mut text = String::new();
    show(nest, &mut text);
    if text.len() > MAX_SHOWN_BYTES {
        let end = (0..=MAX_SHOWN_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

fn show<T>(nest: &Nest<T>, text: &mut String) {
    match nest {
        _ if text.len() > MAX_SHOWN_BYTES => {}
        Nest::Leaf(_) => text.push('_'),
        Nest::None => text.push_str("None"),
        Nest::List(parts) => show_all(parts, '[', ']', text),
        Nest::Tuple(parts) => show_all(parts, '(', ')', text),
        Nest::Dict(fields) => show_fields(fields.iter(), '{', '}', text),
        Nest::NamedTuple { name, fields } => {
            text.push_str(name);
            show_fields(fields.iter().map(|(name, part)| (name, part)), '(', ')', text);
        }
    }
}

fn show_all<T>(parts: &[Nest<T>], open: char, close: char, text: &mut String) {
    text.push(open);
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        show(part, text);
    }
    text.push(close);
}

fn show_fields<'a, T: 'a>(
    fields: impl Iterator<Item = (&'a String, &'a Nest<T>)>,
    open: char,
    close: char,
    text: &mut String,
) {
    text.push(open);
    for (at, (name, part)) in fields.enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        text.push_str(name);
        if !matches!(part, Nest::Leaf(_)) {
            text.push_str(": ");
            show(part, text);
        }
    }
    text.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf() -> Nest<()> {
        Nest::Leaf(())
    }

    fn named(names: &[&str]) -> Nest<()> {
        let fields = names.iter().map(|name| ((*name).to_owned(), leaf())).collect();
        Nest::NamedTuple { name: "Step".to_owned(), fields }
    }

    #[test]
    fn names_and_their_order_matter_but_container_kinds_do_not() {
        let dict = Nest::dict([("obs", ()), ("act", ())]);
        let list = Nest::List(vec![leaf(), leaf()]);
        let gap = Nest::Dict(
            [("act", leaf()), ("none", Nest::None), ("obs", leaf())].map(|(k, v)| (k.into(), v)).into(),
        );
        for (one, other, same) in [
            (&dict, &named(&["act", "obs"]), true),
            (&dict, &named(&["obs", "act"]), false),
            (&dict, &gap, true),
            (&dict, &Nest::dict([("a", ()), ("b", ())]), false),
            (&dict, &list, false),
            (&dict, &Nest::dict([("obs", ())]), false),
            (&list, &Nest::Tuple(vec![leaf(), leaf()]), true),
            (&list, &Nest::List(vec![leaf()]), false),
            (&leaf(), &Nest::dict([("obs", ())]), true),
            (&leaf(), &list, false),
            (&Nest::List(vec![list.clone()]), &Nest::List(vec![leaf()]), false),
            (&Nest::List(vec![Nest::dict([("x", ())])]), &Nest::List(vec![leaf()]), false),
        ] {
            assert_eq!(have_same_columns(one, other), same, "{} and {}", shown(one), shown(other));
            assert_eq!(have_same_columns(other, one), same, "{} and {}", shown(other), shown(one));
        }
    }

    #[test]
    fn structures_are_shown_as_typed_and_truncated() {
        let nest = Nest::Dict(
            [("b".to_owned(), Nest::Tuple(vec![leaf(), named(&["x"])])), ("a".to_owned(), leaf())].into(),
        );
        assert_eq!(shown(&nest), "{a, b: (_, Step(x))}");
        let long = Nest::List(vec![Nest::dict([("ä".repeat(400), ())]); 2]);
        assert!(shown(&long).len() < 620 && shown(&long).ends_with('…'));
    }
}
