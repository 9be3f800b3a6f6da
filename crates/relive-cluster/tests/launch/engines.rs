//! Runs written jobs as people and cluster managers do, to the extent that this is possible without a cluster.

use std::path::Path;
use std::process::Command;

use relive_cluster::launch::{Job, Kubernetes, Launcher, Manual, Resources, Slurm, Task, Word, Written};
use yaml_rust2::{Yaml, YamlLoader};

/// Replacements for Slurm's commands on this machine.
const SLURM: &str = r#"
srun() {
  while [[ $1 == --* ]]; do shift; done
  local number
  for number in 0 1 2; do SLURM_PROCID=$number "$@" & done
  wait
}
scontrol() { echo node7; }
"#;

fn bash(script: &str, folder: &Path) {
    let output = Command::new("bash").args(["-c", script]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs each line in a shell.
pub(crate) fn run_by_hand(folder: &Path, written: &Written) {
    assert!(written.files.is_empty() && written.watch.is_none() && written.stop.is_none());
    written.start.iter().for_each(|line| bash(line, folder));
}

/// Runs the script with the replacements for Slurm's commands.
pub(crate) fn run_as_slurm(folder: &Path, written: &Written) {
    for file in &written.files {
        std::fs::write(folder.join(&file.name), &file.content).unwrap();
        assert_eq!(file.is_secret, file.content.contains("open-sesame"));
    }
    assert_eq!(written.start, ["sbatch try.sbatch"]);
    bash("bash -n try.sbatch", folder);
    bash(&format!("{SLURM}\n. ./try.sbatch"), folder);
}

/// Runs each container's command as the kubelet does.
pub(crate) fn run_as_kubernetes(folder: &Path, written: &Written) {
    assert_eq!(written.start, ["kubectl apply -f try.yaml"]);
    let objects = YamlLoader::load_from_str(&written.files[0].content).unwrap();
    let of_kind =
        |kind: &str| objects.iter().find(|object| object["kind"].as_str() == Some(kind)).expect(kind);
    let (job, secret) = (&of_kind("Job")["spec"], &of_kind("Secret")["stringData"]);
    let container = &job["template"]["spec"]["containers"][0];
    for index in 0..job["completions"].as_i64().unwrap() {
        let expanded = |word: &str| {
            let word = word.replace("$$(", "\u{1}").replace("$(JOB_COMPLETION_INDEX)", &index.to_string());
            word.replace('\u{1}', "$(")
        };
        let words: Vec<String> = texts(&container["command"]).iter().map(|word| expanded(word)).collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(folder);
        for variable in container["env"].as_vec().unwrap() {
            let key = variable["valueFrom"]["secretKeyRef"]["key"].as_str();
            let value = key.map_or_else(
                || expanded(variable["value"].as_str().unwrap()),
                |key| secret[key].as_str().unwrap().to_owned(),
            );
            command.env(variable["name"].as_str().unwrap(), value);
        }
        assert!(command.status().unwrap().success());
    }
}

fn texts(list: &Yaml) -> Vec<String> {
    list.as_vec().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Returns a learner with a GPU, and workers that join it.
fn run() -> Job {
    let learner = ["relive", "rl", "train", "impala", "--env", "CartPole-v1", "--listen", "0.0.0.0:7000"];
    let join = Word::HostOf("learner".to_owned(), ":7000".to_owned());
    let worker = ["relive", "rl", "worker", "--join"].map(Word::from).into_iter();
    let worker = worker.chain([join, Word::from("--number"), Word::Number]);
    let mut learner = Task::one("learner", learner);
    learner.resources = Resources { cpus: 4, gpus: 1, memory_bytes: Some(8 << 30) };
    let mut job = Job::new("impala", [learner, Task::one("workers", worker).times(16)]);
    job.token = Some("open-sesame".to_owned());
    job
}

#[test]
fn the_slurm_script_matches_the_reviewed_file() {
    let files = Slurm.write(&run()).unwrap().files;
    assert_eq!(files[0].content, include_str!("golden/impala.sbatch"));
    assert_eq!((files[1].name.as_str(), files[1].content.as_str()), ("impala.token", "open-sesame\n"));
}

#[test]
fn kubernetes_manifests_match_the_reviewed_file() {
    let written = Kubernetes { image: "relive:0.1.0".to_owned() }.write(&run()).unwrap();
    assert_eq!(written.files[0].content, include_str!("golden/impala.yaml"));
    let objects = YamlLoader::load_from_str(&written.files[0].content).unwrap();
    let kinds: Vec<_> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Secret", "Service", "Job", "Job"]);
    assert!(written.resize.unwrap().starts_with("kubectl patch job impala-workers "));
}

#[test]
fn an_unassigned_host_is_refused() {
    let error = Manual.write(&run()).err().unwrap().to_string();
    assert!(error.starts_with("the address in workers's command is that of another task"), "{error}");
}

#[test]
fn a_manifest_needs_an_image() {
    let error = Kubernetes { image: String::new() }.write(&run()).err().unwrap().to_string();
    assert_eq!(error, "the container image is \"\", but it must be a name without spaces");
}
