//! The differences between two configurations of a table.

use std::fmt;

use relive_table::{Paused, TableConfig};

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
        let described = |config: &TableConfig| match &config.signature {
            Some(signature) => format!("a signature of {} columns", signature.len()),
            None => "none".to_owned(),
        };
        let (table, stored, given) = (given.name.clone(), described(stored), described(given));
        found.push(Difference { table, rule: "signature", stored, given });
    }
    found
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
    use relive_tensor::{DType, Nest, TensorSpec};

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
}
