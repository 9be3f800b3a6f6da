//! Paths to what is shown.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use super::history::History;
use super::{Monitor, events, health, histogram, metrics, plan, resources};

/// What handlers share.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) monitor: Monitor,
    pub(super) history: Arc<History>,
    pub(super) share: Arc<events::Share>,
}

pub(super) fn router(monitor: &Monitor, history: &Arc<History>) -> Router {
    let view = View { monitor: monitor.clone(), history: Arc::clone(history), share: Arc::default() };
    Router::new()
        .route("/", get(resources::page))
        .route("/dashboard.css", get(resources::style))
        .route("/{script}", get(resources::script))
        .route("/metrics", get(metrics::metrics))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/events", get(events::events))
        .route("/histograms", get(histogram::histograms))
        .route("/plan", get(plan::plan))
        .with_state(view)
}
