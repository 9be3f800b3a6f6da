//! The whole page, and the metrics of every process.

use axum::extract::State;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue};

use super::{run, server, tables};
use crate::monitor::{
    overview::{Overview, unix_seconds},
    plan,
    prometheus::{self, Page},
    state::Phase,
    view::View,
};

pub(in crate::monitor) async fn metrics(
    State(view): State<View>,
) -> ([(HeaderName, HeaderValue); 1], String) {
    let plan = plan::of(&view.monitor).await;
    let text = render(&Overview::at(&view.monitor), plan.as_ref());
    ([(CONTENT_TYPE, HeaderValue::from_static(prometheus::CONTENT_TYPE))], text)
}

fn render(overview: &Overview, plan: Option<&serde_json::Value>) -> String {
    let mut page = Page::default();
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    page.gauge("relive_build_info", "Always 1; the label has the version.").with(&version, 1_u64);
    page.gauge("relive_ready", "Whether the server serves clients.").is(overview.phase == Phase::Serving);
    process(&mut page, overview);
    if let Some(server) = &overview.server {
        server::put(&mut page, server, unix_seconds(overview.at));
        tables::put(&mut page, &server.tables);
    }
    if let Some(plan) = plan {
        run::put(&mut page, plan);
    }
    page.into_text()
}

/// Writes the metrics of the process, under the names that Prometheus' own libraries use.
fn process(page: &mut Page, overview: &Overview) {
    let process = &overview.process;
    let begun = unix_seconds(overview.started);
    page.gauge("process_start_time_seconds", "Start time of the server, since 1970.").is(begun);
    page.gauge("process_resident_memory_bytes", "Resident memory of the process.")
        .maybe(process.resident_bytes);
    page.counter("process_cpu_seconds_total", "CPU time of all threads.").maybe(process.cpu_seconds);
    page.gauge("process_open_fds", "Open files and sockets.").maybe(process.open_files);
    page.gauge("process_max_fds", "Limit of open files and sockets.").maybe(process.max_files);
}

#[cfg(test)]
mod tests {
    use relive_engine::Engine;
    use relive_table::{TableChange, TableConfig};
    use tokio::sync::watch;

    use super::*;
    use crate::monitor::Monitor;
    use crate::services::{LocalSocket, Services};

    fn text(engine: &Engine) -> String {
        let monitor = Monitor::new();
        let (_stop, stopping) = watch::channel(false);
        monitor.begin(Services::new(engine.clone(), LocalSocket::default(), stopping, 1_000));
        render(&Overview::at(&monitor), None)
    }

    #[test]
    fn metrics_before_startup_describe_the_process() {
        let text = render(&Overview::at(&Monitor::new()), None);
        assert!(
            text.contains("\nrelive_ready 0\n") && text.contains("\nprocess_start_time_seconds 1"),
            "{text}"
        );
        assert!(!text.contains("relive_table"), "{text}");
    }

    #[test]
    fn metrics_cover_every_table() {
        let queue = TableConfig::queue("a \"queue\"", 5).max_bytes(1_000);
        let engine = Engine::builder().table(queue).table(TableConfig::new("b")).build().unwrap();
        engine.change_table("b", &TableChange::new().pause_samples(true), &"me".into()).unwrap();
        let text = text(&engine);
        for line in [
            "relive_ready 1",
            "relive_connections 0",
            "relive_connections_refused_total 0",
            "relive_in_flight_bytes 0",
            "relive_in_flight_max_bytes 1000",
            "relive_streams{kind=\"insert\"} 0",
            "relive_table_items{table=\"b\"} 0",
            "relive_table_max_items{table=\"a \\\"queue\\\"\"} 5",
            "relive_table_max_bytes{table=\"a \\\"queue\\\"\"} 1000",
            "relive_inserts_total{table=\"b\"} 0",
            "relive_limiter_max_diff{table=\"a \\\"queue\\\"\"} 5",
            "relive_limiter_max_diff{table=\"b\"} +Inf",
            "relive_table_paused{table=\"b\",operation=\"sample\"} 1",
            "relive_table_paused{table=\"b\",operation=\"insert\"} 0",
            "relive_checkpoints_total{outcome=\"failed\"} 0",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
        }
        assert!(!text.contains("relive_table_max_bytes{table=\"b\"}"), "it has no such bound");
    }

    #[test]
    fn each_metric_is_one_group_and_has_a_unit() {
        let engine = Engine::builder().table(TableConfig::new("t")).build().unwrap();
        let text = text(&engine);
        let names: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        let mut once = names.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), names.len(), "{names:?}");
        for sample in text.lines().filter(|line| !line.starts_with('#')) {
            let name = sample.split(['{', ' ']).next().unwrap();
            assert!(names.contains(&name), "{sample}");
            let value = sample.rsplit(' ').next().unwrap();
            assert!(matches!(value, "+Inf" | "-Inf") || value.parse::<f64>().is_ok(), "{sample}");
        }
    }
}
