//! The logs of daemons.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};
use trellis_runtime::traces::Traces;

/// Sets up the log of a daemon: what TRELLIS_LOG asks for, on standard error; and traces where they are wished for.
pub(super) fn begin(as_json: bool, traces: Option<&Traces>) {
    begin_at("info", as_json, traces);
}

/// Sets up the log of a command that tells its progress itself: nothing, unless TRELLIS_LOG asks for it.
pub(super) fn begin_quietly() {
    begin_at("off", false, None);
}

/// Sets up the log of a command that tells its progress itself, in a file that only its owner may read. Where TRELLIS_LOG
/// asks for a log, it is on standard error instead.
pub(super) fn begin_into(path: &Path) -> io::Result<()> {
    if std::env::var_os("TRELLIS_LOG").is_some() {
        begin_quietly();
        return Ok(());
    }
    let file = File::options().append(true).create(true).mode(0o600).open(path)?;
    let log = tracing_subscriber::fmt::layer().compact().with_ansi(false).with_writer(Mutex::new(file));
    let _ = tracing_subscriber::registry().with(log.with_filter(EnvFilter::new("info"))).try_init();
    Ok(())
}

fn begin_at(level: &str, as_json: bool, traces: Option<&Traces>) {
    let filter = EnvFilter::try_from_env("TRELLIS_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = if as_json { log.json().boxed() } else { log.compact().boxed() };
    let all = tracing_subscriber::registry().with(log.with_filter(filter));
    // Whoever started the program may have set up its own.
    let _ = all.with(traces.map(Traces::layer)).try_init();
}
