//! Runs programs on relive-flow.

use std::collections::BTreeMap;

use relive_flow::{Async, Executor, Order, ParFlow, Resubmit, Result, Weight};
use serde_json::Value;

use crate::program::{Flow, Function, Program, Shards, items, number, repeated};

/// The seed of all random choices; results that depend on it are not compared.
const SEED: u64 = 1;

/// How many items a copy may be ahead of the other copies.
const MAX_LEAD: usize = 1;

/// Returns the items that the program yields.
pub(crate) fn run(program: &Program, executor: &Executor) -> Result<Vec<Value>> {
    let flow = flow(&program.flow, executor)?;
    match program.take {
        Some(count) => flow.take(count).into_iter().collect(),
        None => flow.into_iter().collect(),
    }
}

fn shards(program: &Shards, executor: &Executor) -> ParFlow<Value> {
    let of = |program| shards(program, executor);
    match program {
        Shards::Items { items, shards } => ParFlow::from_items(executor, items.clone(), *shards),
        Shards::Range { count, shards } => {
            ParFlow::from_range(executor, *count, *shards).for_each(Value::from)
        }
        Shards::ForEach { of: program, function } => {
            let function = *function;
            of(program).for_each(move |item| function.call(item))
        }
        Shards::Filter { of: program, modulus, remainder } => {
            let (modulus, remainder) = (*modulus, *remainder);
            of(program).filter(move |item| number(item) % modulus == remainder)
        }
        Shards::Batch { of: program, size } => of(program).batch(*size).for_each(Value::from),
        Shards::Flatten { of: program } => of(program).for_each(items).flatten(),
        Shards::Combine { of: program, modulus } => {
            let modulus = *modulus;
            of(program).combine(move |item| repeated(&item, modulus))
        }
        Shards::LocalShuffle { of: program, buffer } => of(program).local_shuffle(*buffer, SEED),
        Shards::Repartition { of: program, shards } => of(program).repartition(*shards),
        Shards::Select { of: program, numbers } => of(program).select_shards(numbers),
        Shards::Union { of: program, other } => of(program).union(of(other)),
    }
}

fn flow(program: &Flow, executor: &Executor) -> Result<relive_flow::Flow<Value>> {
    let of = |program| flow(program, executor);
    Ok(match program {
        Flow::GatherSync { of } => shards(of, executor).gather_sync(),
        Flow::GatherAsync { of, ahead } => {
            shards(of, executor).gather_async(Async { depth: *ahead, resubmit: Resubmit::Before })
        }
        Flow::BatchAcrossShards { of } => shards(of, executor).batch_across_shards().for_each(Value::from),
        Flow::Sources { of } => sources(shards(of, executor))?,
        Flow::ForEach { of: program, function } => {
            let function = *function;
            of(program)?.for_each(move |item| function.call(item))
        }
        Flow::Filter { of: program, modulus, remainder } => {
            let (modulus, remainder) = (*modulus, *remainder);
            of(program)?.filter(move |item| number(item) % modulus == remainder)
        }
        Flow::Batch { of: program, size } => of(program)?.batch(*size).for_each(Value::from),
        Flow::Flatten { of: program } => of(program)?.for_each(items).flatten(),
        Flow::Combine { of: program, modulus } => {
            let modulus = *modulus;
            of(program)?.combine(move |item| repeated(&item, modulus))
        }
        Flow::Shuffle { of: program, buffer } => of(program)?.shuffle(*buffer, SEED),
        Flow::RoundRobin { of } => joined(of, Order::RoundRobin, executor)?,
        Flow::Ready { of } => joined(of, Order::Ready, executor)?,
        Flow::Weighted { of, weights } => {
            let weight = |weight: &Option<f64>| weight.map_or(Weight::All, Weight::Times);
            joined(of, Order::weighted(weights.iter().map(weight)), executor)?
        }
        Flow::Copies { of: program, functions } => copies(of(program)?, functions),
    })
}

fn joined(flows: &[Flow], order: Order, executor: &Executor) -> Result<relive_flow::Flow<Value>> {
    let flows: Vec<_> = flows.iter().map(|program| flow(program, executor)).collect::<Result<_>>()?;
    Ok(relive_flow::Flow::union(flows, order))
}

fn copies(flow: relive_flow::Flow<Value>, functions: &[Function]) -> relive_flow::Flow<Value> {
    let called = |(copy, function): (relive_flow::Flow<Value>, &Function)| {
        let function = *function;
        copy.for_each(move |item| function.call(item))
    };
    let copies: Vec<_> = match functions {
        [_, _] => flow.duplicate::<2>(MAX_LEAD).into_iter().zip(functions).map(called).collect(),
        _ => flow.duplicate::<3>(MAX_LEAD).into_iter().zip(functions).map(called).collect(),
    };
    relive_flow::Flow::union(copies, Order::RoundRobin)
}

fn sources(shards: ParFlow<Value>) -> Result<relive_flow::Flow<Value>> {
    let mut groups: BTreeMap<_, Vec<Value>> = BTreeMap::new();
    for item in shards.gather_async(Async::default()).zip_with_source() {
        let (source, item) = item?;
        groups.entry(source).or_default().push(item);
    }
    Ok(relive_flow::Flow::from_iter("sources", groups.into_values().map(Value::from)))
}
