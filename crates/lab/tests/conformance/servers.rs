//! The servers the scenarios run against, each started when its first scenario needs it.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

use crate::context::{Cx, Leftovers, Run};
use crate::support::real::RealCluster;
use crate::support::target::Target;
use crate::support::{Result, lab, parts};

thread_local! {
    /// What the last failed assertion of this thread said, and where it is.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps what failed assertions say for the report of their trial, instead of printing it right away.
pub(crate) fn keep_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let message = info.payload_as_str().unwrap_or("something panicked");
        if !place.contains("/tests/") {
            eprintln!("panic in the server: {place}: {message}");
        }
        PANIC.set(format!("{place}: {message}"));
    }));
}

/// One server for all its scenarios.
pub(crate) struct Server {
    kind: Kind,
    runtime: Runtime,
    /// Where the real server keeps its files.
    directory: tempfile::TempDir,
    target: OnceLock<std::result::Result<Mutex<Option<Arc<Target>>>, String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lab,
    Real,
}

/// The servers `TRELLIS_CONFORMANCE` picks.
pub(crate) fn chosen() -> Result<Vec<Arc<Server>>> {
    let choice = std::env::var("TRELLIS_CONFORMANCE").unwrap_or_default();
    let choice = if choice.trim().is_empty() { "lab" } else { choice.as_str() };
    choice
        .split(',')
        .map(|name| match name.trim() {
            "lab" => Server::new(Kind::Lab),
            "real" => Server::new(Kind::Real),
            other => Err(format!("TRELLIS_CONFORMANCE names `{other}`; there are `lab` and `real`").into()),
        })
        .collect()
}

impl Server {
    fn new(kind: Kind) -> Result<Arc<Self>> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let directory = tempfile::Builder::new().prefix("trellis-conformance-").tempdir()?;
        Ok(Arc::new(Self { kind, runtime, directory, target: OnceLock::new() }))
    }

    /// What the trials are named after.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            Kind::Lab => "lab",
            Kind::Real => "real",
        }
    }

    /// Another server of this kind, which shares nothing with this one.
    pub(crate) fn another(&self) -> Result<Arc<Self>> {
        Self::new(self.kind)
    }

    /// Runs one scenario to its end.
    pub(crate) fn run(&self, about: &str, run: Run) -> Result {
        let target = self.target()?;
        let leftovers = Leftovers::default();
        let scenario = AssertUnwindSafe(|| {
            self.runtime.block_on(async {
                let cx = Cx::new(Arc::clone(&target), about, Arc::clone(&leftovers)).await?;
                run(cx).await
            })
        });
        let outcome = panic::catch_unwind(scenario).unwrap_or_else(|_| Err(PANIC.take().into()));
        let leftovers = std::mem::take(&mut *leftovers.lock());
        if !leftovers.is_empty() {
            let admin = target.client(&target.admin)?;
            self.runtime.block_on(async {
                for path in leftovers {
                    admin.delete(path).await?;
                }
                Result::Ok(())
            })?;
        }
        outcome
    }

    /// The running server, started by whoever comes first.
    fn target(&self) -> Result<Arc<Target>> {
        let started = self.target.get_or_init(|| {
            let start = async {
                match self.kind {
                    Kind::Lab => lab::start(self.directory.path()).await,
                    Kind::Real => RealCluster::start(self.directory.path(), &parts::find()?).await,
                }
            };
            let target = self.runtime.block_on(start).map_err(|failure| failure.to_string())?;
            Ok(Mutex::new(Some(Arc::new(target))))
        });
        let target = started.as_ref().map_err(Clone::clone)?;
        target.lock().clone().ok_or_else(|| "the server has ended".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The programs go before the directory they write to.
        if let Some(Ok(target)) = self.target.get() {
            drop(target.lock().take());
        }
    }
}
