//! Serving one record: its connections, and the reconcilers as long as it has them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trellis_runtime::Site;
use trellis_runtime::client::{Fence, Manners};
use trellis_runtime::credentials::{Awaited, State};
use trellis_runtime::lease::Pass;

use super::record::{Access, Asked, Record};
use super::report::{Report, Said, say};
use super::{Inner, Progress, Served};

/// How long a record rests whose reconcilers ended without having been told to.
const REST: Duration = Duration::from_secs(30);

/// Serves a record until `stop` says so. The pass ends with the last site that was given out.
pub(super) async fn serve(fleet: Arc<Inner>, record: Arc<Record>, pass: Pass, stop: CancellationToken) {
    let fence: Fence = Arc::new(move || pass.is_valid());
    let mut tasks = JoinSet::new();
    let said = Said::new(None);
    let report = Report {
        name: record.name.clone(),
        about: record.about.clone(),
        control: fleet.parts.control.view("fleet", Arc::clone(&fence)),
        recorder: fleet.recorder.clone(),
        clock: fleet.parts.clock,
    };
    tasks.spawn(report.run(said.subscribe()));
    match &record.asked {
        Err((reason, message)) => {
            say(&said, false, reason, message.clone());
            stop.cancelled().await;
        }
        Ok(asked) => {
            let links = Links::new(asked, &fleet.parts.control, &mut tasks);
            let one = One { fleet: &fleet, record: &record, asked, fence, said: &said };
            one.serve(links, &stop).await;
        }
    }
    // What is written now must have ended before anybody else may act.
    tasks.shutdown().await;
}

/// The connections of a record.
struct Links {
    control: watch::Receiver<State>,
    infra: watch::Receiver<State>,
    tenant: Option<watch::Receiver<State>>,
    /// Keeps the states of those alive that never change.
    _constant: Vec<watch::Sender<State>>,
}

impl Links {
    fn new(asked: &Asked, control: &Site, tasks: &mut JoinSet<()>) -> Self {
        let mut constant = Vec::new();
        let mut open = |access: &Access, name: &str| {
            if let Some(source) = access.source(control) {
                let awaited = Awaited::new(source, name, Manners::default());
                let state = awaited.state();
                tasks.spawn(awaited.run());
                state
            } else {
                let state = watch::Sender::new(State::Connected(control.clone(), None));
                let receiver = state.subscribe();
                constant.push(state);
                receiver
            }
        };
        Self {
            control: open(&asked.control, "control"),
            infra: open(&asked.infra, "infra"),
            tenant: asked.tenant.as_ref().map(|access| open(access, "tenant")),
            _constant: constant,
        }
    }

    fn states(&mut self) -> (State, State, Option<State>) {
        let seen = |state: &mut watch::Receiver<State>| state.borrow_and_update().clone();
        (seen(&mut self.control), seen(&mut self.infra), self.tenant.as_mut().map(seen))
    }

    /// Waits until one of them changes.
    async fn changed(&mut self) {
        let tenant = async {
            match &mut self.tenant {
                Some(tenant) => tenant.changed().await,
                None => std::future::pending().await,
            }
        };
        // Those that feed them live as long as this does.
        tokio::select! {
            _ = self.control.changed() => {}
            _ = self.infra.changed() => {}
            _ = tenant => {}
        }
    }
}

/// One record that is served.
struct One<'a> {
    fleet: &'a Inner,
    record: &'a Record,
    asked: &'a Asked,
    fence: Fence,
    said: &'a Said,
}

impl One<'_> {
    async fn serve(&self, mut links: Links, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let (control, infra, tenant) = links.states();
            let looking = [Some(&control), Some(&infra), tenant.as_ref()].into_iter().flatten();
            let looking = looking.filter(|state| matches!(state, State::Looking)).count() > 0;
            if let (false, Some(control), Some(infra)) = (looking, control.site(), infra.site()) {
                let tenant = tenant.as_ref().and_then(State::site);
                self.run(&mut links, control, infra, tenant, stop).await;
                continue;
            }
            self.say(&links, &Progress::Beginning);
            tokio::select! {
                () = stop.cancelled() => {}
                () = links.changed() => {}
            }
        }
    }

    /// Runs the reconcilers until they are to end or have to begin anew with another site.
    async fn run(
        &self,
        links: &mut Links,
        control: &Site,
        infra: &Site,
        tenant: Option<&Site>,
        stop: &CancellationToken,
    ) {
        let parts = &self.fleet.parts;
        let view = |site: &Site, name: &str| site.view(name, Arc::clone(&self.fence));
        let served = Served {
            name: self.record.name.clone(),
            about: self.record.about.clone(),
            asked: self.asked.clone(),
            control: view(control, "control"),
            tenant: tenant.map(|site| view(site, "tenant")),
            infra: view(infra, "infra"),
            metrics: parts.metrics.of(&self.record.name),
            progress: watch::Sender::new(Progress::default()),
            clock: parts.clock,
        };
        let acting = stop.child_token();
        let mut progress = served.progress.subscribe();
        // It is said for the first time when the reconcilers have begun, and have said how far they are.
        progress.mark_changed();
        let reconcilers = parts.reconcilers.iter().map(|one| one.run(served.clone(), acting.clone()));
        // One that panics ends its record, and no other.
        let running = std::panic::AssertUnwindSafe(join_all(reconcilers)).catch_unwind();
        let mut running = pin!(running);
        let by_itself = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break false,
                _ = &mut running => break true,
                Ok(()) = progress.changed() => {
                    let now = progress.borrow_and_update().clone();
                    self.say(links, &now);
                }
                () = links.changed() => {
                    let far = progress.borrow().clone();
                    self.say(links, &far);
                    let (_, _, now) = links.states();
                    if tenant.is_none() && now.is_some_and(|state| state.site().is_some()) {
                        tracing::info!(tenant = self.record.name, "its own API is known now");
                        break false;
                    }
                }
            }
        };
        acting.cancel();
        if by_itself {
            tracing::error!(tenant = self.record.name, "what looked after it has ended; it begins anew");
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(REST) => {}
            }
        } else {
            let _ = running.await;
        }
        self.fleet.idle.lock().remove(&self.record.name);
        served.metrics.forget();
    }

    /// Says how the record is served with the connections it has.
    fn say(&self, links: &Links, progress: &Progress) {
        let trouble = |state: &watch::Receiver<State>| state.borrow().trouble().map(ToString::to_string);
        let lacks = |state: &watch::Receiver<State>| matches!(*state.borrow(), State::Failed(_));
        let needed = [("control", &links.control), ("infra", &links.infra)];
        let missing: Vec<String> = needed
            .iter()
            .filter(|(_, state)| lacks(state))
            .filter_map(|(site, state)| {
                Some(format!("the {site} site cannot be reached: {}", trouble(state)?))
            })
            .collect();
        if !missing.is_empty() {
            say(self.said, false, "BadCredentials", missing.join("; "));
            return;
        }
        if needed.iter().any(|(_, state)| state.borrow().site().is_none()) {
            return;
        }
        let mut idle = self.fleet.idle.lock();
        match progress {
            Progress::Working => drop(idle.remove(&self.record.name)),
            Progress::Beginning => return,
            Progress::NotSynced(why) => {
                idle.insert(self.record.name.clone(), why.clone());
                say(self.said, false, "NotSynced", why.clone());
                return;
            }
        }
        drop(idle);
        let mut told = vec!["its machines are looked after".to_owned()];
        let tenant = links.tenant.as_ref().map(|tenant| ("tenant", tenant));
        for (site, state) in needed.into_iter().chain(tenant) {
            if let Some(why) = trouble(state) {
                let what =
                    if lacks(state) { "its Nodes are not known" } else { "new credentials are of no use" };
                told.push(format!("{site}: {what}: {why}"));
            }
        }
        say(self.said, true, "Serving", told.join("; "));
    }
}
