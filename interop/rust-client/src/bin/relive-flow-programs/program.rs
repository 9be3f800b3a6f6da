//! Programs as JSON: trees of operators, each of which contains the operators that it pulls from.

use serde::Deserialize;
use serde_json::Value;

/// A program.
#[derive(Deserialize)]
pub(crate) struct Program {
    pub(crate) flow: Flow,
    /// How many items are taken from the flow; `None` means all.
    pub(crate) take: Option<usize>,
}

/// Operators of shards.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Shards {
    Items { items: Vec<Value>, shards: u32 },
    Range { count: u64, shards: u32 },
    ForEach { of: Box<Shards>, function: Function },
    Filter { of: Box<Shards>, modulus: u64, remainder: u64 },
    Batch { of: Box<Shards>, size: usize },
    Flatten { of: Box<Shards> },
    Combine { of: Box<Shards>, modulus: u64 },
    LocalShuffle { of: Box<Shards>, buffer: usize },
    Repartition { of: Box<Shards>, shards: u32 },
    Select { of: Box<Shards>, numbers: Vec<u32> },
    Union { of: Box<Shards>, other: Box<Shards> },
}

/// Operators of flows.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Flow {
    GatherSync {
        of: Shards,
    },
    GatherAsync {
        of: Shards,
        ahead: usize,
    },
    BatchAcrossShards {
        of: Shards,
    },
    /// The items of each source that has items, in no particular order.
    Sources {
        of: Shards,
    },
    ForEach {
        of: Box<Flow>,
        function: Function,
    },
    Filter {
        of: Box<Flow>,
        modulus: u64,
        remainder: u64,
    },
    Batch {
        of: Box<Flow>,
        size: usize,
    },
    Flatten {
        of: Box<Flow>,
    },
    Combine {
        of: Box<Flow>,
        modulus: u64,
    },
    Shuffle {
        of: Box<Flow>,
        buffer: usize,
    },
    RoundRobin {
        of: Vec<Flow>,
    },
    Ready {
        of: Vec<Flow>,
    },
    /// A merge by weights; `None` as a weight means all available items.
    Weighted {
        of: Vec<Flow>,
        weights: Vec<Option<f64>>,
    },
    /// Copies that are merged in turn, with a function for each copy.
    Copies {
        of: Box<Flow>,
        functions: Vec<Function>,
    },
}

/// Functions of items.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Function {
    Add(u64),
    Sum,
    Pair,
}

impl Function {
    pub(crate) fn call(self, item: Value) -> Value {
        match self {
            Self::Add(more) => Value::from(number(&item) + more),
            Self::Sum => Value::from(number(&item)),
            Self::Pair => Value::from([item.clone(), item].to_vec()),
        }
    }
}

/// Returns the number that an item represents; for a list, the sum.
pub(crate) fn number(item: &Value) -> u64 {
    match item {
        Value::Array(items) => items.iter().map(number).sum(),
        other => other.as_u64().unwrap_or(0),
    }
}

/// Returns an item, as often as `combine` repeats it.
pub(crate) fn repeated(item: &Value, modulus: u64) -> Vec<Value> {
    (0..number(item) % modulus).map(|_| item.clone()).collect()
}

/// Returns the items of a list.
pub(crate) fn items(list: Value) -> Vec<Value> {
    match list {
        Value::Array(items) => items,
        other => vec![other],
    }
}
