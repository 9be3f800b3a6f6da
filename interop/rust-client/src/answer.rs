//! The answers to the suite.

use relive::{Result, Sample, ServerInfo, ServerStatus, TableInfo};
use serde_json::{Value, json};

use crate::value::TensorValue;

pub(crate) fn sample(sample: &Sample) -> Result<Value> {
    let info = sample.info();
    let columns = sample.columns()?;
    let columns: Vec<TensorValue> = columns.iter().map(TensorValue::from).collect();
    Ok(json!({
        "key": info.key,
        "probability": info.probability,
        "table_size": info.table_size,
        "priority": info.priority,
        "times_sampled": info.times_sampled,
        "rate_limited": info.rate_limited,
        "columns": columns,
    }))
}

pub(crate) fn server_info(info: &ServerInfo) -> Value {
    json!({
        "state_id": [info.state_id.high, info.state_id.low],
        "tables": info.tables.iter().map(table).collect::<Vec<_>>(),
    })
}

fn table(info: &TableInfo) -> Value {
    let config = &info.config;
    let limiter = &config.rate_limiter;
    let signature = config.signature.as_deref().map(|signature| {
        let specs = signature.flatten_with_paths();
        let spec = |(path, spec): &(_, &relive::TensorSpec)| {
            format!("{path} {} {}", spec.dtype, spec.display_shape())
        };
        specs.iter().map(spec).collect::<Vec<_>>()
    });
    json!({
        "name": config.name,
        "sampler": format!("{:?}", config.sampler),
        "remover": format!("{:?}", config.remover),
        "max_size": config.max_size,
        "max_times_sampled": config.max_times_sampled,
        "limiter": [limiter.samples_per_insert, limiter.min_diff, limiter.max_diff],
        "min_size_to_sample": limiter.min_size_to_sample,
        "signature": signature,
        "current_size": info.current_size,
        "num_episodes": info.num_episodes,
        "num_deleted_episodes": info.num_deleted_episodes,
        "num_unique_samples": info.num_unique_samples,
        "inserts": info.inserts,
        "samples": info.samples,
    })
}

pub(crate) fn status(status: &ServerStatus) -> Value {
    let waiters = status.tables.iter().flat_map(|table| &table.waiters);
    json!({
        "version": status.version,
        "chunks": status.chunks.chunks,
        "waiters": waiters.map(|waiter| waiter.reason.clone()).collect::<Vec<_>>(),
    })
}
