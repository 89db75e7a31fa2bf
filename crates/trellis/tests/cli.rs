//! The binary as people and scripts meet it: exit codes, what goes where, and bad input of every kind.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking"
)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn trellis(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trellis")).args(args).stdin(Stdio::null()).output().unwrap()
}

fn trellis_reading(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_trellis"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", out(output)))
}

#[test]
fn every_example_is_valid_and_converts_to_trellis_without_loss() {
    for name in ["tenant.yaml", "machinedeployment.yaml", "install-config.yaml", "shoot.yaml"] {
        let file = example(name);
        let output = trellis(&["validate", "-f", file.to_str().unwrap()]);
        assert_eq!(code(&output), 0, "{name}: {}", err(&output));
        assert!(out(&output).starts_with("valid: 1 cluster"), "{name}: {}", out(&output));
        let output = trellis(&["convert", "--to", "trellis", "--strict", "-f", file.to_str().unwrap()]);
        assert_eq!(code(&output), 0, "{name}: {}", err(&output));
        assert!(out(&output).starts_with("apiVersion: trellis.dev/v1alpha1\nkind: TenantCluster"));
    }
}

#[test]
fn a_converted_manifest_means_the_same() {
    for name in ["machinedeployment.yaml", "shoot.yaml", "install-config.yaml"] {
        let file = example(name);
        let converted = trellis(&["convert", "--to", "trellis", "-f", file.to_str().unwrap()]);
        let plan =
            trellis_reading(&["plan", "-f", "-", "--against", file.to_str().unwrap()], &converted.stdout);
        assert_eq!(out(&plan), "Nothing to do: the manifests mean the same.\n", "{name}");
    }
}

#[test]
fn rendering_is_byte_stable_whatever_the_formatting() {
    let file = example("tenant.yaml");
    let first = trellis(&["render", "-f", file.to_str().unwrap()]);
    assert_eq!(code(&first), 0, "{}", err(&first));
    assert_eq!(first.stdout, trellis(&["render", "-f", file.to_str().unwrap()]).stdout);
    let as_json = trellis(&["convert", "--to", "trellis", "--output", "json", "-f", file.to_str().unwrap()]);
    let list =
        serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": json(&as_json)["documents"] });
    let again = trellis_reading(&["render"], list.to_string().as_bytes());
    assert_eq!(out(&first), out(&again), "{}", err(&again));
}

#[test]
fn rendering_selects_and_prints_a_list_for_programs() {
    let file = example("tenant.yaml");
    let file = file.to_str().unwrap();
    let all = json(&trellis(&["render", "-o", "json", "-f", file]));
    assert_eq!(all["kind"], "List");
    let vms = |list: &Value| {
        let items = list["items"].as_array().unwrap();
        items.iter().filter(|item| item["kind"] == "VirtualMachine").count()
    };
    assert_eq!(vms(&all), 5);
    assert_eq!(vms(&json(&trellis(&["render", "-o", "json", "-f", file, "--pool", "workers"]))), 2);
    let record = |args: &[&str]| out(&trellis(args)).contains("type: trellis.dev/record");
    assert!(record(&["render", "-f", file]) && !record(&["render", "-f", file, "--no-record"]));
    let output = trellis(&["render", "-f", file, "--pool", "nope"]);
    assert_eq!(
        (code(&output), err(&output).as_str()),
        (2, "error: there is no pool nope in these manifests\n")
    );
}

#[test]
fn bad_manifests_give_every_problem_with_its_place_and_nothing_else() {
    let text = b"apiVersion: trellis.dev/v1alpha1\nkind: MachinePool\nmetadata: {name: a}\nspec:\n  cluster: c\n  replica: 3\n  template: {image: {os: ubunto}, rootDisk: {size: 1Gi}, shape: {flavor: standard-2}}\n";
    let output = trellis_reading(&["render"], text);
    assert_eq!((code(&output), out(&output).as_str()), (3, ""));
    let said = err(&output);
    for part in
        ["<stdin>:6:3", "did you mean `replicas`?", "<stdin>:7:26", "did you mean `ubuntu`?", "2 errors"]
    {
        assert!(said.contains(part), "{part} is not in:\n{said}");
    }
    let output = trellis_reading(&["validate", "--output", "json"], text);
    let report = json(&output);
    assert_eq!((code(&output), &report["valid"]), (3, &Value::Bool(false)));
    let first = &report["diagnostics"][0];
    assert_eq!(
        (&first["line"], &first["column"], &first["code"]),
        (&6.into(), &3.into(), &"unknown-field".into())
    );
    assert_eq!(first["text"], "replica");
}

#[test]
fn a_broken_form_does_not_hide_what_else_is_wrong_nor_add_to_it() {
    let text = std::fs::read_to_string(example("machinedeployment.yaml")).unwrap();
    let text =
        text.replace("replicas:", "replica:").replace("type: hard", "type: hrad").replace("1.34.2", "1.34");
    let output = trellis_reading(&["validate", "-o", "json"], text.as_bytes());
    let report = json(&output);
    let errors = report["diagnostics"].as_array().unwrap().iter().filter(|d| d["severity"] == "error");
    let codes: Vec<&str> = errors.map(|d| d["code"].as_str().unwrap()).collect();
    // The form, the type of a value, and a word inside the embedded provider spec; no "version is missing".
    assert_eq!(codes, ["unknown-field", "wrong-type", "invalid-value"]);
}

#[test]
fn hostile_input_of_every_kind_is_refused_without_a_panic() {
    let laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned()
        + &(1..12).fold(String::new(), |text, i| {
            text + &format!(
                "b{i}: &b{i} [*{p},*{p},*{p},*{p},*{p},*{p},*{p},*{p}]\n",
                p = if i == 1 { "a".to_owned() } else { format!("b{}", i - 1) }
            )
        });
    let deep = "[".repeat(100_000);
    let long = format!("a: \"{}\"", "x".repeat(17 << 20));
    let inputs: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", Vec::new()),
        ("only comments", b"# nothing\n---\n# here\n".to_vec()),
        ("a scalar", b"hello".to_vec()),
        ("a list", b"- a\n- b\n".to_vec()),
        ("half a document", b"apiVersion: v1\nkind: Sec".to_vec()),
        ("an open quote", b"a: \"b".to_vec()),
        ("a tab", b"a:\n\tb: c\n".to_vec()),
        ("nul bytes", b"a: \0\0".to_vec()),
        ("billion laughs", laughs.into_bytes()),
        ("deep nesting", deep.into_bytes()),
        ("a huge text", long.into_bytes()),
        ("an unknown kind", b"apiVersion: v1\nkind: Pod\n".to_vec()),
        ("escape codes", b"apiVersion: v1\nkind: \"\\e[31mPod\"\n".to_vec()),
    ];
    for (name, input) in inputs {
        for command in [&["validate"][..], &["render"], &["convert", "--to", "kkp"]] {
            let output = trellis_reading(command, &input);
            assert_eq!(code(&output), 3, "{name}, {command:?}: {}", err(&output));
            assert!(err(&output).contains("error"), "{name}: {}", err(&output));
            assert!(
                !err(&output).contains('\u{1b}') && !err(&output).contains("panicked"),
                "{name}: {}",
                err(&output)
            );
        }
    }
    let output = trellis_reading(&["validate"], b"a: \xff\xfe");
    assert_eq!(code(&output), 4, "{}", err(&output));
    assert!(err(&output).contains("not UTF-8"), "{}", err(&output));
}

#[test]
fn files_and_folders_that_cannot_be_read_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.yaml");
    let output = trellis(&["validate", "-f", missing.to_str().unwrap()]);
    assert_eq!(code(&output), 4);
    assert!(err(&output).contains("missing.yaml"), "{}", err(&output));
    let output = trellis(&["validate", "-f", folder.path().to_str().unwrap()]);
    assert_eq!(code(&output), 4);
    assert!(err(&output).contains("holds no .yaml"), "{}", err(&output));
    std::fs::write(folder.path().join("binary.yaml"), b"\xff\xfe").unwrap();
    std::fs::write(folder.path().join("wrong.yaml"), "apiVersion: v1\nkind: Pod\n").unwrap();
    let output = trellis(&["validate", "-f", folder.path().to_str().unwrap(), "-o", "json"]);
    assert_eq!(code(&output), 4);
    let said = json(&output)["diagnostics"].to_string();
    assert!(said.contains("unreadable-file") && said.contains("unknown-kind"), "{said}");
    std::fs::remove_file(folder.path().join("binary.yaml")).unwrap();
    std::fs::remove_file(folder.path().join("wrong.yaml")).unwrap();
    std::fs::copy(example("tenant.yaml"), folder.path().join("tenant.yaml")).unwrap();
    assert_eq!(code(&trellis(&["validate", "-f", folder.path().to_str().unwrap()])), 0);
}

#[test]
fn plans_say_what_happens_and_refusals_have_a_code_of_their_own() {
    let text = std::fs::read_to_string(example("tenant.yaml")).unwrap();
    let file = example("tenant.yaml");
    let against = |edited: &str, json: bool| {
        let mut args = vec!["plan", "--against", file.to_str().unwrap()];
        args.extend(if json { vec!["-o", "json"] } else { vec![] });
        trellis_reading(&args, edited.as_bytes())
    };
    let output =
        against(&text.replace("ubuntu:24.04", "ubuntu:26.04").replace("replicas: 2", "replicas: 4"), false);
    assert_eq!(code(&output), 0, "{}", err(&output));
    for part in [
        "pool workers of cluster demo: 2 → 4 machines",
        "in place  replicas: 2 → 4",
        "replaces  template.image.source.registry.url",
        "2 machines are replaced, with at most 1 more and 0 fewer than 4 at a time",
        "Plan: 2 machines replaced, 2 added, 0 removed; nothing refused.",
    ] {
        assert!(out(&output).contains(part), "{part} is not in:\n{}", out(&output));
    }
    let output = against(&text.replace("172.26.0.0/16", "172.27.0.0/16"), false);
    assert_eq!(code(&output), 5);
    assert!(
        out(&output).contains("refused") && out(&output).contains("pod addresses are fixed"),
        "{}",
        out(&output)
    );
    let output = against(&text.replace("sockets: 4", "sockets: 6"), true);
    let plan = json(&output);
    let workers = plan["pools"].as_array().unwrap().iter().find(|pool| pool["name"] == "workers").unwrap();
    assert_eq!((&workers["replaced"], &workers["changes"][0]["class"]), (&0.into(), &"inPlace".into()));
}

#[test]
fn an_install_config_is_rendered_with_an_image_from_outside() {
    let file = example("install-config.yaml");
    let args = ["render", "--strict", "-o", "json", "-f", file.to_str().unwrap()];
    let output = trellis(&args);
    assert_eq!(code(&output), 3);
    assert!(err(&output).contains("--image"), "{}", err(&output));
    let output = trellis(&[&args[..], &["--image", "https://images.example.com/rhcos.qcow2"]].concat());
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(
        json(&output)["items"].as_array().unwrap().iter().filter(|o| o["kind"] == "VirtualMachine").count(),
        5
    );
    assert_eq!(code(&trellis(&[&args[..], &["--image", "ftp://x"]].concat())), 2);
}

#[test]
fn conversion_lists_what_is_lost_and_strict_refuses_it() {
    let file = example("tenant.yaml");
    let args = ["convert", "--to", "kkp", "-f", file.to_str().unwrap()];
    let output = trellis(&args);
    assert_eq!(code(&output), 0);
    assert!(err(&output).contains("cluster demo: baseDomain: svc.cluster.local"), "{}", err(&output));
    let output = trellis(&[&args[..], &["--strict"]].concat());
    assert_eq!((code(&output), out(&output).as_str()), (6, ""));
    let output = trellis(&[&args[..], &["-o", "json"]].concat());
    assert!(json(&output)["lost"].as_array().unwrap().iter().any(|loss| loss["path"] == "baseDomain"));
}

#[test]
fn explain_finds_every_kind_and_guesses_what_was_meant() {
    let output = trellis(&["explain"]);
    for kind in ["install-config", "MachineDeployment", "Shoot", "WorkerConfig", "TenantCluster"] {
        assert!(out(&output).contains(kind), "{kind}");
    }
    let output = trellis(&["explain", "Shoot.spec.provider.workers.volume.size"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(out(&output).contains("Trellis: honoured"), "{}", out(&output));
    let output = trellis(&[
        "explain",
        "kkp/MachineDeployment.spec.template.spec.providerSpec.value.cloudProviderSpec",
    ]);
    assert!(out(&output).contains("pvcSize") && out(&output).contains("virtualMachine"), "{}", out(&output));
    let output = trellis(&["explain", "MachineSet"]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("openshift/MachineSet or kkp/MachineSet"), "{}", err(&output));
    let output = trellis(&["explain", "Shoot.spec.provider.worker"]);
    assert!(err(&output).contains("did you mean workers?"), "{}", err(&output));
    let output = trellis(&["explain", "-o", "json", "MachinePool.spec.replicas"]);
    assert_eq!(json(&output)["path"], "spec.replicas");
}

#[test]
fn colours_are_for_terminals_unless_asked_for() {
    let bad = b"apiVersion: v1\nkind: Pod\n";
    assert!(!err(&trellis_reading(&["validate"], bad)).contains('\u{1b}'));
    assert!(err(&trellis_reading(&["validate", "--color", "always"], bad)).contains('\u{1b}'));
}

#[test]
fn secrets_stay_out_of_everything_that_is_printed() {
    let secret = "hunter2-canary";
    let manifests = [
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: a, namespace: b}}\ndata: {{kubeconfig: \"{secret}!!\"}}\n"
        ),
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: a, namespace: b}}\nstringData: {{kubeconfig: \"{secret}: [\"}}\n"
        ),
        format!(
            "apiVersion: v1\nmetadata: {{name: a}}\nbaseDomain: b.c\nplatform: {{kubevirt: {{}}}}\npullSecret: \"{secret}\"\n"
        ),
    ];
    for text in manifests {
        for command in
            [&["validate"][..], &["validate", "-o", "json"], &["render"], &["convert", "--to", "trellis"]]
        {
            let output = trellis_reading(command, text.as_bytes());
            let printed = out(&output) + &err(&output);
            assert!(!printed.contains(secret), "{command:?} shows a secret:\n{printed}");
        }
    }
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let file = example("tenant.yaml");
    let mut child = Command::new(env!("CARGO_BIN_EXE_trellis"))
        .args(["render", "-f", file.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(!err(&output).contains("panicked"), "{}", err(&output));
    assert_eq!(code(&output), 0);
}

#[test]
fn usage_errors_have_their_own_code() {
    assert_eq!(code(&trellis(&["frobnicate"])), 2);
    assert_eq!(code(&trellis(&["--version"])), 0);
    for shell in ["bash", "zsh", "fish"] {
        assert!(out(&trellis(&["completion", shell])).contains("trellis"));
    }
}

#[test]
fn a_lab_that_does_not_run_is_said_to_be_so() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("lab");
    let place = dir.to_str().unwrap();
    let says_so = || {
        let output = trellis(&["lab", "fail", "host-0001", "--dir", place]);
        assert_ne!(code(&output), 0);
        let words = format!("no lab runs in {place}; start it with: trellis lab --dir {place}");
        assert!(err(&output).contains(&words), "{}", err(&output));
    };
    says_so();
    // A lab that was stopped leaves its kubeconfig.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    std::fs::create_dir(&dir).unwrap();
    let kubeconfig = format!(
        "{{apiVersion: v1, kind: Config, current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
         users: [{{name: a, user: {{token: t}}}}], clusters: [{{name: a, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]}}"
    );
    std::fs::write(dir.join("kubeconfig"), kubeconfig).unwrap();
    says_so();
}

#[test]
fn a_lab_that_is_refused_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("lab");
    let place = dir.to_str().unwrap();
    for wrong in [["--host-cpu", "many"], ["--settings", "/nowhere"], ["--token-auth-file", "/nowhere"]] {
        let output = trellis(&[&["lab", "--dir", place], &wrong[..]].concat());
        assert_ne!(code(&output), 0);
        assert!(!dir.exists(), "{wrong:?}");
    }
    let output = trellis(&["lab", "--dir", place, "--hosts", "2", "--zones", "3"]);
    assert!(err(&output).contains("--hosts 3") && !dir.exists(), "{}", err(&output));
}
