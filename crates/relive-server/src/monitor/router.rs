//! Maps paths to handlers.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::StatusCode;

use super::history::History;
use super::state::{Monitor, Phase};
use super::view::View;
use super::{events, histogram, metrics, plan, resources};

pub(super) fn router(monitor: &Monitor, history: &Arc<History>) -> Router {
    let view = View { monitor: monitor.clone(), history: Arc::clone(history), share: Arc::default() };
    Router::new()
        .route("/", get(resources::page))
        .route("/dashboard.css", get(resources::style))
        .route("/{script}", get(resources::script))
        .route("/metrics", get(metrics::metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/events", get(events::events))
        .route("/histograms", get(histogram::histograms))
        .route("/plan", get(plan::plan))
        .with_state(view)
}

/// Responds that the process is alive.
async fn healthz() -> &'static str {
    "ok\n"
}

/// Returns whether clients are served. Clients are not served while a checkpoint is being loaded, or after the server
/// has begun to stop.
async fn readyz(State(view): State<View>) -> (StatusCode, String) {
    let phase = view.monitor.phase();
    let code = if phase == Phase::Serving { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, format!("{}\n", phase.text()))
}
