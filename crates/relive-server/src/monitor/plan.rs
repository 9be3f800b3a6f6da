//! `/plan`: the plan and the workers of the run that owns the server's tables. The run writes both into a table every
//! second.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use relive_engine::Engine;
use relive_tensor::Trajectory;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Monitor;
use super::view::View;

/// The table with the plan as its only item: the identity of the run and the plan, both as JSON in bytes.
pub(super) const TABLE: &str = "plan";
const IDENTITY: usize = 0;
const PLAN: usize = 1;

/// The largest plan that is shown. An agent's plan usually has a few kilobytes.
const MAX_BYTES: u64 = 1 << 20;

/// The fields of a plan, as documented at `look` in `relive-rl/src/watching/plan_state.rs`.
const FIELDS: [&str; 12] = [
    "agent",
    "environment",
    "phase",
    "driver",
    "env_steps",
    "learner_steps",
    "version_lag",
    "time_by_part",
    "operators",
    "workers",
    "workers_in_all",
    "nodes",
];

/// The fields of a run's identity that every version has (`relive-rl/src/identity.rs`). They distinguish the table of a
/// run from a user's own table with the same name, whose content must not be shown.
#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only their presence matters")]
struct Identity {
    version: u32,
    agent: String,
    environment: String,
    observations: String,
    actions: String,
    seed: u64,
    settings: BTreeMap<String, String>,
}

pub(super) async fn plan(State(view): State<View>) -> Response {
    let Some(services) = view.monitor.services() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the server has no tables yet\n").into_response();
    };
    match newest(services.engine()).await {
        Some(plan) => Json(plan).into_response(),
        None => (StatusCode::NOT_FOUND, "this server has no plan of a run\n").into_response(),
    }
}

/// Returns the plan of the run that owns the server's tables, if there is one.
pub(super) async fn of(monitor: &Monitor) -> Option<Value> {
    newest(monitor.services()?.engine()).await
}

/// Returns `None` if the table does not exist or contains other data.
async fn newest(engine: &Engine) -> Option<Value> {
    let table = engine.table(TABLE).ok()?;
    if table.config().max_size != 1 {
        // Another table of this name, which may have many items.
        return None;
    }
    let page = table.items(0, 1);
    let found = table.get_items(&[page.items.first()?.data.key]).await.ok()?;
    let plan = of_run(&found.first()?.as_ref()?.item.trajectory)?;
    let written = Duration::from_nanos(u64::try_from(page.items.first()?.data.inserted_at.as_nanos()).ok()?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(aged(plan, now.saturating_sub(written)))
}

/// Returns the documented fields of the plan in a run's item, or `None` if the item is not a run's.
fn of_run(item: &Trajectory) -> Option<Value> {
    serde_json::from_slice::<Identity>(&bytes(item, IDENTITY)?).ok()?;
    let mut plan: Map<String, Value> = serde_json::from_slice(&bytes(item, PLAN)?).ok()?;
    plan.retain(|name, _| FIELDS.contains(&name.as_str()));
    Some(Value::Object(plan))
}

/// Returns the bytes of a column, or `None` if they, or the chunks with them, are too large when decoded.
fn bytes(item: &Trajectory, column: usize) -> Option<Vec<u8>> {
    let chunks = item.chunks().iter().map(|chunk| chunk.size_bytes().max(chunk.uncompressed_size_bytes()));
    let size = item.column(column)?.shape().num_elements()?;
    if chunks.sum::<u64>() > MAX_BYTES || size > MAX_BYTES {
        return None;
    }
    item.decode_column(column).ok()?.to_vec::<u8>().ok()
}

/// Returns a plan that was written before some time: the times since the last messages of workers and nodes have grown.
/// If the driver's machine is lost, nobody else updates them. A run that is over expects no messages.
fn aged(mut plan: Value, age: Duration) -> Value {
    if plan.get("phase").and_then(Value::as_str) == Some("over") {
        return plan;
    }
    for list in ["workers", "nodes"] {
        let members = plan.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for seen in members.filter_map(|member| member.get_mut("seen_seconds")) {
            if let Some(seconds) = seen.as_f64() {
                *seen = Value::from(seconds + age.as_secs_f64());
            }
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use relive_tensor::{Chunk, Codec, SequenceRange, Slice, Tensor, TrajectoryBuilder, encode_chunk};
    use serde_json::json;

    use super::*;

    const IDENTITY_OF_A_RUN: &str = r#"{"version":5,"agent":"dqn","environment":"catch/0","observations":"",
        "actions":"","seed":1,"settings":{"epsilon":"0.1"}}"#;

    /// Returns an item with two columns of bytes. The second one is repeated.
    fn item(columns: [&str; 2], repeats: usize) -> Trajectory {
        let mut builder = TrajectoryBuilder::new();
        for ((key, text), repeats) in (1..).zip(columns).zip([1, repeats]) {
            let column =
                Tensor::from_slice(text.as_bytes(), [1, u32::try_from(text.len()).unwrap()]).unwrap();
            let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
            let chunk = encode_chunk(key, range, &[column], false, Codec::Zstd).unwrap();
            let chunk = builder.chunk(Arc::new(Chunk::new(chunk).unwrap()));
            builder.begin_column(false);
            for _ in 0..repeats {
                builder.slice(Slice { chunk, index: 0, offset: 0, length: 1 });
            }
        }
        builder.build().unwrap()
    }

    #[test]
    fn only_the_documented_fields_of_a_run_are_shown() {
        let plan = r#"{"agent":"dqn","env_steps":7,"secret":"x"}"#;
        let shown = of_run(&item([IDENTITY_OF_A_RUN, plan], 1));
        assert_eq!(shown, Some(json!({"agent": "dqn", "env_steps": 7})));
        for other in ["{}", "[]", "7", r#"{"agent":"dqn","environment":"catch/0"}"#] {
            assert_eq!(of_run(&item([other, plan], 1)), None, "it is not a run's: {other}");
        }
        assert_eq!(of_run(&item([IDENTITY_OF_A_RUN, "[1]"], 1)), None);
    }

    #[test]
    fn a_plan_that_decodes_to_too_many_bytes_is_not_decoded() {
        let spaces = |count: u64| " ".repeat(usize::try_from(count).unwrap());
        let plan = |count| format!("{{{}}}", spaces(count));
        let shown = |plan: &str, repeats| of_run(&item([IDENTITY_OF_A_RUN, plan], repeats));
        assert_eq!(shown(&plan(MAX_BYTES / 2), 1), Some(json!({})));
        let bomb = item([IDENTITY_OF_A_RUN, &plan(MAX_BYTES)], 1);
        assert!(bomb.encoded_size_bytes() < 10_000);
        assert_eq!(of_run(&bomb), None);
        let half = format!("{}1", spaces(MAX_BYTES / 2));
        assert!(bytes(&item([IDENTITY_OF_A_RUN, &half], 1), PLAN).is_some());
        assert!(bytes(&item([IDENTITY_OF_A_RUN, &half], 2), PLAN).is_none());
    }

    #[test]
    fn the_silence_of_workers_grows_while_nobody_writes_the_plan() {
        let plan = |phase: &str, seconds: f64| {
            json!({
                "phase": phase,
                "workers": [{"worker": 0, "seen_seconds": seconds}, {"worker": 1, "seen_seconds": null}],
                "nodes": [{"name": "a", "seen_seconds": seconds}, {"name": "b"}],
            })
        };
        let age = Duration::from_secs(60);
        assert_eq!(aged(plan("running", 0.5), age), plan("running", 60.5));
        assert_eq!(aged(plan("left", 0.5), age), plan("left", 60.5));
        assert_eq!(aged(plan("over", 0.5), age), plan("over", 0.5));
        assert_eq!(aged(json!([1, "two"]), age), json!([1, "two"]));
    }
}
