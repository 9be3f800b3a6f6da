//! The dashboard's files, which are embedded in the program.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, StatusCode};

/// The page loads nothing from other hosts, runs only these scripts, and cannot be framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const SCRIPTS: [(&str, &str); 6] = [
    ("dashboard.js", include_str!("page/dashboard.js")),
    ("charts.js", include_str!("page/charts.js")),
    ("limiter.js", include_str!("page/limiter.js")),
    ("plan.js", include_str!("page/plan.js")),
    ("table.js", include_str!("page/table.js")),
    ("format.js", include_str!("page/format.js")),
];

pub(super) async fn page() -> Response {
    file("text/html; charset=utf-8", include_str!("page/index.html"))
}

pub(super) async fn style() -> Response {
    file("text/css; charset=utf-8", include_str!("page/dashboard.css"))
}

pub(super) async fn script(Path(name): Path<String>) -> Response {
    match SCRIPTS.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => file("text/javascript; charset=utf-8", text),
        None => (StatusCode::NOT_FOUND, "there is no such page\n").into_response(),
    }
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, kind),
        // Browsers must revalidate the files before each use, because the page and its scripts must match, and a newer
        // server may have different versions of them.
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    (headers, text).into_response()
}
