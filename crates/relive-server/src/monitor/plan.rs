//! `/plan`: the plan and the workers of the run that owns the server's tables. The run writes both into a table every
//! second.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use relive_engine::Engine;
use serde_json::Value;

use super::Monitor;
use super::view::View;

/// The table with the plan as its only item: an identity, and the plan as JSON, both as bytes.
pub(super) const TABLE: &str = "plan";
const COLUMN: usize = 1;

/// The largest plan that is shown. An agent's plan usually has a few kilobytes.
const MAX_BYTES: u64 = 1 << 20;

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
    let trajectory = &found.first()?.as_ref()?.item.trajectory;
    if trajectory.encoded_size_bytes() > MAX_BYTES {
        return None;
    }
    let column = trajectory.decode_column(COLUMN).ok()?;
    let plan = serde_json::from_slice(&column.to_vec::<u8>().ok()?).ok()?;
    let written = Duration::from_nanos(u64::try_from(page.items.first()?.data.inserted_at.as_nanos()).ok()?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(aged(plan, now.saturating_sub(written)))
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
    use serde_json::json;

    use super::*;

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
