//! Manifests for Kubernetes.

use std::fmt::Write as _;

use super::error::{LaunchError, Result};
use super::job::{Job, TOKEN_VARIABLE, Task, Word};
use super::launcher::{File, Launcher, Written};

/// Writes manifests: an Indexed Job per task, a headless Service that gives the processes host names, and a Secret with
/// the token.
///
/// The failures of a process are counted over the whole job. Requires Kubernetes 1.33 or later.
#[derive(Debug, Clone)]
pub struct Kubernetes {
    /// The container image, which contains the programs of the commands.
    pub image: String,
}

/// The user id of the containers: an arbitrary id other than root's.
const USER: u32 = 65_532;

impl Launcher for Kubernetes {
    fn write(&self, job: &Job) -> Result<Written> {
        job.validate()?;
        if self.image.trim().is_empty() || self.image.contains(char::is_whitespace) {
            let actual = format_args!("{:?}", self.image);
            return Err(LaunchError::job("the container image", actual, "a name without spaces"));
        }
        let name = &job.name;
        let file = format!("{name}.yaml");
        let last = job.tasks.last().map_or(name.as_str(), |task| task.name.as_str());
        let resize = format!(
            "kubectl patch job {name}-{last} -p '{{\"spec\":{{\"completions\":COUNT,\"parallelism\":COUNT}}}}'"
        );
        Ok(Written {
            files: vec![File {
                name: file.clone(),
                content: self.manifests(job),
                is_secret: job.token.is_some(),
            }],
            start: vec![format!("kubectl apply -f {file}")],
            watch: Some(format!("kubectl get pods -l app.kubernetes.io/instance={name} --watch")),
            stop: Some(format!("kubectl delete -f {file}")),
            resize: Some(resize),
        })
    }
}

impl Kubernetes {
    fn manifests(&self, job: &Job) -> String {
        let mut objects: Vec<String> = job.token.iter().map(|token| secret(job, token)).collect();
        objects.push(service(job));
        objects.extend(job.tasks.iter().map(|task| self.indexed_job(job, task)));
        objects.join("---\n")
    }

    fn indexed_job(&self, job: &Job, task: &Task) -> String {
        let (labels, name, count) = (labels(job), format!("{}-{}", job.name, task.name), task.count);
        let (most, service, task_name) = (job.restart.most, &job.name, &task.name);
        let (image, command) = (text(&self.image), command(job, task));
        let (variables, resources) = (variables(job), resources(task));
        format!(
            r"apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  labels: {labels}
spec:
  completionMode: Indexed
  completions: {count}
  parallelism: {count}
  backoffLimitPerIndex: {most}
  template:
    metadata:
      labels: {labels}
    spec:
      # With the Service it makes the name of each pod's host: {name}-INDEX.{service}.
      subdomain: {service}
      restartPolicy: Never
      automountServiceAccountToken: false
      securityContext:
        runAsNonRoot: true
        runAsUser: {USER}
        runAsGroup: {USER}
        fsGroup: {USER}
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: {task_name}
          image: {image}
          command: {command}
          env:{variables}
          resources:{resources}
          securityContext:
            allowPrivilegeEscalation: false
            capabilities:
              drop: [ALL]
"
        )
    }
}

fn labels(job: &Job) -> String {
    format!("{{app.kubernetes.io/name: relive, app.kubernetes.io/instance: {}}}", job.name)
}

fn secret(job: &Job, token: &str) -> String {
    let (name, labels, token) = (&job.name, labels(job), text(token));
    format!(
        r"apiVersion: v1
kind: Secret
metadata:
  name: {name}
  labels: {labels}
stringData:
  token: {token}
"
    )
}

/// A pod's host name can be resolved before the pod is ready, so that the pod is reachable as soon as it listens.
fn service(job: &Job) -> String {
    let (name, labels) = (&job.name, labels(job));
    format!(
        r"apiVersion: v1
kind: Service
metadata:
  name: {name}
  labels: {labels}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {labels}
"
    )
}

/// The command line as a list. In the list, the kubelet expands `$(NAME)`, and replaces `$$(` with `$(`.
fn command(job: &Job, task: &Task) -> String {
    let plain = |words: &str| words.replace("$(", "$$(");
    let words = task.command.iter().map(|word| match word {
        Word::Text(words) => plain(words),
        Word::Number => "$(JOB_COMPLETION_INDEX)".to_owned(),
        Word::HostOf(other, after) => format!("{}-{other}-0.{}{}", job.name, job.name, plain(after)),
    });
    let words: Vec<String> = words.map(|word| text(&word)).collect();
    format!("[{}]", words.join(", "))
}

fn variables(job: &Job) -> String {
    let mut all = String::new();
    for (name, value) in job.variables() {
        // Writing to a string cannot fail.
        let _ = write!(
            all,
            "\n            - name: {name}\n              value: {}",
            text(&value.replace("$(", "$$("))
        );
    }
    if job.token.is_some() {
        let _ = write!(
            all,
            "\n            - name: {TOKEN_VARIABLE}\n              valueFrom:\n                secretKeyRef: {{name: {}, key: token}}",
            job.name
        );
    }
    if all.is_empty() { " []".to_owned() } else { all }
}

fn resources(task: &Task) -> String {
    let asked = task.resources;
    let (mut requests, mut limits) = (format!("cpu: {}", text(&asked.cpus.to_string())), Vec::new());
    if let Some(bytes) = asked.memory_bytes {
        let memory = format!("memory: {}", text(&bytes.to_string()));
        let _ = write!(requests, ", {memory}");
        limits.push(memory);
    }
    if asked.gpus > 0 {
        limits.push(format!("nvidia.com/gpu: {}", text(&asked.gpus.to_string())));
    }
    let mut all = format!("\n            requests: {{{requests}}}");
    if !limits.is_empty() {
        let _ = write!(all, "\n            limits: {{{}}}", limits.join(", "));
    }
    all
}

/// Returns a text as a double-quoted scalar, for which YAML and JSON have the same syntax.
fn text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            other if other.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(other))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
