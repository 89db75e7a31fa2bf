//! Bad input, and servers that do not do what is asked: every command says what is wrong and what to do.

use std::process::Command;

use serde_json::{Value, json};
use trellis_runtime::Resource;

use crate::stage::{CONTROL, Lab, POOLS, Said, pool};

const SETS: Resource = Resource::namespaced("machine.openshift.io", "v1beta1", "machinesets", "MachineSet");

/// Every command, as somebody would type it.
const COMMANDS: [&[&str]; 10] = [
    &["get", "machines"],
    &["get", "pools"],
    &["get", "clusters"],
    &["scale", "workers", "--replicas", "1"],
    &["rollout", "status", "workers"],
    &["rollout", "pause", "workers"],
    &["rollout", "resume", "workers"],
    &["rollout", "undo", "workers"],
    &["rollout", "history", "workers"],
    &["drain", "machine/w1"],
];

fn bare(args: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trellis"));
    command.args(args).env_remove("KUBECONFIG").env("HOME", "/nonexistent");
    Said::of(&command.output().unwrap())
}

#[test]
fn wrong_arguments_are_refused_by_every_command() {
    let cases: [&[&str]; 17] = [
        &["get"],
        &["get", "things"],
        &["get", "machines", "-A", "-n", "x"],
        &["get", "machines", "--family", "capi"],
        &["scale"],
        &["scale", "workers"],
        &["scale", "workers", "--replicas", "-1"],
        &["scale", "workers", "--replicas", "many"],
        &["scale", "machinepol/workers", "--replicas", "1"],
        &["scale", "workers", "--replicas", "1", "--timeout", "5m"],
        &["scale", "workers", "--replicas", "1", "--wait", "--timeout", "soon"],
        &["rollout"],
        &["rollout", "status"],
        &["rollout", "undo", "workers", "--to-revision", "0"],
        &["drain"],
        &["drain", "n1", "--host", "h1"],
        &["uncordon"],
    ];
    for case in cases {
        let said = bare(case);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{case:?}: {said:?}");
        assert!(said.err.contains("error:") || said.err.contains("Usage:"), "{case:?}: {said:?}");
    }
}

#[test]
fn without_a_kubeconfig_it_is_said_where_one_is_looked_for() {
    for case in COMMANDS {
        let said = bare(case).refused(2);
        assert!(said.contains("--kubeconfig or KUBECONFIG"), "{case:?}: {said}");
        let mut args = case.to_vec();
        args.extend(["--kubeconfig", "/nowhere/config"]);
        assert_eq!(bare(&args).refused(4), "error: cannot read /nowhere/config: entity not found\n");
    }
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    std::fs::write(
        &file,
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: {cluster: k, user: u}\n\
         clusters:\n- name: k\n  cluster: {server: 'https://127.0.0.1:1'}\nusers:\n- name: u\n  user: {token: hunter2}\n",
    )
    .unwrap();
    for case in COMMANDS {
        let mut args = case.to_vec();
        args.extend(["--kubeconfig", file.to_str().unwrap()]);
        let said = bare(&args).refused(9);
        assert!(said.contains("https://127.0.0.1:1") && said.contains("does not answer"), "{case:?}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
        args.extend(["-o", "json"]);
        let said: Value = serde_json::from_str(&bare(&args).refused(9)).unwrap();
        assert!(said["error"].as_str().unwrap().contains("does not answer"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_says_no_in_words_that_help() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "secret-of-nobody,nobody,7\n").unwrap();
    let lab =
        Lab::start(folder.path(), "lab", &["--api-only", "--token-auth-file", tokens.to_str().unwrap()])
            .await;
    lab.namespace(CONTROL).await;
    // The kinds are not there.
    for case in COMMANDS {
        let said = lab.trellis(case).refused(8);
        assert!(said.contains("kubectl apply -f docs/reference/crds"), "{case:?}: {said}");
    }
    lab.install().await;
    // There is nothing.
    let empty = lab.trellis(&["get", "machines"]);
    assert_eq!(
        (empty.code, empty.out.as_str(), empty.err.as_str()),
        (0, "", "No machines in namespace machines.\n")
    );
    assert_eq!(lab.trellis(&["get", "pools", "-o", "json"]).json(), json!({"pools": []}));
    // There is something of another name, and two of the same.
    lab.site.create::<Value>(&POOLS, CONTROL, &pool("workers", 2)).await.unwrap();
    lab.site.create::<Value>(&POOLS, CONTROL, &pool("infra", 2)).await.unwrap();
    let mut masters = pool("masters", 3);
    masters["spec"]["role"] = "control-plane".into();
    lab.site.create::<Value>(&POOLS, CONTROL, &masters).await.unwrap();
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"providerSpec": {"value": {}}}});
    let set = json!({"metadata": {"name": "infra"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template,
    }});
    lab.site.create::<Value>(&SETS, CONTROL, &set).await.unwrap();
    for case in &COMMANDS[3..9] {
        let typed: Vec<&str> =
            case.iter().map(|word| if *word == "workers" { "worker" } else { word }).collect();
        let said = lab.trellis(&typed).refused(8);
        assert!(
            said.contains("no pool worker in namespace machines; did you mean workers?"),
            "{typed:?}: {said}"
        );
        let typed: Vec<&str> =
            case.iter().map(|word| if *word == "workers" { "infra" } else { word }).collect();
        let said = lab.trellis(&typed).refused(2);
        assert!(
            said.contains("machineset/infra (openshift), machinepool/infra (trellis)"),
            "{typed:?}: {said}"
        );
    }
    let said = lab.trellis(&["get", "pools", "worker"]).refused(8);
    assert!(said.contains("did you mean workers?"), "{said}");
    let said = lab.trellis(&["drain", "w1"]).refused(8);
    assert!(said.contains("there is no Node w1, and there is no Machine w1"), "{said}");
    let said = lab.trellis(&["drain", "pod/w1"]).refused(2);
    assert!(said.contains("cannot be drained"), "{said}");
    // What makes no sense is refused, with what would.
    let said = lab.trellis(&["rollout", "status", "machineset/infra"]).refused(5);
    assert!(said.contains("holds for new machines only") && said.contains("trellis get machines"), "{said}");
    let said = lab.trellis(&["scale", "masters", "--replicas", "0"]).refused(5);
    assert!(said.contains("is a control plane"), "{said}");
    let even = lab.trellis(&["scale", "masters", "--replicas", "4"]);
    assert!(even.err.contains("an odd number is better") && even.code == 0, "{even:?}");
    let said = lab.trellis(&["scale", "workers", "--replicas", "5", "--current-replicas", "3"]).refused(5);
    assert!(said.contains("is to have 2 machines, not 3: nothing was changed"), "{said}");
    let said = lab.trellis(&["rollout", "undo", "workers"]).refused(5);
    assert!(said.contains("has no revisions yet"), "{said}");
    // Nobody looks after it: the time passes, and the last reason is said.
    let said = lab.trellis(&["rollout", "status", "workers", "--timeout", "1s"]).refused(11);
    assert!(said.contains("not as wished after 1 s: no controller has looked at it yet"), "{said}");
    // Somebody without rights is told which one is missing.
    let text = std::fs::read_to_string(&lab.kubeconfig).unwrap();
    let file = folder.path().join("nobody");
    std::fs::write(&file, of_nobody(&text)).unwrap();
    for case in COMMANDS {
        let mut args = case.to_vec();
        args.extend(["-n", CONTROL, "--kubeconfig", file.to_str().unwrap()]);
        let said = bare(&args).refused(10);
        assert!(
            said.contains("you may not list ") && said.contains("with the verb `list`"),
            "{case:?}: {said}"
        );
        assert!(!said.contains("secret-of-nobody"), "{said}");
    }
}

/// The same server for somebody who may do nothing.
fn of_nobody(kubeconfig: &str) -> String {
    let server = kubeconfig.lines().find(|line| line.trim().starts_with("server:")).unwrap().trim();
    let authority = kubeconfig
        .lines()
        .find(|line| line.trim().starts_with("certificate-authority-data:"))
        .unwrap()
        .trim();
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context:\n    cluster: k\n    user: u\n\
         clusters:\n- name: k\n  cluster:\n    {server}\n    {authority}\nusers:\n- name: u\n  user:\n    token: secret-of-nobody\n"
    )
}
