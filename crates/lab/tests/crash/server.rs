//! The lab in a process of its own: this program, called with an argument no person types.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use serde_json::{Value, json};
use trellis_lab::{Lab, Options, Secret, User};

use crate::support::Result;
use crate::support::client::{Client, Credentials};

/// The argument that makes this program a server.
pub(crate) const SERVE: &str = "--serve-for-the-crash-test";
/// The token of the administrator.
const TOKEN: &str = "crash-token";

/// A running lab.
pub(crate) struct Server {
    process: Child,
    pub(crate) client: Client,
}

impl Server {
    /// Starts a lab on a folder, and waits until it listens.
    pub(crate) async fn start(folder: &Path) -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(SERVE)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut said = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut said)?;
        }
        let place: Value = serde_json::from_str(&said).map_err(|_| "the lab does not start again")?;
        let text = |field: &str| place[field].as_str().unwrap_or_default();
        let token = Credentials::Token(TOKEN.to_owned());
        let client = Client::new(text("base"), text("authority"), &token)?;
        client.get("/readyz").await?.ok(200);
        Ok(Self { process, client })
    }

    /// Ends the process at once, as a crash does.
    pub(crate) fn kill(mut self) -> Result {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Gone already, where the test killed it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves a folder until standard input ends, which it does when whoever started us is gone.
pub(crate) fn serve(folder: &Path) -> ExitCode {
    match try_to_serve(folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn try_to_serve(folder: &Path) -> Result {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let _lab = runtime.block_on(async {
        let administrator =
            User { name: "admin".to_owned(), groups: vec!["system:masters".to_owned()], ..User::default() };
        let options = Options {
            folder: Some(folder.to_owned()),
            tokens: vec![(Secret::new(TOKEN), administrator)],
            ..Options::default()
        };
        let mut lab = Lab::start(options).await?;
        let listening = lab.listen(0).await?;
        let place = json!({
            "base": format!("https://{}", listening.address), "authority": lab.authority_pem(),
        });
        let mut out = std::io::stdout().lock();
        writeln!(out, "{place}")?;
        out.flush()?;
        Result::Ok(lab)
    })?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
