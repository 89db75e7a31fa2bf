//! `trellis up --detach`: the same command once more, in the background, and waiting for its word.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command, Stdio};

use super::greet;
use super::home::Home;
use super::told::{Told, Word};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Starts the process in the background and returns when the tenant cluster is there.
pub(super) fn start(home: &Home, output: Output) -> Result<Exit, Failure> {
    // It would say so itself, but into its log; and it takes the folder anew, in case somebody was faster.
    drop(home.claim()?);
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(home.log())?;
    let arguments = std::env::args_os().skip(1).filter(|argument| argument != "--detach");
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .arg("--background")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()?;
    let mut told = Told::people(output);
    let Some(words) = child.stdout.take() else { return Err(given_up(&mut child, home, None)) };
    for line in BufReader::new(words).lines().map_while(Result::ok) {
        match Word::read(&line) {
            Some(Word::Progress(step, said)) => told.say(step, &said)?,
            Some(Word::Ready(mut ready)) => {
                ready["detached"] = true.into();
                ready["log"] = home.log().display().to_string().into();
                greet(&ready, false, output)?;
                return Ok(Exit::Success);
            }
            Some(Word::Failed(why)) => return Err(given_up(&mut child, home, Some(why))),
            None => {}
        }
    }
    Err(given_up(&mut child, home, None))
}

/// Why the process in the background has ended.
fn given_up(child: &mut Child, home: &Home, why: Option<String>) -> Failure {
    let log = home.log();
    let code = child.wait().ok().and_then(|status| status.code());
    let why = why.unwrap_or_else(|| "it ended without a word".to_owned());
    let message = format!("{why} (its log: {})", log.display());
    if code == Some(Exit::TimedOut.code().into()) {
        Failure::TimedOut(message)
    } else {
        Failure::Refused(message)
    }
}
