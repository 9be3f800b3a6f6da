//! The differences between two configurations of a table.

use std::fmt;

use relive_table::{Paused, TableConfig};
use relive_tensor::{Path, Signature, TensorSpec};

/// A rule that differs between a table's snapshot and its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The table's name.
    pub table: String,
    /// The rule, by its name in configurations.
    pub rule: &'static str,
    /// The snapshot's value.
    pub stored: String,
    /// The configuration's value.
    pub given: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, rule, stored, given } = self;
        write!(f, "table {table}: {rule} is {stored} in the checkpoint and {given} in the configuration")
    }
}

pub(crate) fn differences(stored: &TableConfig, given: &TableConfig) -> Vec<Difference> {
    let both = rules(stored).into_iter().zip(rules(given));
    let mut found: Vec<Difference> = both
        .filter(|((_, stored), (_, given))| stored != given)
        .map(|((rule, stored), (_, now))| Difference { table: given.name.clone(), rule, stored, given: now })
        .collect();
    if stored.signature != given.signature {
        let table = given.name.clone();
        let (stored, given) = signatures(stored.signature.as_deref(), given.signature.as_deref());
        found.push(Difference { table, rule: "signature", stored, given });
    }
    found
}

/// Describes two different signatures, and the first column in which they differ.
fn signatures(stored: Option<&Signature>, given: Option<&Signature>) -> (String, String) {
    let counted = |signature: &Signature| format!("a signature of {} columns", signature.len());
    let (Some(stored), Some(given)) = (stored, given) else {
        let described = |signature: Option<&Signature>| signature.map_or_else(|| "none".to_owned(), counted);
        return (described(stored), described(given));
    };
    let (stored_columns, given_columns) = (columns(stored), columns(given));
    let most = stored_columns.len().max(given_columns.len());
    let other = (0..most).find(|&at| stored_columns.get(at) != given_columns.get(at));
    let described = |signature: &Signature, columns: &[String]| match other.map(|at| (at, columns.get(at))) {
        Some((at, Some(column))) => format!("{} whose column {at} is {column}", counted(signature)),
        Some((_, None)) => counted(signature),
        None => format!("{} (the containers or the bounds differ)", counted(signature)),
    };
    (described(stored, &stored_columns), described(given, &given_columns))
}

/// Returns the place, the name, the type and the shape of each column, as text.
fn columns(signature: &Signature) -> Vec<String> {
    let text = |(path, spec): &(Path, &TensorSpec)| match spec.name.as_str() {
        "" => format!("`{path}`, {}", spec.display_numpy()),
        name => format!("`{path}` (named {name:?}), {}", spec.display_numpy()),
    };
    signature.flatten_with_paths().iter().map(text).collect()
}

/// Returns the changes: each rule or paused operation that changed, with its old and its new value.
pub(crate) fn alterations(
    old: &TableConfig,
    was: Paused,
    new: &TableConfig,
    is: Paused,
) -> Vec<(&'static str, String, String)> {
    let described = |paused| if paused { "paused" } else { "running" }.to_owned();
    let pauses = [
        ("inserts", described(was.inserts), described(is.inserts)),
        ("samples", described(was.samples), described(is.samples)),
    ];
    let both = rules(old).into_iter().zip(rules(new)).map(|((rule, old), (_, new))| (rule, old, new));
    both.chain(pauses).filter(|(_, old, new)| old != new).collect()
}

/// Returns every rule except the signature, by name and as text.
fn rules(config: &TableConfig) -> [(&'static str, String); 9] {
    let limiter = &config.rate_limiter;
    [
        ("sampler", config.sampler.to_string()),
        ("remover", config.remover.to_string()),
        ("max_size", config.max_size.to_string()),
        ("max_bytes", config.max_bytes.map_or_else(|| "none".to_owned(), |bytes| bytes.to_string())),
        ("max_times_sampled", config.max_times_sampled.to_string()),
        ("samples_per_insert", limiter.samples_per_insert.to_string()),
        ("min_size_to_sample", limiter.min_size_to_sample.to_string()),
        ("min_diff", format!("{:?}", limiter.min_diff)),
        ("max_diff", format!("{:?}", limiter.max_diff)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_table::{RateLimiterConfig, SelectorKind};
    use relive_tensor::{DType, Nest};

    fn described(stored: &TableConfig, given: &TableConfig) -> Vec<String> {
        differences(stored, given).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_rule_is_compared_and_reported() {
        let table = || TableConfig::new("t");
        assert_eq!(described(&table(), &table()), Vec::<String>::new());
        let spec = TensorSpec::new("", DType::Int8, None);
        let other = table()
            .sampler(SelectorKind::Prioritized { exponent: 0.5 })
            .remover(SelectorKind::Lifo)
            .max_size(5)
            .max_bytes(1_000)
            .max_times_sampled(3)
            .rate_limiter(RateLimiterConfig {
                samples_per_insert: 2.5,
                min_size_to_sample: 4,
                min_diff: -1.0,
                max_diff: 8.0,
            })
            .signature(Nest::List(vec![Nest::Leaf(spec)]));
        let found = described(&other, &table());
        assert_eq!(found.len(), 10, "{found:?}");
        assert_eq!(
            found[0],
            "table t: sampler is Prioritized(0.5) in the checkpoint and Uniform in the configuration"
        );
        assert_eq!(found[3], "table t: max_bytes is 1000 in the checkpoint and none in the configuration");
        assert_eq!(
            found[9],
            "table t: signature is a signature of 1 columns in the checkpoint and none in the configuration"
        );
    }

    #[test]
    fn the_first_column_that_differs_is_named() {
        let table = |signature: Nest<TensorSpec>| TableConfig::new("t").signature(signature);
        let spec = |name, size| TensorSpec::new(name, DType::Float32, Some(vec![None, Some(size)]));
        let stored = table(Nest::dict([("action", spec("", 1)), ("obs", spec("", 3))]));
        let cases = [
            (
                Nest::dict([("action", spec("", 1)), ("obs", spec("pixels", 4))]),
                "a signature of 2 columns whose column 1 is `obs`, float32 (None, 3)",
                "a signature of 2 columns whose column 1 is `obs` (named \"pixels\"), float32 (None, 4)",
            ),
            (
                Nest::dict([("action", spec("", 1))]),
                "a signature of 2 columns whose column 1 is `obs`, float32 (None, 3)",
                "a signature of 1 columns",
            ),
        ];
        for (given, first, second) in cases {
            let found = differences(&stored, &table(given));
            assert_eq!((found.len(), &*found[0].stored, &*found[0].given), (1, first, second));
        }
        let list = |spec| Nest::List(vec![Nest::Leaf(spec)]);
        let tuple = |spec| Nest::Tuple(vec![Nest::Leaf(spec)]);
        let found = differences(&table(list(spec("", 1))), &table(tuple(spec("", 1))));
        assert_eq!(found[0].given, "a signature of 1 columns (the containers or the bounds differ)");
    }
}
