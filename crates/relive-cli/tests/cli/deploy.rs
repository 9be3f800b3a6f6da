//! Tests that the program accepts the files under `deploy/`, and that the tools for which they are written also accept
//! them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use yaml_rust2::{Yaml, YamlLoader};

use crate::http::{PATIENCE, get, serve_with_http};
use crate::support::{file, outcome};

const PROGRAM: &str = "/usr/local/bin/relive";

fn deployed(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the objects of the manifest by kind.
fn manifest() -> HashMap<String, Yaml> {
    let objects = YamlLoader::load_from_str(&deployed("kubernetes/relive.yaml")).unwrap();
    let named = |object: Yaml| (object["kind"].as_str().unwrap().to_owned(), object);
    objects.into_iter().map(named).collect()
}

fn texts(list: &Yaml) -> Vec<String> {
    list.as_vec().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn find<'y>(list: &'y Yaml, name: &str) -> &'y Yaml {
    list.as_vec().unwrap().iter().find(|one| one["name"].as_str() == Some(name)).expect(name)
}

fn container(set: &Yaml) -> &Yaml {
    find(&set["spec"]["template"]["spec"]["containers"], "relive")
}

fn after<'a>(args: &'a [String], option: &str) -> &'a str {
    let at = args.iter().position(|arg| arg == option).expect(option);
    &args[at + 1]
}

/// Checks that the program accepts the arguments: with `--help`, unknown arguments and invalid values are still errors.
fn assert_understood(args: &[String]) {
    let mut all: Vec<&str> = args.iter().map(String::as_str).collect();
    all.push("--help");
    let (code, stdout, stderr) = outcome(&all);
    assert_eq!(code, Some(0), "{args:?}: {stderr}");
    assert!(stdout.contains("--checkpoint-dir"), "{stdout}");
}

#[test]
fn the_test_detects_unknown_arguments() {
    let (code, ..) = outcome(&["serve", "--checkpoint-evry", "10m", "--help"]);
    assert_eq!(code, Some(2));
}

#[test]
fn the_stateful_set_runs_a_server_that_answers_its_probes() {
    let objects = manifest();
    let container = container(&objects["StatefulSet"]);
    let args = texts(&container["args"]);
    assert_understood(&args);
    let port_of = |name: &str| find(&container["ports"], name)["containerPort"].as_i64().unwrap().to_string();
    assert_eq!(after(&args, "--port"), port_of("grpc"));
    assert_eq!(after(&args, "--http"), format!("0.0.0.0:{}", port_of("http")));
    let mounts = container["volumeMounts"].as_vec().unwrap();
    let is_mounted =
        |path: &str| mounts.iter().any(|mount| path.starts_with(mount["mountPath"].as_str().unwrap()));
    assert!(is_mounted(after(&args, "--config")) && is_mounted(after(&args, "--checkpoint-dir")));
    // The server is started with the same arguments, except for ports and paths, which are adapted to this machine.
    let tables = objects["ConfigMap"]["data"]["replay.toml"].as_str().unwrap();
    assert_eq!(Path::new(after(&args, "--config")).file_name().unwrap(), "replay.toml");
    let folder = tempfile::tempdir().unwrap();
    let (checkpoints, tables) = (folder.path().join("checkpoints"), file(".toml", tables));
    let mine = HashMap::from([
        ("--config", tables.to_str().unwrap()),
        ("--bind", "127.0.0.1"),
        ("--port", "0"),
        ("--http", "127.0.0.1:0"),
        ("--checkpoint-dir", checkpoints.to_str().unwrap()),
        ("--log-format", "text"),
    ]);
    let mut changed = args.clone();
    for (option, value) in mine {
        let at = args.iter().position(|arg| arg == option).unwrap();
        value.clone_into(&mut changed[at + 1]);
    }
    let (_served, http) = serve_with_http(&changed.iter().map(String::as_str).collect::<Vec<_>>());
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let wanted = &container[probe]["httpGet"];
        assert_eq!(wanted["port"].as_str(), Some("http"), "{probe}");
        let look = || get(&http, wanted["path"].as_str().unwrap()).0;
        let (mut head, since) = (look(), Instant::now());
        // A server is ready shortly after it starts to listen, and a probe is repeated.
        while head.starts_with("http/1.1 503") && since.elapsed() < PATIENCE {
            head = look();
        }
        assert!(head.starts_with("http/1.1 200"), "{probe}: {head}");
    }
}

#[test]
fn kubernetes_objects_are_consistent() {
    let objects = manifest();
    let set = &objects["StatefulSet"]["spec"];
    let labels = &set["template"]["metadata"]["labels"];
    let service = &objects["Service"];
    assert_eq!(&set["selector"]["matchLabels"], labels);
    assert_eq!(&service["spec"]["selector"], labels);
    assert_eq!(&objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"], labels);
    assert_eq!(set["serviceName"], service["metadata"]["name"]);
    assert_eq!(service["spec"]["clusterIP"].as_str(), Some("None"), "a name with the address of each server");
    for port in service["spec"]["ports"].as_vec().unwrap() {
        let target = find(&container(&objects["StatefulSet"])["ports"], port["targetPort"].as_str().unwrap());
        assert_eq!(port["port"], target["containerPort"]);
    }
    let volumes = set["template"]["spec"]["volumes"].as_vec().unwrap().iter().map(|volume| &volume["name"]);
    let claims = set["volumeClaimTemplates"].as_vec().unwrap().iter().map(|claim| &claim["metadata"]["name"]);
    let known: Vec<&Yaml> = volumes.chain(claims).collect();
    for mount in container(&objects["StatefulSet"])["volumeMounts"].as_vec().unwrap() {
        assert!(known.contains(&&mount["name"]), "{mount:?}");
    }
    assert_eq!(
        find(&set["template"]["spec"]["volumes"], "config")["configMap"]["name"],
        objects["ConfigMap"]["metadata"]["name"]
    );
}

/// Returns the arguments of the unit's command.
fn unit_args(unit: &str) -> Vec<String> {
    let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let mut words = command.split_whitespace();
    assert_eq!(words.next(), Some(PROGRAM));
    words.map(str::to_owned).collect()
}

#[test]
fn the_systemd_unit_starts_the_program_with_valid_arguments() {
    let unit = deployed("systemd/relive.service");
    let args = unit_args(&unit);
    assert_understood(&args);
    let state = unit.lines().find_map(|line| line.strip_prefix("StateDirectory=")).unwrap();
    assert!(after(&args, "--checkpoint-dir").starts_with(&format!("/var/lib/{state}/")));
}

/// Returns whether a program with the given name is installed.
fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[test]
fn systemd_accepts_the_unit() {
    if !has("systemd-analyze") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("relive.service");
    fs::write(&path, deployed("systemd/relive.service").replace(PROGRAM, env!("CARGO_BIN_EXE_relive")))
        .unwrap();
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    // The output also mentions other units of the machine.
    let ours: Vec<&str> = text.lines().filter(|line| line.contains("relive.service")).collect();
    assert!(ours.is_empty(), "{ours:#?}");
}

#[test]
fn the_docker_image_starts_the_program_with_valid_arguments() {
    let file = deployed("docker/Dockerfile");
    let list = |keyword: &str| {
        let line = file.lines().find_map(|line| line.strip_prefix(keyword)).unwrap();
        texts(&YamlLoader::load_from_str(line).unwrap()[0])
    };
    assert_eq!(list("ENTRYPOINT "), [PROGRAM]);
    let args = list("CMD ");
    assert_understood(&args);
    assert!(file.contains(&format!(
        "VOLUME {}",
        Path::new(after(&args, "--checkpoint-dir")).parent().unwrap().display()
    )));
    let copied = file.lines().find(|line| line.ends_with(after(&args, "--config"))).unwrap();
    let source = copied.split_whitespace().nth(1).unwrap();
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(source).exists(), "{copied}");
    let rust = file.lines().find_map(|line| line.strip_prefix("FROM rust:")).unwrap();
    assert!(rust.starts_with(env!("CARGO_PKG_RUST_VERSION")), "{rust}");
}
