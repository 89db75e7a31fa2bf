//! What is written, read by the programs it is written for.

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use trellis_bootstrap::machine::Config;
use trellis_bootstrap::render;
use trellis_model::image::{FirstBoot, OperatingSystem};

use crate::site::{Known, Mode, SYSTEMS, find_program, site};

/// Runs a program to its end and gives all it said, if it was content.
fn run(command: &mut Command) -> Result<String, String> {
    let said = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    if said.status.success() { Ok(text) } else { Err(text) }
}

fn systems(family: FirstBoot) -> impl Iterator<Item = OperatingSystem> {
    SYSTEMS.iter().copied().filter(move |os| os.first_boot() == family)
}

#[test]
fn cloud_init_accepts_its_user_data() {
    let Some(cloud_init) = find_program("cloud-init") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("user-data");
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        run(Command::new(&cloud_init).args(["schema", "--config-file"]).arg(&file))
    };
    for os in systems(FirstBoot::CloudInit) {
        let known = Known::new(site(os, Mode::Pod));
        let machines = known.machines().map(|(kind, config)| (kind, render::user_data(os, &config)));
        for (kind, text) in machines.into_iter().chain([("stub", known.stub())]) {
            let said = check(text.expose()).unwrap_or_else(|said| panic!("{os:?} {kind}: {said}"));
            assert!(said.contains("Valid"), "{os:?} {kind}: {said}");
        }
        if os != OperatingSystem::Ubuntu {
            // One is enough: they differ in the content of files, which cloud-init does not look into.
            continue;
        }
        assert!(check("#cloud-config\n{\"write_files\": 7}\n").is_err(), "the check finds what is wrong");
    }
}

#[test]
fn systemd_accepts_the_units() {
    let Some(analyze) = find_program("systemd-analyze") else { return };
    for &os in &[OperatingSystem::Flatcar, OperatingSystem::Debian, OperatingSystem::Rhcos] {
        let known = Known::new(site(os, Mode::Secondary));
        for (kind, config) in known.machines() {
            verify(&analyze, &config).unwrap_or_else(|said| panic!("{os:?} {kind}: {said}"));
        }
    }
    let mut broken = Known::new(site(OperatingSystem::Flatcar, Mode::Pod)).worker();
    for unit in &mut broken.units {
        unit.text = unit.text.take().map(|text| text.replace("RestartSec=5", "RestartSec=soon"));
    }
    assert!(verify(&analyze, &broken).is_err(), "the check finds what is wrong");
}

/// Verifies all units of a machine together.
fn verify(analyze: &Path, config: &Config) -> Result<(), String> {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new(analyze);
    command.args(["verify", "--man=no", "--recursive-errors=no"]);
    for unit in &config.units {
        if let Some(text) = &unit.text {
            let path = scratch.path().join(&unit.name);
            std::fs::write(&path, text).unwrap();
            command.arg(path);
        }
    }
    let said = match run(&mut command) {
        Ok(said) | Err(said) => said,
    };
    // The programs of the units are on the machines, not here.
    let complaints: Vec<&str> = said
        .lines()
        .filter(|line| {
            !line.contains("is not executable")
                && !line.contains("Failed to create")
                && !line.trim().is_empty()
        })
        .collect();
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

#[test]
fn bash_understands_the_install_program() {
    let Some(bash) = find_program("bash") else { return };
    for &os in SYSTEMS {
        for mode in [Mode::Pod, Mode::Secondary] {
            for (kind, config) in Known::new(site(os, mode)).machines() {
                let script = config.content("/etc/trellis/install").unwrap();
                run(Command::new(&bash).args(["-n", "-c", script]))
                    .unwrap_or_else(|said| panic!("{os:?} {kind}: {said}"));
            }
        }
    }
}

/// The install program's own function, with real downloads from a server of ours.
#[test]
fn what_is_downloaded_is_checked() {
    let (Some(bash), Some(_)) = (find_program("bash"), find_program("curl")) else { return };
    let scratch = tempfile::tempdir().unwrap();
    let config = Known::new(site(OperatingSystem::Flatcar, Mode::Pod)).worker();
    let script = config.content("/etc/trellis/install").unwrap();
    let functions = script.split("retry fetch").next().unwrap();
    let source = scratch.path().join("thing");
    std::fs::write(&source, "thing\n").unwrap();
    let target = scratch.path().join("bin/thing");
    let fetch = |sum: &str| {
        let call =
            format!("{functions}\nfetch program is file://{} {sum} {}", source.display(), target.display());
        run(Command::new(&bash).args(["-c", &call]))
    };
    let good = "1f9cffa35afcb0e0a6db1d1dd5aaa43aa3ddc1f8f8acd8d8b5d8bbae6f8e7d2c";
    assert!(fetch(good).unwrap_err().contains("SHA-256"));
    assert!(!target.exists());
    let sum = run(Command::new("sha256sum").arg(&source)).unwrap();
    fetch(sum.split(' ').next().unwrap()).unwrap();
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "thing\n");
}

/// The content of a file that a cloud-init stub writes.
fn in_stub(stub: &str, path: &str) -> Vec<u8> {
    use base64::Engine as _;
    let stub: serde_json::Value = serde_saphyr::from_str(stub).unwrap();
    let files = stub["write_files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == path).unwrap_or_else(|| panic!("{path}"));
    base64::engine::general_purpose::STANDARD.decode(file["content"].as_str().unwrap()).unwrap()
}

/// The program of the cloud-init stub does what cloud-init does with the files.
#[test]
fn a_cloud_init_stub_applies_what_it_fetches() {
    let Some(python) = find_program("python3") else { return };
    let os = OperatingSystem::Debian;
    let known = Known::new(site(os, Mode::Pod));
    let stub = known.stub();
    let content = |path: &str| in_stub(stub.expose(), path);
    let scratch = tempfile::tempdir().unwrap();
    let (program, fetched, root) =
        (scratch.path().join("apply"), scratch.path().join("config"), scratch.path().join("root"));
    std::fs::write(&program, content("/etc/trellis/apply")).unwrap();
    let config = known.master("m0");
    std::fs::write(&fetched, render::user_data(os, &config).expose()).unwrap();
    let said = run(Command::new(&python).arg(&program).arg(&fetched).arg(&root)).unwrap();
    for file in &config.files {
        let path = root.join(file.path.trim_start_matches('/'));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), file.content.expose(), "{}", file.path);
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, file.mode, "{}", file.path);
    }
    assert!(root.join("etc/systemd/system/kubelet.service").is_file());
    assert!(root.join("var/lib/trellis/applied").is_file());
    assert!(!fetched.exists(), "it holds keys, which are in their files now");
    // All are enabled before the first is started, and nobody waits until one runs.
    let commands: Vec<&str> = said.lines().collect();
    let first_start = commands.iter().position(|command| command.starts_with("systemctl start")).unwrap();
    let last_enabled = commands.iter().rposition(|command| command.starts_with("systemctl enable")).unwrap();
    assert!(last_enabled < first_start, "{said}");
    assert!(commands[first_start..].iter().all(|command| command.contains("--no-block")), "{said}");
    assert!(commands.contains(&"systemctl start --no-block kubelet.service"), "{said}");
    // What comes with packages is enabled by what installs those.
    let install = config.content("/etc/trellis/install").unwrap();
    assert!(install.contains("systemctl enable --now --no-block containerd.service\n"), "{install}");
    // The unit asks with its token from a file nobody else can read, and trusts one authority.
    let unit = String::from_utf8(content("/etc/systemd/system/trellis-fetch.service")).unwrap();
    assert!(unit.contains("--cacert /etc/trellis/machine-config-ca.crt"), "{unit}");
    assert!(!unit.contains(known.token.expose()));
    let headers = String::from_utf8(content("/etc/trellis/machine-config-headers")).unwrap();
    assert_eq!(headers, format!("Authorization: Bearer {}\nTrellis-Machine: m0\n", known.token.expose()));
}

/// A token is good once: what was fetched is not asked for again, and a renewed token is read from the drive.
#[test]
fn a_cloud_init_stub_fetches_once_and_with_the_newest_token() {
    let Some(python) = find_program("python3") else { return };
    let known = Known::new(site(OperatingSystem::Debian, Mode::Pod));
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let headers = at("machine-config-headers");
    std::fs::write(at("fetch"), in_stub(known.stub().expose(), "/etc/trellis/fetch")).unwrap();
    std::fs::write(&headers, "Authorization: Bearer old\n").unwrap();
    // The drive has a stub that was written after the machine's first boot.
    std::fs::create_dir_all(at("drive/openstack/latest")).unwrap();
    let path = headers.to_string_lossy().into_owned();
    let stub = known.stub().expose().replace("/etc/trellis/machine-config-headers", &path);
    std::fs::write(at("drive/openstack/latest/user_data"), &stub).unwrap();
    let fetch = |drive: &Path, script: &str| {
        let mut command = Command::new(&python);
        command.arg(at("fetch")).arg(at("config")).arg(&headers).arg(drive).args(["sh", "-c", script]);
        run(command.current_dir(scratch.path()))
    };
    // Nobody serves yet.
    assert!(fetch(&at("drive"), "echo half > config.new; exit 22").is_err());
    assert!(!at("config").exists());
    let shown = std::fs::read_to_string(&headers).unwrap();
    assert!(shown.contains(known.token.expose()), "{shown}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&headers).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    // A drive that cannot be read changes nothing.
    fetch(&at("nothing"), "cp machine-config-headers shown; echo whole > config.new").unwrap();
    assert_eq!(std::fs::read_to_string(at("shown")).unwrap(), shown);
    assert_eq!(std::fs::read_to_string(at("config")).unwrap(), "whole\n");
    fetch(&at("drive"), "touch asked-again").unwrap();
    assert!(!at("asked-again").exists());
    // The unit keeps it where a restart does not lose it.
    let unit = in_stub(known.stub().expose(), "/etc/systemd/system/trellis-fetch.service");
    let unit = String::from_utf8(unit).unwrap();
    assert!(unit.contains("/etc/trellis/fetch /var/lib/trellis/machine-config /etc/trellis/"), "{unit}");
    assert!(unit.contains(" --output /var/lib/trellis/machine-config.new "), "{unit}");
}

/// What installs is tried again when it fails; systemd drops the start of whatever requires it.
#[test]
fn nothing_requires_a_unit_that_is_tried_again() {
    for &os in SYSTEMS {
        for (kind, config) in Known::new(site(os, Mode::Secondary)).machines() {
            for unit in config.units.iter().filter_map(|unit| unit.text.as_ref()) {
                assert!(!unit.contains("Requires="), "{os:?} {kind}: {unit}");
            }
            let unit = config.units.iter().find(|unit| unit.name == "kubelet.service").unwrap();
            let unit = unit.text.as_ref().unwrap();
            for name in ["Wants", "After"] {
                let line = unit.lines().find(|line| line.starts_with(&format!("{name}="))).unwrap();
                assert!(line.contains("trellis-install.service"), "{unit}");
            }
        }
    }
}

#[test]
fn kubeadm_accepts_its_documents() {
    let Some(kubeadm) = find_program("kubeadm") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("kubeadm.yaml");
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        run(Command::new(&kubeadm).args(["config", "validate", "--config"]).arg(&file))
    };
    for mode in [Mode::Pod, Mode::Secondary] {
        let known = Known::new(site(OperatingSystem::Ubuntu, mode));
        let master = known.master("m0").content("/etc/kubernetes/kubeadm.yaml").unwrap().to_owned();
        check(&master).unwrap();
        let worker = known.worker().content("/etc/kubernetes/kubeadm-join.yaml").unwrap().to_owned();
        // The file it names must be there, which it is on the machine.
        let kubelet = scratch.path().join("kubelet.conf");
        std::fs::write(&kubelet, known.worker().content("/etc/kubernetes/kubelet.conf").unwrap()).unwrap();
        assert!(worker.contains("/etc/kubernetes/kubelet.conf"));
        check(&worker.replace("/etc/kubernetes/kubelet.conf", &kubelet.to_string_lossy())).unwrap();
        assert!(check(&master.replace("podSubnet", "podSubnets")).is_err(), "the check finds what is wrong");
    }
}

#[test]
fn haproxy_accepts_its_configuration() {
    let Some(haproxy) = find_program("haproxy") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("haproxy.cfg");
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        run(Command::new(&haproxy).args(["-c", "-f"]).arg(&file))
    };
    for mode in [Mode::Pod, Mode::Secondary] {
        let known = Known::new(site(OperatingSystem::Flatcar, mode));
        let text = known.bootstrap().content("/etc/haproxy/haproxy.cfg").unwrap().to_owned();
        let said = check(&text).unwrap();
        // Names of machines do not resolve here, and a balancer must start before they do.
        let warnings =
            said.lines().filter(|line| line.contains("WARNING") && !line.contains("could not resolve"));
        assert_eq!(warnings.count(), 0, "{said}");
        assert!(check(&text.replace("balance roundrobin", "balance evenly")).is_err());
    }
}

#[test]
fn keepalived_accepts_its_configuration() {
    let Some(keepalived) = find_program("keepalived") else { return };
    // It looks the interface up even when it only reads, and takes no loopback.
    let interfaces = std::fs::read_dir("/sys/class/net").unwrap().flatten();
    let mut interfaces = interfaces.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let does_multicast = |name: &str| {
        let flags = std::fs::read_to_string(format!("/sys/class/net/{name}/flags")).unwrap_or_default();
        u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).is_ok_and(|flags| flags & 0x1000 != 0)
    };
    let Some(interface) = interfaces.find(|name| name != "lo" && does_multicast(name)) else {
        eprintln!("skipped: this machine has no interface keepalived would take");
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let (file, script) = (scratch.path().join("keepalived.conf"), scratch.path().join("check"));
    let known = Known::new(site(OperatingSystem::Flatcar, Mode::Secondary));
    let check = |config: &Config, text: &str| {
        std::fs::write(&script, config.content("/etc/keepalived/check").unwrap()).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).unwrap();
        // Interface and place of the script are those of this machine.
        let text = text
            .replace("@interface@", &interface)
            .replace("/etc/keepalived/check", &script.to_string_lossy());
        std::fs::write(&file, text).unwrap();
        run(Command::new(&keepalived).args(["--config-test", "--use-file"]).arg(&file))
    };
    for (kind, config) in known.machines() {
        let text = config.content("/etc/keepalived/keepalived.conf").unwrap();
        check(&config, text).unwrap_or_else(|said| panic!("{kind}: {said}"));
        assert!(check(&config, &text.replace("priority ", "priority x")).is_err(), "{kind}");
    }
}

#[test]
fn coredns_answers_for_the_cluster() {
    let Some(coredns) = find_program("coredns") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let known = Known::new(site(OperatingSystem::Flatcar, Mode::Secondary));
    let config = known.master("m0");
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let health = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = config.content("/etc/coredns/Corefile").unwrap();
    // Addresses and ports of this machine instead of the other one's.
    let text = text.replace(":53 {", &format!(":{port} {{")).replace(":18080", &format!(":{health}"));
    let text = text.replace("bind 127.0.0.1 192.0.2.20", "bind 127.0.0.1");
    let file = scratch.path().join("Corefile");
    std::fs::write(&file, text).unwrap();
    let child =
        Command::new(&coredns).arg("-conf").arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut running = Running(child.unwrap());
    let ask = |name: &str| ask(port, name);
    let start = Instant::now();
    while ask("api.demo.svc.cluster.local").is_none() {
        assert!(running.0.try_wait().unwrap().is_none(), "CoreDNS ended");
        assert!(start.elapsed() < Duration::from_secs(20), "CoreDNS does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
    let address = |last: u8| Some(vec![[192, 0, 2, last]]);
    assert_eq!(ask("api.demo.svc.cluster.local"), address(10));
    assert_eq!(ask("api-int.demo.svc.cluster.local"), address(10));
    assert_eq!(ask("m2.demo.svc.cluster.local"), address(22));
    assert_eq!(ask("shop.apps.demo.svc.cluster.local"), address(11));
    assert_eq!(ask("nobody.demo.svc.cluster.local"), Some(vec![]));
}

/// A program that ends with the test.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks a name server of this machine for the addresses of a name.
fn ask(port: u16, name: &str) -> Option<Vec<[u8; 4]>> {
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).unwrap());
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket.send_to(&query, ("127.0.0.1", port)).ok()?;
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).ok()?;
    let answers = u16::from_be_bytes([answer[6], answer[7]]);
    let mut rest = &answer[query.len()..length];
    let mut addresses = Vec::new();
    for _ in 0..answers {
        // The name, as a pointer or as labels.
        while rest[0] != 0 && rest[0] & 0xc0 == 0 {
            rest = &rest[1 + usize::from(rest[0])..];
        }
        rest = &rest[if rest[0] == 0 { 1 } else { 2 }..];
        let length = usize::from(u16::from_be_bytes([rest[8], rest[9]]));
        addresses.push(<[u8; 4]>::try_from(&rest[10..10 + length]).unwrap());
        rest = &rest[10 + length..];
    }
    Some(addresses)
}
