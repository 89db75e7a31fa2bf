//! Machines as cloud-init user data, for Ubuntu, Debian, Rocky Linux and CentOS Stream.
//!
//! cloud-init cannot be led from one configuration to another. A stub therefore has a unit that fetches the other with
//! curl and applies it: both are `#cloud-config` in JSON, and the small programs in the stub do with files, keys and
//! commands what cloud-init itself would.
//!
//! A token is good once, so what was fetched is kept until it is applied. And cloud-init writes files once in the life of
//! an instance, which to it stays the same however often the machine starts: a token that was renewed meanwhile is read
//! from the config drive itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::machine::{Config, File};
use crate::secret::Secret;
use crate::unit::UnitText;

/// Where the stub keeps what it needs to ask.
const AUTHORITY: &str = "/etc/trellis/machine-config-ca.crt";
const HEADERS: &str = "/etc/trellis/machine-config-headers";
const FETCH: &str = "/etc/trellis/fetch";
const APPLY: &str = "/etc/trellis/apply";
const FETCHED: &str = "/var/lib/trellis/machine-config";
const UNFINISHED: &str = "/var/lib/trellis/machine-config.new";
/// Where the config drive of KubeVirt is.
const DRIVE: &str = "/dev/disk/by-label/config-2";
const FETCH_UNIT: &str = "trellis-fetch.service";

/// The user data of a machine.
pub(crate) fn write(config: &Config) -> Secret {
    let units = config.units.iter().filter_map(|unit| {
        let text = unit.text.clone()?;
        Some(File {
            path: format!("/etc/systemd/system/{}", unit.name),
            mode: 0o644,
            content: Secret::new(text),
        })
    });
    let files: Vec<Value> = config.files.iter().cloned().chain(units).map(|one| file(&one)).collect();
    let mut commands = vec![json!(["systemctl", "daemon-reload"])];
    let enabled: Vec<&str> =
        config.units.iter().filter(|unit| unit.enabled).map(|unit| unit.name.as_str()).collect();
    // One by one: what comes with a package that is not installed yet cannot be enabled, and is when it is installed.
    commands.extend(enabled.iter().map(|unit| json!(["systemctl", "enable", unit])));
    // Nobody waits for them: they say themselves after whom they come, and try again when they fail.
    commands.extend(enabled.iter().map(|unit| json!(["systemctl", "start", "--no-block", unit])));
    cloud_config(config, &files, &commands)
}

/// User data that gets the real one from an address.
pub(crate) fn replaced_by(config: &Config, url: &str, authority: &str, headers: &[(&str, &str)]) -> Secret {
    // In a file of its own, so that nobody reads a token in the list of processes.
    let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let asking = format!("@{HEADERS}");
    let fetch = [
        "/usr/bin/python3",
        FETCH,
        FETCHED,
        HEADERS,
        DRIVE,
        "/usr/bin/curl",
        "--fail",
        "--silent",
        "--show-error",
        "--proto",
        "=https",
        "--cacert",
        AUTHORITY,
        "--header",
        &asking,
        "--output",
        UNFINISHED,
        url,
    ];
    let unit = UnitText::default()
        .section("Unit")
        .set("Description", "Get the configuration of this machine")
        .set("Wants", "network-online.target")
        .set("After", "network-online.target")
        .set("StartLimitIntervalSec", "0")
        .set("ConditionPathExists", "!/var/lib/trellis/applied")
        .section("Service")
        .set("Type", "oneshot")
        .set("StateDirectory", "trellis")
        .set("UMask", "0077")
        .command("ExecStart", &fetch)
        .command("ExecStart", &["/usr/bin/python3", APPLY, FETCHED])
        .set("Restart", "on-failure")
        .set("RestartSec", "3")
        .section("Install")
        .set("WantedBy", "multi-user.target")
        .text();
    let stub = Config {
        hostname: config.hostname.clone(),
        fqdn: config.fqdn.clone(),
        users: config.users.clone(),
        files: vec![
            File { path: AUTHORITY.to_owned(), mode: 0o644, content: Secret::new(authority) },
            File { path: HEADERS.to_owned(), mode: 0o600, content: Secret::new(lines.concat()) },
            File { path: FETCH.to_owned(), mode: 0o755, content: Secret::new(FETCHER) },
            File { path: APPLY.to_owned(), mode: 0o755, content: Secret::new(APPLIER) },
        ],
        units: vec![crate::machine::Unit { name: FETCH_UNIT.to_owned(), text: Some(unit), enabled: true }],
    };
    write(&stub)
}

/// Gets a configuration, unless it is there: `fetch TARGET HEADERS DRIVE COMMAND...`. The command writes `TARGET.new`.
/// Before, the headers are brought up to date from the user data that the config drive has now; a drive that is a folder,
/// as in tests, need not be mounted.
const FETCHER: &str = r##"import base64, json, os, subprocess, sys

target, headers, drive, command = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
if os.path.exists(target):
    sys.exit(0)


def on_drive():
    place = drive
    if not os.path.isdir(drive):
        place = os.path.dirname(target) + "/drive"
        os.makedirs(place, exist_ok=True)
        subprocess.run(["mount", "-o", "ro", drive, place], check=True)
    try:
        with open(place + "/openstack/latest/user_data", encoding="utf-8") as source:
            header, _, body = source.read().partition("\n")
    finally:
        if place != drive:
            subprocess.run(["umount", place], check=True)
    for entry in json.loads(body).get("write_files", []) if header == "#cloud-config" else []:
        if entry["path"] == headers:
            return base64.b64decode(entry["content"])
    return None


try:
    newest = on_drive()
    if newest is not None:
        handle = os.open(headers + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(newest)
        os.replace(headers + ".new", headers)
except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
    print("the config drive cannot be read, the headers stay as they are:", error, file=sys.stderr)
if subprocess.run(command).returncode != 0:
    sys.exit(1)
with open(target + ".new", "rb") as got:
    os.fsync(got.fileno())
os.replace(target + ".new", target)
"##;

/// Applies a `#cloud-config` in JSON, as far as [`write`] makes one, and removes it. The first argument is the file; a
/// second one is put in front of every path, for tests.
const APPLIER: &str = r##"import base64, json, os, subprocess, sys

root = sys.argv[2] if len(sys.argv) > 2 else ""
with open(sys.argv[1], encoding="utf-8") as source:
    header, _, body = source.read().partition("\n")
if header != "#cloud-config":
    os.remove(sys.argv[1])
    sys.exit("this is no cloud-config")
config = json.loads(body)
for entry in config.get("write_files", []):
    path = root + entry["path"]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    mode = int(entry["permissions"], 8)
    unfinished = path + ".new"
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "wb") as target:
        target.write(base64.b64decode(entry["content"]))
    os.chmod(unfinished, mode)
    os.replace(unfinished, path)
os.makedirs(root + "/var/lib/trellis", exist_ok=True)
commands = config.get("runcmd", [])
starts = [command for command in commands if "--no-block" in command]
# Enabled before it counts as applied: whoever is interrupted after that starts them at the next boot.
for command in commands:
    if command not in starts:
        subprocess.run((["echo"] if root else []) + command)
with open(root + "/var/lib/trellis/applied", "w", encoding="utf-8"):
    pass
os.remove(sys.argv[1])
for command in starts:
    subprocess.run((["echo"] if root else []) + command)
"##;

fn cloud_config(config: &Config, files: &[Value], commands: &[Value]) -> Secret {
    let keys: Vec<&String> = config.users.iter().flat_map(|user| &user.ssh_keys).collect();
    let mut document = json!({
        "hostname": config.hostname,
        "fqdn": config.fqdn,
        // Distributions differ in what they make the host name; the node's name must be the machine's.
        "prefer_fqdn_over_hostname": false,
        "write_files": files,
        "runcmd": commands,
    });
    if !keys.is_empty() {
        document["ssh_authorized_keys"] = json!(keys);
    }
    // JSON is YAML, and nothing in it can be mistaken for anything else.
    Secret::new(format!("#cloud-config\n{document}\n"))
}

fn file(file: &File) -> Value {
    json!({
        "path": file.path,
        "permissions": format!("{:04o}", file.mode),
        "owner": "root:root",
        "encoding": "b64",
        "content": STANDARD.encode(file.content.expose()),
    })
}
