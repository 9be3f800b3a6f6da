//! `/healthz` and `/readyz`.

use axum::extract::State;
use http::StatusCode;

use super::router::View;
use super::state::Phase;

/// The process lives and answers.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether clients are served: not while a checkpoint is loaded, and not once the server stops.
pub(super) async fn readyz(State(view): State<View>) -> (StatusCode, String) {
    let phase = view.monitor.phase();
    let code = if phase == Phase::Serving { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, format!("{}\n", phase.text()))
}
