//! `trellis down`.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::up::home::{Claim, Home, HomeError};
use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::live::words;
use crate::output::{Output, print_json, remark};

/// Stop what `trellis up` runs, and with --purge remove all that it made.
///
/// The process is asked to end, and waited for. Everything is kept in the folder, and the next `trellis up` goes on
/// where it was. With --purge the infra cluster, the tenant cluster and their data are removed; what others have put
/// into the folder stays.
#[derive(Debug, Args)]
pub(crate) struct Down {
    /// The folder that was given to `trellis up`.
    #[arg(long, value_name = "DIR", default_value = super::up::FOLDER)]
    dir: PathBuf,
    /// Remove everything that `trellis up` made.
    #[arg(long)]
    purge: bool,
    /// How long the process may take to end, such as 30s or 2m.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = words::duration)]
    timeout: Duration,
}

impl Down {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        let home = Home::new(&self.dir);
        if !home.is_ours() {
            return Err(HomeError::NotOurs(self.dir).into());
        }
        let say = |text: &str| match output.format {
            Format::Human => remark(&format!("{text}\n")),
            Format::Json => Ok(()),
        };
        let (claim, stopped) = match home.claim() {
            Ok(claim) => (claim, None),
            Err(HomeError::Running { pid, .. }) => {
                let pid = pid.ok_or_else(|| {
                    Failure::Refused(format!(
                        "`trellis up` runs in {}, but has not written down as which process; try again",
                        self.dir.display()
                    ))
                })?;
                say(&format!("asking process {pid} to end"))?;
                (self.stop(&home, pid)?, Some(pid))
            }
            Err(error) => return Err(error.into()),
        };
        let folder = self.dir.display();
        let outcome = if stopped.is_some() { "stopped" } else { "nothing ran" };
        if self.purge {
            // Somebody may have started the infra cluster alone, with `trellis lab`.
            let alone = trellis_lab::claim_folder(&home.infra());
            let _alone = alone.map_err(|error| Failure::Rejected(error.to_string()))?;
            home.purge(&claim)?;
            say(&format!("{outcome}; what `trellis up` made in {folder} is removed"))?;
        } else {
            say(&format!("{outcome}; the next `trellis up --dir {folder}` goes on where it was"))?;
        }
        if output.format == Format::Json {
            print_json(&json!({"folder": self.dir, "stopped": stopped, "purged": self.purge}))?;
        }
        Ok(Exit::Success)
    }

    /// Asks the process to end and waits until it has.
    fn stop(&self, home: &Home, pid: i32) -> Result<Claim, Failure> {
        let process =
            Pid::from_raw(pid).ok_or_else(|| Failure::Refused(format!("{pid} is no number of a process")))?;
        match kill_process(process, Signal::TERM) {
            // It has ended meanwhile.
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => {
                return Err(Failure::Refused(format!("process {pid} cannot be asked to end: {error}")));
            }
        }
        let (sender, receiver) = mpsc::channel();
        let waiting = home.clone();
        // Waits for as long as it takes; this process does not.
        std::thread::spawn(move || drop(sender.send(waiting.wait())));
        match receiver.recv_timeout(self.timeout) {
            Ok(claim) => Ok(claim?),
            Err(_) => Err(Failure::TimedOut(format!(
                "process {pid} has not ended after {}; `kill -KILL {pid}` ends it, and loses nothing that was acknowledged",
                words::span(SignedDuration::try_from(self.timeout).unwrap_or_default()),
            ))),
        }
    }
}
