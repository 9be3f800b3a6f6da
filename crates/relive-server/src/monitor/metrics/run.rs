//! The metrics of the agent run that owns the server's tables, as reported by the run itself: totals, operators,
//! workers and nodes.

use serde_json::Value as Json;

use crate::monitor::prometheus::{Family, Page, Value};

/// Adds the metrics of a run's plan.
pub(super) fn put(page: &mut Page, plan: &Json) {
    whole(page, plan);
    operators(page, list(plan, "operators"));
    workers(page, plan);
    nodes(page, list(plan, "nodes"));
}

fn whole(page: &mut Page, plan: &Json) {
    let [agent, environment, phase] = ["agent", "environment", "phase"].map(|field| text(plan, field));
    let labels = [("agent", &agent[..]), ("environment", &environment), ("phase", &phase)];
    page.gauge("relive_run_info", "Always 1; the labels describe the run.").with(&labels, 1_u64);
    let steps = count(plan, "env_steps");
    page.counter("relive_run_env_steps_total", "Steps in the environment, of all workers.").maybe(steps);
    let steps = count(plan, "learner_steps");
    page.counter("relive_run_learner_steps_total", "Steps of the learner.").maybe(steps);
    let lag = count(plan, "version_lag");
    page.gauge(
        "relive_run_version_lag",
        "Gradient steps by which the weights of the last rollout are behind the newest.",
    )
    .maybe(lag);
    let workers = count(plan, "workers_in_all");
    page.gauge("relive_run_workers", "Workers that have acted.").maybe(workers);
    let mut family = page
        .counter("relive_run_part_seconds_total", "Time spent in each part of the work, over all processes.");
    for (part, seconds) in plan.get("time_by_part").and_then(Json::as_object).into_iter().flatten() {
        if let Some(seconds) = seconds.as_f64() {
            family.with(&[("part", part)], seconds);
        }
    }
}

/// Names of operators are not unique, so their numbers identify them.
fn operators(page: &mut Page, operators: &[Json]) {
    let labeled: Vec<_> = operators
        .iter()
        .zip(0..)
        .map(|(one, number)| (one, text(one, "name"), u64::to_string(&number)))
        .collect();
    let put = |family: &mut Family<'_>, field: &str| {
        for (one, name, number) in &labeled {
            if let Some(value) = one.get(field).and_then(Json::as_f64) {
                family.with(&[("operator", name), ("number", number)], value);
            }
        }
    };
    put(
        &mut page
            .counter("relive_run_operator_items_total", "Items that an operator of the plan has yielded."),
        "items",
    );
    put(
        &mut page.counter("relive_run_operator_bytes_total", "Bytes of these items, if they are measured."),
        "bytes",
    );
    put(&mut page.counter("relive_run_operator_errors_total", "Errors of an operator."), "errors");
    put(
        &mut page
            .gauge("relive_run_operator_queued", "Items that an operator holds until they are requested."),
        "queued",
    );
    put(
        &mut page
            .gauge("relive_run_operator_wait_seconds", "How long an operator has been waiting for an item."),
        "waits_s",
    );
}

fn workers(page: &mut Page, plan: &Json) {
    let nodes = list(plan, "nodes");
    let labeled: Vec<_> = list(plan, "workers")
        .iter()
        .filter_map(|one| {
            let number = one.get("worker").and_then(Json::as_u64)?;
            let node = nodes
                .iter()
                .find(|node| list(node, "places").iter().any(|worker| worker.as_u64() == Some(number)));
            Some((one, number.to_string(), node.map(|node| text(node, "name"))))
        })
        .collect();
    let put = |family: &mut Family<'_>, field: &str| {
        for (one, number, node) in &labeled {
            let labels = [("worker", &number[..]), ("node", node.as_deref().unwrap_or_default())];
            let known = if node.is_some() { 2 } else { 1 };
            if let Some(value) = one.get(field).and_then(Json::as_f64) {
                family.with(&labels[..known], value);
            }
        }
    };
    put(
        &mut page.counter("relive_run_worker_env_steps_total", "Steps of a worker in its environments."),
        "env_steps",
    );
    put(&mut page.counter("relive_run_worker_episodes_total", "Complete episodes of a worker."), "episodes");
    put(
        &mut page.counter("relive_run_worker_restarts_total", "How often a worker has rejoined the run."),
        "restarts",
    );
    put(
        &mut page.gauge(
            "relive_run_worker_weights_version",
            "Version of the weights that a worker last acted with, in gradient steps.",
        ),
        "weights_version",
    );
    put(
        &mut page.gauge(
            "relive_run_worker_version_lag",
            "Gradient steps by which a worker's weights are behind the newest.",
        ),
        "version_lag",
    );
    put(&mut page.gauge("relive_run_worker_silent_seconds", "Time since the last message."), "seen_seconds");
}

fn nodes(page: &mut Page, nodes: &[Json]) {
    let labeled: Vec<_> =
        nodes.iter().map(|node| (node, ["name", "host"].map(|field| text(node, field)))).collect();
    let mut family = page.gauge("relive_run_node_info", "Always 1; the labels have the state of a node.");
    for (node, [name, host]) in &labeled {
        family.with(&[("node", name), ("host", host), ("state", &text(node, "state"))], 1_u64);
    }
    let put = |family: &mut Family<'_>, of: &dyn Fn(&Json) -> Option<f64>| {
        for (node, [name, host]) in &labeled {
            if let Some(value) = of(node) {
                family.with(&[("node", name), ("host", host)], value);
            }
        }
    };
    let number = |field: &'static str| move |node: &Json| node.get(field).and_then(Json::as_f64);
    put(&mut page.gauge("relive_run_node_workers", "Workers of a node."), &number("workers"));
    put(
        &mut page.counter("relive_run_node_env_steps_total", "Environment steps of a node's workers."),
        &number("env_steps"),
    );
    put(
        &mut page.counter("relive_run_node_restarts_total", "Restarts of a node's workers."),
        &number("restarts"),
    );
    put(
        &mut page.gauge("relive_run_node_weights_version", "Version of a node's weights, in gradient steps."),
        &number("weights_version"),
    );
    put(
        &mut page.gauge("relive_run_node_silent_seconds", "Time since the last message."),
        &number("seen_seconds"),
    );
}

fn list<'a>(of: &'a Json, field: &str) -> &'a [Json] {
    of.get(field).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

fn text(of: &Json, field: &str) -> String {
    of.get(field).and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn count(of: &Json, field: &str) -> Option<Value> {
    of.get(field).and_then(Json::as_u64).map(Value::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operators_workers_and_nodes_have_their_own_labels() {
        let worker = |number: u64| {
            json!({"worker": number, "env_steps": 10 + number, "restarts": number, "weights_version": null,
                   "version_lag": 2, "seen_seconds": 0.5})
        };
        let plan = json!({
            "agent": "dqn", "environment": "catch/0", "phase": "running", "env_steps": 21, "learner_steps": 3,
            "version_lag": null, "time_by_part": {"act": 1.5}, "workers": [worker(0), worker(1)], "workers_in_all": 2,
            "operators": [{"name": "act", "items": 4, "bytes": null, "errors": 0, "queued": 2, "waits_s": 0.25}],
            "nodes": [{"name": "a", "host": "h", "workers": 1, "places": [1], "restarts": 1, "env_steps": 11,
                       "state": "up"}],
        });
        let mut page = Page::default();
        put(&mut page, &plan);
        let text = page.into_text();
        for line in [
            "relive_run_info{agent=\"dqn\",environment=\"catch/0\",phase=\"running\"} 1",
            "relive_run_env_steps_total 21",
            "relive_run_part_seconds_total{part=\"act\"} 1.5",
            "relive_run_operator_items_total{operator=\"act\",number=\"0\"} 4",
            "relive_run_operator_wait_seconds{operator=\"act\",number=\"0\"} 0.25",
            "relive_run_worker_env_steps_total{worker=\"0\"} 10",
            "relive_run_worker_restarts_total{worker=\"1\",node=\"a\"} 1",
            "relive_run_worker_silent_seconds{worker=\"1\",node=\"a\"} 0.5",
            "relive_run_node_info{node=\"a\",host=\"h\",state=\"up\"} 1",
            "relive_run_node_workers{node=\"a\",host=\"h\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
        }
        for absent in [
            "relive_run_version_lag ",
            "relive_run_operator_bytes_total{",
            "weights_version{",
            "node_silent_seconds{",
        ] {
            let is_there = text.lines().any(|line| !line.starts_with('#') && line.contains(absent));
            assert!(!is_there, "{absent} in\n{text}");
        }
    }

    #[test]
    fn an_invalid_plan_gives_no_metrics() {
        let mut page = Page::default();
        put(&mut page, &json!([1, "two"]));
        let text = page.into_text();
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 1, "{text}");
    }
}
