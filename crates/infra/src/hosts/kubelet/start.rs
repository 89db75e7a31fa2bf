//! How a pod comes to run.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde_json::{Value, json};

use super::images::Pull;
use super::status::{self, INIT, MAIN};
use super::timers::Passing;
use super::{Kubelet, volumes};
use crate::controller::{Looked, Next};
use crate::kinds::{NODE, POD};
use crate::object::{Key, Object as _};

/// The first wait after something was missing; it doubles from there.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait after something was missing.
const LONGEST_WAIT: Duration = Duration::from_secs(122);

impl Kubelet {
    /// Brings a pod that does not run yet one step further.
    pub(super) async fn begin(&self, pod: &Value) -> Looked {
        if pod.text("/status/startTime").is_empty() {
            let mut new = pod.clone();
            status::accept(&mut new, &self.host_address(pod.text("/spec/nodeName")), &self.now());
            self.say(pod, &new).await?;
            return Ok(Next::Done);
        }
        if pod.text("/status/podIP").is_empty() {
            return self.prepare(pod).await;
        }
        self.initialize(pod).await
    }

    /// Mounts volumes and plugs the pod in.
    async fn prepare(&self, pod: &Value) -> Looked {
        if let Some(message) = volumes::missing(&self.client, pod).await? {
            self.recorder.warning(&POD, pod, "FailedMount", &message).await;
            return Ok(Next::After(self.wait_again("volumes", pod)));
        }
        if !volumes::are_attached(&self.context, &self.client, pod) {
            // Whoever attaches them says why it takes long; the attachment brings the pod back here.
            return Ok(Next::After(self.wait_again("attachments", pod)));
        }
        match self.timers.passing(&self.context.stages, "pod.start", pod, 0) {
            Passing::Wait(left) => return Ok(Next::After(left)),
            Passing::Failed(message) => {
                self.no_sandbox(pod, &message).await;
                return Ok(Next::After(self.wait_again("sandbox", pod)));
            }
            Passing::Passed => {}
        }
        let Some(addresses) = self.addresses_of(pod) else {
            self.no_sandbox(pod, "failed to allocate for range 0: no IP addresses available in range set")
                .await;
            return Ok(Next::After(self.wait_again("sandbox", pod)));
        };
        if !pod.flag("/spec/hostNetwork") {
            self.plug(pod, addresses.clone());
        }
        let pod = match self.attach(pod).await? {
            Ok(pod) => pod,
            Err(why) => {
                self.no_sandbox(pod, &why).await;
                return Ok(Next::After(self.wait_again("sandbox", pod)));
            }
        };
        let mut new = pod.clone();
        new.set("/status/podIP", addresses.first().map(ToString::to_string).unwrap_or_default().into());
        new.set("/status/podIPs", addresses.iter().map(|one| json!({"ip": one.to_string()})).collect());
        if pod.list(INIT.0).is_empty() {
            return self.start_containers(&pod, new).await;
        }
        status::judge(&mut new, &self.now());
        self.say(&pod, &new).await?;
        Ok(Next::Done)
    }

    /// Says that the sandbox of a pod cannot be made.
    pub(super) async fn no_sandbox(&self, pod: &Value, why: &str) {
        let id = status::container_id(pod, "", 0);
        let message = format!(
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to create pod network sandbox \
             k8s_{}_{}_{}_0({}): {why}",
            pod.name(),
            pod.namespace(),
            pod.uid(),
            id.trim_start_matches("cri-o://"),
        );
        self.recorder.warning(&POD, pod, "FailedCreatePodSandBox", &message).await;
    }

    /// How long to wait before something that was missing is looked for again.
    pub(super) fn wait_again(&self, what: &'static str, pod: &Value) -> Duration {
        let since = self.timers.since(what, pod, 0);
        since.clamp(FIRST_WAIT, LONGEST_WAIT)
    }

    /// The addresses of a pod, given to it now if it has none.
    pub(super) fn addresses_of(&self, pod: &Value) -> Option<Vec<IpAddr>> {
        let name = pod.text("/spec/nodeName");
        if pod.flag("/spec/hostNetwork") {
            return Some(self.host_address(name).parse().ok().into_iter().collect());
        }
        let node = self.client.cache(&NODE).get(&Key::cluster(name))?;
        let taken: BTreeSet<IpAddr> = self
            .client
            .cache(&POD)
            .find("node", name)
            .iter()
            .filter(|other| !other.is_over() && other.uid() != pod.uid())
            .flat_map(|other| {
                other
                    .list("/status/podIPs")
                    .iter()
                    .filter_map(|one| one.text("/ip").parse().ok())
                    .collect::<Vec<_>>()
            })
            .collect();
        let networks =
            node.list("/spec/podCIDRs").iter().filter_map(|network| network.as_str()?.parse::<IpNet>().ok());
        networks.map(|network| self.addresses.give(name, &network, pod.uid(), &taken)).collect()
    }

    /// Runs the init containers one after the other, and then the others.
    async fn initialize(&self, pod: &Value) -> Looked {
        for (index, container) in pod.list(INIT.0).iter().enumerate() {
            let now = status::status_of(pod, INIT.1, container.text("/name"));
            if now.number("/state/terminated/exitCode") == Some(0) {
                continue;
            }
            if now["state"].get("running").is_some() {
                if status::is_sidecar(container) {
                    continue;
                }
                return self.finish_init(pod, container, index).await;
            }
            match self.pull(pod, container).await {
                Pull::There => {}
                Pull::Wait(left) => return Ok(Next::After(left)),
                Pull::Failed { why, again } => {
                    return self.no_image(pod, pod.clone(), INIT, &why, again).await;
                }
            }
            self.tell_started(pod, container).await;
            let mut new = pod.clone();
            let mut entry = status::entry(pod, container, &status::running(&self.now()), 0);
            entry["ready"] = status::is_sidecar(container).into();
            status::put_status(&mut new, INIT.1, entry);
            status::judge(&mut new, &self.now());
            self.say(pod, &new).await?;
            return Ok(Next::Done);
        }
        self.start_containers(pod, pod.clone()).await
    }

    async fn finish_init(&self, pod: &Value, container: &Value, index: usize) -> Looked {
        let attempt = u64::try_from(index).unwrap_or_default();
        let exit = match self.timers.passing(&self.context.stages, "pod.init", pod, attempt) {
            Passing::Wait(left) => return Ok(Next::After(left)),
            Passing::Failed(_) => 1,
            Passing::Passed => 0,
        };
        let mut new = pod.clone();
        let mut entry = status::status_of(pod, INIT.1, container.text("/name")).clone();
        entry["state"] = status::terminated(&entry, exit, status::reason_of(exit), &self.now());
        entry["ready"] = (exit == 0).into();
        entry["started"] = false.into();
        status::put_status(&mut new, INIT.1, entry);
        if exit != 0 {
            new.set("/status/phase", "Failed".into());
        }
        status::judge(&mut new, &self.now());
        self.say(pod, &new).await?;
        Ok(Next::Done)
    }

    /// Starts the containers proper.
    async fn start_containers(&self, pod: &Value, mut new: Value) -> Looked {
        let now = self.now();
        for container in pod.list(MAIN.0) {
            match self.pull(pod, container).await {
                Pull::There => {}
                Pull::Wait(left) => {
                    status::judge(&mut new, &now);
                    self.say(pod, &new).await?;
                    return Ok(Next::After(left));
                }
                Pull::Failed { why, again } => return self.no_image(pod, new, MAIN, &why, again).await,
            }
        }
        for container in pod.list(MAIN.0) {
            self.tell_started(pod, container).await;
            let mut entry = status::entry(pod, container, &status::running(&now), 0);
            entry["ready"] = (!container["readinessProbe"].is_object()).into();
            status::put_status(&mut new, MAIN.1, entry);
        }
        new.set("/status/phase", "Running".into());
        status::judge(&mut new, &now);
        self.say(pod, &new).await?;
        Ok(Next::Done)
    }

    /// Says that an image cannot be had: first that it failed, then that it will be tried again.
    async fn no_image(
        &self,
        pod: &Value,
        mut new: Value,
        (containers, statuses): (&str, &str),
        why: &str,
        again: Duration,
    ) -> Looked {
        let waits = |pod: &Value| pod.text(&format!("{statuses}/0/state/waiting/reason")).to_owned();
        let tried = matches!(waits(pod).as_str(), "ErrImagePull" | "ImagePullBackOff");
        for container in pod.list(containers) {
            let image = container.text("/image");
            let state = if tried {
                let message = format!("Back-off pulling image \"{image}\": ErrImagePull: {why}");
                status::waiting("ImagePullBackOff", &message)
            } else {
                status::waiting("ErrImagePull", why)
            };
            status::put_status(&mut new, statuses, status::entry(pod, container, &state, 0));
        }
        status::judge(&mut new, &self.now());
        if *pod == new {
            return Ok(Next::After(again));
        }
        if tried {
            for container in pod.list(containers) {
                let message = format!("Back-off pulling image \"{}\"", container.text("/image"));
                self.recorder.normal(&POD, pod, "BackOff", &message).await;
                self.recorder.warning(&POD, pod, "Failed", "Error: ImagePullBackOff").await;
            }
        }
        self.say(pod, &new).await?;
        Ok(Next::After(again))
    }

    /// The events of a container that starts.
    pub(super) async fn tell_started(&self, pod: &Value, container: &Value) {
        let name = container.text("/name");
        self.recorder.normal(&POD, pod, "Created", &format!("Container created: {name}")).await;
        self.recorder.normal(&POD, pod, "Started", &format!("Container started: {name}")).await;
    }
}
