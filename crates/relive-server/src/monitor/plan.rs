//! `/plan`: the plan and the workers of the run that owns the server's tables. The run writes both into a table every
//! second.

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
    serde_json::from_slice(&column.to_vec::<u8>().ok()?).ok()
}
