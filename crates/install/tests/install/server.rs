//! The servers the tests run on, and the programs they use.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::client::Client;
use crate::support::real::RealCluster;
use crate::support::target::Target;
use crate::support::{lab, parts};

/// A server of a test's own, and whoever may do everything there.
pub(crate) struct Server {
    pub(crate) target: Target,
    pub(crate) admin: Client,
    _folder: tempfile::TempDir,
}

impl Server {
    /// The lab, or the real one where it is asked for; nothing, said plainly, where that is not here.
    pub(crate) async fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let target = if std::env::var("TRELLIS_CONFORMANCE").is_ok_and(|asked| asked == "real") {
            match parts::find() {
                Ok(parts) => RealCluster::start(folder.path(), &parts).await.unwrap(),
                Err(why) => {
                    eprintln!("skipped: {why}");
                    return None;
                }
            }
        } else {
            lab::start(folder.path()).await.unwrap()
        };
        let admin = target.client(&target.admin).unwrap();
        Some(Self { target, admin, _folder: folder })
    }

    /// Applies objects as people do.
    pub(crate) fn kubectl_apply(&self, objects: &[Value]) -> String {
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let arguments = ["apply", "--server-side", "-f", "-"];
        self.kubectl(&arguments, &list.to_string()).unwrap_or_else(|said| panic!("{said}"))
    }

    /// Runs kubectl on the server.
    pub(crate) fn kubectl(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let config = self.target.kubeconfig.display().to_string();
        run(Command::new(kubectl()).args(["--kubeconfig", &config]).args(arguments), input)
    }
}

pub(crate) fn kubectl() -> PathBuf {
    let built = parts::find().ok().map(|parts| parts.join("kubectl")).filter(|path| path.is_file());
    built.unwrap_or_else(|| "kubectl".into())
}

/// The Helm that is pinned, in the user's cache, or any that is on the path; nothing, said plainly, where there is none.
pub(crate) fn helm() -> Option<PathBuf> {
    const VERSION: &str = "v3.22.0";
    let cached = parts::cache().map(|cache| cache.join(format!("tools/helm-{VERSION}/helm")));
    if let Some(cached) = cached.filter(|path| path.is_file()) {
        return Some(cached);
    }
    if run(Command::new("helm").arg("version"), "").is_ok() {
        return Some("helm".into());
    }
    eprintln!(
        "skipped: there is no helm: GOBIN=~/.cache/trellis/tools/helm-{VERSION} go install helm.sh/helm/v3/cmd/helm@{VERSION}"
    );
    None
}

/// Runs a program with that as its input: what it prints, or what it complains about.
pub(crate) fn run(command: &mut Command, input: &str) -> Result<String, String> {
    use std::io::Write as _;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let mut stdin = child.stdin.take().unwrap();
    let text = input.to_owned();
    // A program that does not read is no failure of ours.
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()).is_ok());
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    writer.join().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("{}{}", text(&output.stdout), text(&output.stderr)))
    }
}
