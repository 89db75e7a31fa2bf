//! virt-handler on all hosts: starts the machines, tells what becomes of them, and ends them.
//!
//! What a machine is made of is looked up here and handed down to the world; what happens inside is the guest's. A
//! handler on a host without power or cable writes nothing.

pub mod drive;
pub mod plan;
mod shutdown;
pub mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::drive::{DriveError, Sources};
use self::shutdown::Shutdown;
use super::instance::{self, is_down, is_final, phase};
use crate::client::{Cache, Client, Identity, Result};
use crate::context::{Context, Tasks};
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::guests;
use crate::kinds::{CONFIG_MAP, POD, PV, PVC, SECRET, VMI};
use crate::object::{Condition, Key, Object as _};
use crate::world::machine::{Command, Machine, Plan, State};

/// How often a machine that cannot be started is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// Starts the handlers.
pub fn start(context: &Context, tasks: &mut Tasks) {
    let handler = Handler::new(context);
    tasks.spawn(watch_hosts(context.clone(), Arc::clone(&handler.runs), handler.poke.clone()));
    tasks.control(handler);
}

/// A machine that a handler runs.
#[derive(Debug, Clone)]
struct Run {
    /// The uid of its instance.
    uid: String,
    machine: Arc<Machine>,
    /// How its end is going.
    shutdown: Option<Shutdown>,
    /// The host it was on when its shape was last handed to it.
    settled_on: String,
    /// How often the host had been switched on or off when it started.
    boots: u64,
    /// Whether it is to be held before its first step.
    hold: bool,
    /// Whether its domain came up. How it is now does not tell: a guest may have ended before anybody looked.
    started: Arc<AtomicBool>,
}

type Runs = Arc<Mutex<BTreeMap<Key, Run>>>;

/// The handlers of all hosts.
struct Handler {
    context: Context,
    client: Client,
    recorder: Recorder,
    vmis: Arc<Cache>,
    pods: Arc<Cache>,
    claims: Arc<Cache>,
    volumes: Arc<Cache>,
    secrets: Arc<Cache>,
    config_maps: Arc<Cache>,
    runs: Runs,
    guests: Mutex<JoinSet<()>>,
    poke: mpsc::UnboundedSender<Key>,
    pokes: Mutex<Option<mpsc::UnboundedReceiver<Key>>>,
}

impl Controller for Handler {
    const NAME: &'static str = "virt-handler";

    fn watches(&self) -> Vec<Watch> {
        let known = [&self.claims, &self.volumes, &self.secrets, &self.config_maps];
        let mut watches = vec![
            Watch::mapped(&self.vmis, |change| {
                // Nothing is a handler's before the instance has a host.
                let gone = change.after.is_none();
                let here = !change.object().text("/status/nodeName").is_empty();
                if gone || here { vec![change.key()] } else { Vec::new() }
            }),
            Watch::owners(&self.pods, VMI.kind),
        ];
        watches.extend(known.map(Watch::known));
        watches
    }

    fn pokes(&self) -> Option<mpsc::UnboundedReceiver<Key>> {
        self.pokes.lock().take()
    }

    async fn look(&self, key: &Key) -> Looked {
        let vmi = self.vmis.get(key);
        let run = self.runs.lock().get(key).cloned();
        if let Some(run) = &run
            && vmi.as_ref().is_none_or(|vmi| vmi.uid() != run.uid)
        {
            self.drop_run(key, run);
            return Ok(Next::After(Duration::ZERO));
        }
        let Some(vmi) = vmi else { return Ok(Next::Done) };
        let node = vmi.text("/status/nodeName");
        let heard = self.context.world.hosts.get(node).is_some_and(crate::world::hosts::Host::is_heard);
        if node.is_empty() || !heard {
            return Ok(Next::Done);
        }
        if is_final(&vmi) {
            if let Some(run) = run {
                self.drop_run(key, &run);
            }
            return Ok(Next::Done);
        }
        if !matches!(phase(&vmi), "Scheduled" | "Running") {
            return Ok(Next::Done);
        }
        let pod = instance::current_pod(&instance::pods(&self.pods, &vmi), &vmi);
        match (run, pod) {
            (Some(run), pod) => self.tend(key, &vmi, run, pod.as_deref()).await,
            (None, Some(pod)) => self.begin(key, &vmi, &pod).await,
            // Without its pod there is nothing to run in; virt-controller says so.
            (None, None) => Ok(Next::Done),
        }
    }
}

impl Handler {
    fn new(context: &Context) -> Self {
        let client = context.client(Identity::VIRT_HANDLER);
        let (poke, pokes) = mpsc::unbounded_channel();
        Self {
            context: context.clone(),
            recorder: Recorder::new(&client, context.clock, "virt-handler"),
            vmis: client.cache(&VMI),
            pods: client.cache(&POD),
            claims: client.cache(&PVC),
            volumes: client.cache(&PV),
            secrets: client.cache(&SECRET),
            config_maps: client.cache(&CONFIG_MAP),
            runs: Runs::default(),
            guests: Mutex::default(),
            poke,
            pokes: Mutex::new(Some(pokes)),
            client,
        }
    }

    /// Starts the machine of an instance that has come to a host.
    ///
    /// An instance that says it runs and has no machine was running when this whole program ended: the world below
    /// the API is not kept on disk. Its machine is started anew, as if its host had never gone; the object stays as
    /// it is, since nobody who watches it has seen anything else.
    async fn begin(&self, key: &Key, vmi: &Value, pod: &Value) -> Looked {
        if is_down(pod) || vmi.is_deleting() || pod.is_deleting() {
            return self.end(vmi, "Failed", None).await;
        }
        let mut wanted = vmi.clone();
        let claim = |name: &str| self.claims.get(&Key::new(vmi.namespace(), name));
        if status::accepted(&mut wanted, &claim, &self.context.clock.seconds()) {
            self.client.replace(&VMI, &wanted).await?;
            return Ok(Next::Done);
        }
        match self.plan(vmi, pod) {
            Ok(plan) => {
                self.spawn(key, vmi, plan);
                if phase(vmi) == "Scheduled" {
                    self.recorder.normal(&VMI, vmi, "Created", "VirtualMachineInstance defined.").await;
                }
                Ok(Next::Done)
            }
            Err(error) => {
                let message = format!("server error. command SyncVMI failed: \"{error}\"");
                let mut wanted = vmi.clone();
                let reason = "Synchronizing with the Domain failed.";
                if Condition::new("Synchronized", false, reason, &message)
                    .put(&mut wanted, &self.context.clock.seconds())
                {
                    self.recorder.warning(&VMI, vmi, "SyncFailed", &message).await;
                    self.client.replace(&VMI, &wanted).await?;
                }
                Ok(Next::After(AGAIN))
            }
        }
    }

    fn plan(&self, vmi: &Value, pod: &Value) -> Result<Plan, DriveError> {
        let key = |name: &str| Key::new(vmi.namespace(), name);
        let sources = Sources {
            secret: &|name| self.secrets.get(&key(name)),
            config_map: &|name| self.config_maps.get(&key(name)),
        };
        let handle = |claim: &str| {
            plan::handle(self.claims.get(&key(claim)).as_ref(), |name| self.volumes.get(&Key::cluster(name)))
        };
        Ok(Plan {
            vmi: vmi.clone(),
            pod: plan::place(pod),
            drive: drive::of(vmi, &sources)?,
            disks: plan::disks(vmi, &self.context.world.volumes, &handle),
            interfaces: plan::interfaces(vmi, pod, &self.context.stages),
        })
    }

    /// Lets a machine run, and has its instance looked at whenever something happens to it.
    fn spawn(&self, key: &Key, vmi: &Value, plan: Plan) {
        let node = plan.pod.node.clone();
        let hold = vmi.text("/spec/startStrategy") == "Paused" && phase(vmi) == "Scheduled";
        let (machine, commands) = Machine::new(plan);
        let (mut state, mut agent) = (machine.state(), machine.agent());
        self.context.world.machines.add(vmi.uid(), Arc::clone(&machine));
        let started = Arc::new(AtomicBool::new(false));
        let run = Run {
            uid: vmi.uid().to_owned(),
            machine: Arc::clone(&machine),
            shutdown: None,
            boots: self.context.world.hosts.boots(&node),
            settled_on: node,
            hold,
            started: Arc::clone(&started),
        };
        self.runs.lock().insert(key.clone(), run);
        let mut guests = self.guests.lock();
        while guests.try_join_next().is_some() {}
        guests.spawn(guests::run(self.context.clone(), machine, commands, started));
        let (poke, key) = (self.poke.clone(), key.clone());
        guests.spawn(async move {
            loop {
                let changed = tokio::select! {
                    biased;
                    changed = state.changed() => changed,
                    changed = agent.changed() => changed,
                };
                if changed.is_err() || poke.send(key.clone()).is_err() || state.borrow().is_over() {
                    return;
                }
            }
        });
    }

    /// Looks after a machine: says how it is, and ends it when it is time.
    async fn tend(&self, key: &Key, vmi: &Value, run: Run, pod: Option<&Value>) -> Looked {
        let state = run.machine.state().borrow().clone();
        if run.boots != self.context.world.hosts.boots(&run.settled_on)
            && run.machine.plan().pod.node == run.settled_on
        {
            // Its host was without power in between.
            return self.end(vmi, "Failed", Some("The VirtualMachineInstance crashed.")).await;
        }
        if state.is_over() && phase(vmi) == "Scheduled" && run.started.load(Ordering::Acquire) {
            // It ran before it ended, however short that was.
            return self.tell(key, vmi, &run, &State::Running).await;
        }
        match state {
            State::Starting if vmi.is_deleting() => {
                run.machine.command(Command::Destroy);
                run.machine.set_state(State::Destroyed);
                self.end(vmi, "Failed", None).await
            }
            State::Starting => Ok(Next::Done),
            State::Running | State::Paused => {
                let Some(pod) = pod.filter(|pod| !is_down(pod)) else {
                    run.machine.command(Command::Destroy);
                    return self.end(vmi, "Failed", Some("The VirtualMachineInstance crashed.")).await;
                };
                if vmi.is_deleting() || pod.is_deleting() {
                    return self.shut_down(key, vmi, &run).await;
                }
                self.tell(key, vmi, &run, &state).await
            }
            State::Shutdown => self.end(vmi, "Succeeded", None).await,
            State::Crashed(_) => self.end(vmi, "Failed", Some("The VirtualMachineInstance crashed.")).await,
            State::Destroyed => {
                // With a power button the guest had its chance; without one this is how it ends.
                let button = vmi.at("/spec/domain/features/acpi/enabled") != &Value::Bool(false);
                self.end(vmi, if button { "Failed" } else { "Succeeded" }, None).await
            }
        }
    }

    /// Says how a machine that runs is, if that changed.
    async fn tell(&self, key: &Key, vmi: &Value, run: &Run, state: &State) -> Looked {
        if run.hold && *state == State::Running && !run.machine.state().borrow().is_over() {
            run.machine.command(Command::Pause);
            self.change_run(key, |run| run.hold = false);
            return Ok(Next::Done);
        }
        let plan = run.machine.plan();
        let agent = run.machine.agent().borrow().clone();
        let mut wanted = vmi.clone();
        let moved = plan.pod.node != run.settled_on;
        let facts = status::Facts {
            plan: &plan,
            state,
            agent: agent.as_ref(),
            settled: moved,
            claim: &|name| self.claims.get(&Key::new(vmi.namespace(), name)),
            now: &self.context.clock.seconds(),
        };
        status::running(&mut wanted, &facts);
        let fabric = &self.context.world.fabric;
        for interface in &plan.interfaces {
            fabric.set_link(&plan.pod.pod_uid, &interface.network, !status::is_down(vmi, &interface.name));
        }
        let first = phase(vmi) != "Running";
        if wanted != *vmi {
            self.client.replace(&VMI, &wanted).await?;
        }
        if moved {
            let boots = self.context.world.hosts.boots(&plan.pod.node);
            self.change_run(key, |run| {
                run.settled_on.clone_from(&plan.pod.node);
                run.boots = boots;
            });
        }
        if first {
            self.recorder.normal(&VMI, vmi, "Started", "VirtualMachineInstance started.").await;
        }
        Ok(Next::Done)
    }

    /// Says that a machine has ended.
    async fn end(&self, vmi: &Value, phase: &str, crash: Option<&str>) -> Looked {
        let mut wanted = vmi.clone();
        status::ended(&mut wanted, phase, &self.context.clock.seconds());
        self.client.replace(&VMI, &wanted).await?;
        match crash {
            Some(message) => self.recorder.warning(&VMI, vmi, "Stopped", message).await,
            None => {
                self.recorder.normal(&VMI, vmi, "Stopped", "The VirtualMachineInstance was shut down.").await;
            }
        }
        Ok(Next::Done)
    }

    fn change_run(&self, key: &Key, change: impl FnOnce(&mut Run)) {
        if let Some(run) = self.runs.lock().get_mut(key) {
            change(run);
        }
    }

    /// Forgets a machine; one that still runs is switched off.
    fn drop_run(&self, key: &Key, run: &Run) {
        run.machine.command(Command::Destroy);
        run.machine.set_state(State::Destroyed);
        self.context.world.machines.remove(&run.uid);
        self.runs.lock().remove(key);
    }
}

/// Switches off what runs on hosts that lost power, and has everything on hosts that are heard again looked at.
async fn watch_hosts(context: Context, runs: Runs, poke: mpsc::UnboundedSender<Key>) {
    let vmis = context.client.cache(&VMI);
    let mut changes = context.world.hosts.changes();
    let mut known = context.world.hosts.all();
    while changes.changed().await.is_ok() {
        let now = context.world.hosts.all();
        for (name, host) in &now {
            if known.get(name) == Some(host) {
                continue;
            }
            if !host.powered {
                for run in runs.lock().values() {
                    if run.machine.plan().pod.node == *name {
                        run.machine.command(Command::Destroy);
                        run.machine.set_state(State::Crashed("the host lost power".to_owned()));
                    }
                }
            }
            for vmi in vmis.find("node", name) {
                // The receiver is there as long as the handler is.
                let _ = poke.send(Key::of(&vmi));
            }
        }
        known = now;
    }
}
