//! The proof: what is rendered for a member of the control plane, run as real processes.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use trellis_bootstrap::machine::Config;
use trellis_bootstrap::render;
use trellis_model::image::OperatingSystem;

use crate::site::{Known, Mode, command, find_program, parts, site};

const PATIENCE: Duration = Duration::from_secs(90);

/// Ends its child when its standard input is closed, which the kernel does for it if the test is killed.
const KEEPER: &str =
    r#"exec 3<&0; "$@" 3<&- & child=$!; { read -r _ <&3; kill -9 $child; } 2>&- & wait $child"#;

/// A program that ends with the test.
struct Program {
    keeper: Child,
    leash: Option<ChildStdin>,
    log: PathBuf,
}

impl Program {
    fn start(program: &Path, arguments: &[String], log: PathBuf) -> Self {
        let output = fs::File::create(&log).unwrap();
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let leash = keeper.stdin.take();
        Self { keeper, leash, log }
    }

    /// The end of its log, and before that what it died of: a Go program prints its stack after the reason.
    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let (before, end) = lines.split_at(lines.len().saturating_sub(12));
        let deadly = |line: &&&str| ["panic", "fatal"].iter().any(|word| line.contains(word));
        let reasons = before.iter().filter(deadly).take(4);
        let words: Vec<&str> = reasons.chain(end).copied().collect();
        format!("{}:\n{}", self.log.display(), words.join("\n"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.leash.take());
        let _ = self.keeper.wait();
    }
}

/// A machine in a folder of this one: its paths below the folder, its ports free ones, its names loopback.
struct Machine {
    root: PathBuf,
    replaced: Vec<(String, String)>,
    api: u16,
}

impl Machine {
    fn new(root: &Path, config: &Config) -> Self {
        let listeners: Vec<TcpListener> = (0..6).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = listeners.iter().map(|one| one.local_addr().unwrap().port()).collect();
        let under = |path: &str| (path.to_owned(), format!("{}{path}", root.display()));
        let mut replaced = vec![under("/etc/kubernetes"), under("/var/lib/etcd")];
        let mut replace = |from: &str, to: String| replaced.push((from.to_owned(), to));
        replace("m0.demo.svc.cluster.local", "127.0.0.1".to_owned());
        replace("https://api-int.demo.svc.cluster.local:6443", format!("https://127.0.0.1:{}", ports[3]));
        replace("0.0.0.0", "127.0.0.1".to_owned());
        for (place, port) in ["2379", "2380", "2381"].iter().enumerate() {
            replace(&format!(":{port}"), format!(":{}", ports[place]));
        }
        replace("--secure-port=6443", format!("--secure-port={}", ports[3]));
        let machine = Self { root: root.to_owned(), replaced, api: ports[3] };
        for file in config.files.iter().filter(|file| file.path.starts_with("/etc/kubernetes/")) {
            let path = root.join(file.path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, machine.rewritten(file.content.expose())).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(file.mode)).unwrap();
        }
        machine
    }

    fn rewritten(&self, text: &str) -> String {
        self.replaced.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    /// Starts a static pod's command as it is written, with what only this machine needs added.
    fn start(&self, config: &Config, pod: &str, more: &[String]) -> Program {
        let words: Vec<String> = command(config, pod).iter().map(|word| self.rewritten(word)).collect();
        let (program, arguments) = words.split_first().unwrap();
        let arguments: Vec<String> = arguments.iter().chain(more).cloned().collect();
        let program = parts().unwrap().join(program);
        Program::start(&program, &arguments, self.root.join(format!("{pod}.log")))
    }
}

/// A port nobody has at the moment.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn the_rendered_control_plane_runs() {
    let programs = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];
    if programs.iter().any(|program| find_program(program).is_none()) || parts().is_none() {
        eprintln!("skipped: the real parts are not built here: run `cargo xtask real-parts`");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let mut site = site(OperatingSystem::Flatcar, Mode::Pod);
    // One member: the others are other machines.
    site.masters.truncate(1);
    // An address others could use; nobody goes there.
    site.names.advertised = Some("192.0.2.1".parse().unwrap());
    let known = Known::at(site, Timestamp::now());
    let config = known.master("m0");
    let machine = Machine::new(scratch.path(), &config);
    let kubeconfig = scratch.path().join("auth-kubeconfig");
    fs::write(&kubeconfig, render::admin_kubeconfig(&known.site, &known.bundle).unwrap().expose()).unwrap();
    fs::create_dir_all(scratch.path().join("var/lib/etcd")).unwrap();
    fs::set_permissions(scratch.path().join("var/lib/etcd"), fs::Permissions::from_mode(0o700)).unwrap();

    let running = [
        machine.start(&config, "etcd", &[]),
        machine.start(&config, "kube-apiserver", &["--bind-address=127.0.0.1".to_owned()]),
        machine.start(&config, "kube-controller-manager", &[format!("--secure-port={}", free_port())]),
        machine.start(&config, "kube-scheduler", &[format!("--secure-port={}", free_port())]),
    ];
    // By the written kubeconfig and the name in it; only the address is this machine's.
    let kubectl = |arguments: &[&str]| {
        let mut command = Command::new(parts().unwrap().join("kubectl"));
        command.arg("--kubeconfig").arg(&kubeconfig).args(arguments);
        command.arg(format!("--server=https://127.0.0.1:{}", machine.api));
        command.arg("--tls-server-name=api.demo.svc.cluster.local").env("HOME", scratch.path());
        let said = command.output().unwrap();
        let text =
            String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
        if said.status.success() { Ok(text) } else { Err(text) }
    };
    let until = |what: &str, attempt: &dyn Fn() -> Result<String, String>| {
        let start = Instant::now();
        loop {
            match attempt() {
                Ok(said) => return said,
                Err(said) if start.elapsed() > PATIENCE => {
                    let words: Vec<String> = running.iter().map(Program::last_words).collect();
                    panic!("{what}: {said}\n{}", words.join("\n\n"));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(250)),
            }
        }
    };
    assert_eq!(until("the API is not ready", &|| kubectl(&["get", "--raw", "/readyz"])), "ok");
    kubectl(&["create", "namespace", "shop"]).unwrap();
    // Both hold their leases only if their certificates and kubeconfigs are good.
    for lease in ["kube-controller-manager", "kube-scheduler"] {
        let path = ["get", "lease", "-n", "kube-system", lease, "-o", "jsonpath={.spec.holderIdentity}"];
        let holder = until(lease, &|| {
            kubectl(&path).and_then(|held| if held.is_empty() { Err(held) } else { Ok(held) })
        });
        assert!(!holder.is_empty());
    }
    // The controllers act, with the key that signs service accounts, and the server accepts what they sign.
    until("no service account", &|| kubectl(&["get", "serviceaccount", "-n", "shop", "default"]));
    let token = until("no token", &|| kubectl(&["create", "token", "-n", "shop", "default"]));
    let review = format!(
        r#"{{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{{"token":"{}"}}}}"#,
        token.trim()
    );
    let file = scratch.path().join("review.json");
    fs::write(&file, review).unwrap();
    let user = kubectl(&["create", "-f", &file.to_string_lossy(), "-o", "jsonpath={.status.user.username}"])
        .unwrap();
    assert_eq!(user, "system:serviceaccount:shop:default");
    // The kubelet's own kubeconfig is a node, and may ask only for what is its own.
    let kubelet = scratch.path().join("etc/kubernetes/kubelet.conf");
    let mut as_node = Command::new(parts().unwrap().join("kubectl"));
    as_node.arg("--kubeconfig").arg(&kubelet).args([
        "auth",
        "whoami",
        "-o",
        "jsonpath={.status.userInfo.username}",
    ]);
    let said = as_node.env("HOME", scratch.path()).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&said.stdout),
        "system:node:m0",
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
}
