//! `trellis drain` and `trellis uncordon`.

mod evacuation;
mod objections;
mod target;

use std::time::Duration;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;
use trellis_engine::controllers::{DrainProgress, NodeDrain};
use trellis_engine::machines::{Deadlines, PodSeen};
use trellis_runtime::client::Verb;
use trellis_runtime::{Key, Resource, Selection};

use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::live::connect::Asked;
use crate::live::find::FamilyName;
use crate::live::screen::Bar;
use crate::live::table::{Cell, Style, Table};
use crate::live::{Screen, Where, words};
use crate::output::{Output, print, print_json, remark};
use evacuation::Evacuation;
use objections::{Allowed, objections};
use target::{On, Target};

const NODE: Resource = Resource::cluster("", "v1", "nodes", "Node");
const POD: Resource = Resource::namespaced("", "v1", "pods", "Pod");
/// The pods VMs run in.
const LAUNCHERS: &str = "kubevirt.io=virt-launcher";
/// How often what is shown is drawn anew although nothing changed.
const TICK: Duration = Duration::from_secs(1);
/// Longer than anybody waits.
const ENDLESS: SignedDuration = SignedDuration::from_hours(24 * 365);

/// Empty a tenant's Node, or a host of the infra cluster, and show what it waits for.
///
/// NODE is a Node of the cluster that --kubeconfig leads to, or a Machine there: then its Node is drained in its tenant. The
/// Node is cordoned, its pods are evicted by the same plan the controller has for machines that go, disruption budgets are
/// kept and asked again, and volumes are waited for. Pods of DaemonSets, static pods and pods that have ended stay.
///
/// With --host it is a host of the infra cluster: it is cordoned, its VMs are asked to leave (those that can are moved live,
/// the machines of the others are replaced by their controller), and every VM's way is shown.
#[derive(Debug, Args)]
pub(crate) struct Drain {
    #[command(flatten)]
    target: Target,
    /// Go on although DaemonSets have pods there; those stay.
    #[arg(long)]
    ignore_daemonsets: bool,
    /// Go on although pods would be lost that nothing makes anew.
    #[arg(long)]
    force: bool,
    /// Go on although pods would lose what is in their emptyDir volumes.
    #[arg(long)]
    delete_emptydir_data: bool,
    /// Delete pods instead of evicting them: disruption budgets are not asked.
    #[arg(long)]
    disable_eviction: bool,
    /// Give up after this time, such as 90s or 10m; the Node stays cordoned.
    #[arg(long, value_name = "DURATION", value_parser = words::duration)]
    timeout: Option<Duration>,
    /// Say what would be evicted, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// The family of the Machine, where several have one of that name.
    #[arg(long, value_enum)]
    family: Option<FamilyName>,
    #[command(flatten)]
    place: Where,
}

/// Let a Node or host take new pods or machines again.
#[derive(Debug, Args)]
pub(crate) struct Uncordon {
    #[command(flatten)]
    target: Target,
    /// The family of the Machine, where several have one of that name.
    #[arg(long, value_enum)]
    family: Option<FamilyName>,
    #[command(flatten)]
    place: Where,
}

impl Uncordon {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        crate::live::run(async move {
            let on = self.target.find(&self.place, self.family).await?;
            let node = node(&on).await?;
            let was = node["spec"]["unschedulable"] == true;
            if was {
                let patch =
                    json!({"metadata": {"uid": node["metadata"]["uid"]}, "spec": {"unschedulable": null}});
                let written =
                    on.connected.site.merge_patch::<Value>(&NODE, &Key::cluster(&on.node), &patch).await;
                written.map_err(|error| {
                    on.connected.explain(error, Asked::new(Verb::Patch, &NODE, "", &on.node))
                })?;
            }
            match output.format {
                Format::Json => print_json(&json!({ "node": on.node, "wasCordoned": was }))?,
                Format::Human if was => print(&format!("{} uncordoned", on.call()))?,
                Format::Human => print(&format!("{} is not cordoned", on.call()))?,
            }
            Ok(Exit::Success)
        })
    }
}

async fn node(on: &On) -> Result<Value, Failure> {
    let found = on.connected.site.get(&NODE, &Key::cluster(&on.node)).await;
    found.map_err(|error| on.connected.explain(error, Asked::new(Verb::Get, &NODE, "", &on.node)))
}

impl Drain {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        crate::live::run(self.drain(output))
    }

    async fn drain(self, output: Output) -> Result<Exit, Failure> {
        let on = self.target.find(&self.place, self.family).await?;
        let labels = if on.is_host { LAUNCHERS } else { "" };
        let selection = Selection::default().fields(&format!("spec.nodeName={}", on.node)).labels(labels);
        let pods = on.connected.site.list::<Value>(&POD, &selection).await;
        let pods = pods.map_err(|error| on.connected.explain(error, Asked::new(Verb::List, &POD, "", "")))?;
        node(&on).await?;
        let allowed = Allowed {
            daemon_sets: self.ignore_daemonsets,
            lone: self.force,
            empty_dirs: self.delete_emptydir_data,
        };
        // VMs are made anew by what runs them, and nothing of theirs is in an emptyDir that is worth keeping.
        let against = if on.is_host { Vec::new() } else { objections(&pods, allowed) };
        if !against.is_empty() {
            return Err(Failure::Rejected(format!(
                "{} is not drained:\n  - {}",
                on.call(),
                against.join("\n  - ")
            )));
        }
        if self.dry_run {
            return dry_run(&on, &pods, output);
        }
        let deadlines = if self.disable_eviction {
            Deadlines { drain: SignedDuration::ZERO, force: ENDLESS, ..Deadlines::default() }
        } else {
            Deadlines { drain: ENDLESS, ..Deadlines::default() }
        };
        let drain = NodeDrain::begin(on.connected.site.clone(), &on.node, labels, deadlines).await;
        let drain =
            drain.map_err(|error| on.connected.explain(error, Asked::new(Verb::Get, &NODE, "", &on.node)))?;
        let evacuation =
            if on.is_host { Some(Evacuation::watch(&on.connected, &on.node).await?) } else { None };
        self.follow(&on, drain, evacuation.as_ref(), output).await
    }

    async fn follow(
        &self,
        on: &On,
        mut drain: NodeDrain,
        evacuation: Option<&Evacuation>,
        output: Output,
    ) -> Result<Exit, Failure> {
        let began = Instant::now();
        let end = self.timeout.map(|timeout| began + timeout);
        let mut shown = View::new(output);
        loop {
            let progress = drain.advance().await;
            let progress = progress
                .map_err(|error| on.connected.explain(error, Asked::new(Verb::Create, &POD, "", "")))?;
            let vms = evacuation.map(Evacuation::table);
            shown.show(on, &progress, vms.as_ref(), began)?;
            let Some((_, message)) = &progress.waits else {
                shown.done(on)?;
                return Ok(Exit::Success);
            };
            if end.is_some_and(|end| Instant::now() >= end) {
                let after = words::span(SignedDuration::try_from(began.elapsed()).unwrap_or_default());
                return Err(Failure::TimedOut(format!(
                    "{} is not empty after {after}: {}; it stays cordoned",
                    on.call(),
                    reason(&progress, message)
                )));
            }
            let tick = Instant::now() + TICK;
            let _ = tokio::time::timeout_at(end.map_or(tick, |end| end.min(tick)), drain.news()).await;
        }
    }
}

/// What there is to say of a drain: a failed request goes before what the plan says.
fn reason(progress: &DrainProgress, message: &str) -> String {
    match &progress.failure {
        Some(failure) => format!("{message}; {failure}"),
        None => message.to_owned(),
    }
}

fn dry_run(on: &On, pods: &[Value], output: Output) -> Result<Exit, Failure> {
    let names: Vec<String> =
        pods.iter().filter(|pod| objections::is_evicted(pod)).map(objections::call).collect();
    match output.format {
        Format::Json => print_json(&json!({ "node": on.node, "dryRun": true, "pods": names }))?,
        Format::Human if names.is_empty() => print(&format!("{} has no pods to evict", on.call()))?,
        Format::Human => print(&format!("{} would lose {}", on.call(), names.join(", ")))?,
    }
    Ok(Exit::Success)
}

/// Where a drain is shown.
struct View {
    screen: Screen,
    output: Output,
    /// The most pods that were waited for together: the end of the bar.
    most: usize,
    told: Option<Value>,
}

impl View {
    fn new(output: Output) -> Self {
        Self { screen: Screen::new(output), output, most: 0, told: None }
    }

    fn show(
        &mut self,
        on: &On,
        progress: &DrainProgress,
        vms: Option<&Table>,
        began: Instant,
    ) -> Result<(), Failure> {
        let Some((word, message)) = &progress.waits else { return Ok(()) };
        let none = Vec::new();
        let pods = progress.pods.as_ref().unwrap_or(&none);
        self.most = self.most.max(pods.len());
        let said = reason(progress, message);
        if self.output.format == Format::Json {
            let refused = pods.iter().filter(|pod| pod.refused.is_some()).count();
            let line = json!({
                "type": "progress", "node": on.node, "reason": word, "message": said, "podsLeft": pods.len(),
                "podsRefused": refused,
            });
            if self.told.as_ref() != Some(&line) {
                print(&line.to_string())?;
                self.told = Some(line);
            }
            return Ok(());
        }
        let passed = words::span(SignedDuration::try_from(began.elapsed()).unwrap_or_default());
        let said = if self.screen.is_terminal() { format!("{said}, {passed}") } else { said };
        let (most, left) = (count(self.most), count(pods.len()));
        let call = on.call();
        let bar = Bar { name: &call, done: most.saturating_sub(left), of: most, said: &said };
        let own = table(pods, Timestamp::now());
        let below = vms.unwrap_or(&own).lines(self.screen.layout());
        self.screen.progress(&bar, &below)?;
        Ok(())
    }

    fn done(&mut self, on: &On) -> Result<(), Failure> {
        match self.output.format {
            Format::Json => print(&json!({ "type": "done", "node": on.node }).to_string())?,
            Format::Human => self.screen.say(&format!("{} drained", on.call()))?,
        }
        if on.machine.is_none() && self.output.format == Format::Human {
            let flag = if on.is_host { "--host " } else { "" };
            remark(&format!("It takes nothing new until `trellis uncordon {flag}{}`.\n", on.node))?;
        }
        Ok(())
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The pods that are waited for, those whose budgets refuse first.
fn table(pods: &[PodSeen], now: Timestamp) -> Table {
    let mut pods: Vec<&PodSeen> = pods.iter().collect();
    pods.sort_by_key(|pod| (pod.refused.is_none(), &pod.namespace, &pod.name));
    let rows = pods
        .into_iter()
        .map(|pod| {
            let (state, why) = match (&pod.refused, &pod.deleting) {
                (_, Some((at, _))) => {
                    (Cell::styled("going", Style::Busy), format!("it has {}", words::left(*at, now)))
                }
                (Some(refusal), None) => {
                    let times =
                        if refusal.times > 1 { format!(" ({} times)", refusal.times) } else { String::new() };
                    (Cell::styled("refused", Style::Bad), format!("{}{times}", refusal.why))
                }
                (None, None) => (Cell::styled("asked", Style::Plain), String::new()),
            };
            vec![format!("  {}/{}", pod.namespace, pod.name).into(), state, why.into()]
        })
        .collect();
    Table { titles: vec!["  POD", "STATE", "WHY"], rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::table::Layout;
    use crate::live::testing::at;
    use trellis_engine::machines::Refusal;

    #[test]
    fn budgets_that_refuse_are_listed_first() {
        let pod = |name: &str| PodSeen {
            namespace: "n".to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
            daemon: false,
            mirror: false,
            finished: false,
            deleting: None,
            refused: None,
            has_volumes: false,
        };
        let now = at("2026-01-01T00:00:00Z");
        let refused = Refusal { why: "needs 2 healthy pods".to_owned(), at: now, times: 3 };
        let pods = [
            pod("a"),
            PodSeen { deleting: Some((at("2026-01-01T00:00:20Z"), 30)), ..pod("b") },
            PodSeen { refused: Some(refused), ..pod("c") },
        ];
        assert_eq!(
            table(&pods, now).text(Layout::default()),
            "  POD  STATE    WHY\n  n/c  refused  needs 2 healthy pods (3 times)\n  n/a  asked    -\n  n/b  going    it has 20 s left\n"
        );
    }
}
