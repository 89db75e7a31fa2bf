//! The process `trellis controller`, and what it tells about itself.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::objects::{CLUSTER, CONTROL};
use crate::support::Result;
use crate::support::program::Program;
use crate::usage::Usage;

/// How long it may take until it answers.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running controller. It ends when this is dropped.
pub(crate) struct Controller {
    program: Program,
    port: u16,
    /// When it was started.
    pub(crate) began: Instant,
}

impl Controller {
    /// Starts it; it may not look after anything yet.
    pub(crate) fn start(program: &Path, kubeconfig: &Path, log: &Path) -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let kubeconfig = kubeconfig.display().to_string();
        let listen = format!("127.0.0.1:{port}");
        let arguments = [
            "controller",
            "--cluster",
            CLUSTER,
            "--family",
            "openshift",
            "--namespace",
            CONTROL,
            "--infra-namespace",
            CLUSTER,
            "--kubeconfig",
            &kubeconfig,
            "--tenant-kubeconfig",
            &kubeconfig,
            "--listen",
            &listen,
        ];
        let began = Instant::now();
        let program = Program::start(program, &arguments.map(str::to_owned), log.to_owned())?;
        Ok(Self { program, port, began })
    }

    /// Waits until it knows everything it looks after.
    pub(crate) async fn until_ready(&mut self) -> Result {
        loop {
            if self.page("/readyz").await.is_ok_and(|page| page.starts_with("HTTP/1.1 200")) {
                return Ok(());
            }
            self.check()?;
            if self.began.elapsed() > PATIENCE {
                return Err(format!("the controller does not start:\n{}", self.program.last_words()).into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Fails if it has ended.
    pub(crate) fn check(&mut self) -> Result {
        if self.program.has_ended() {
            return Err(format!("the controller has ended:\n{}", self.program.last_words()).into());
        }
        Ok(())
    }

    /// Ends it in good order, so that its Lease is free for the next one.
    pub(crate) async fn end(mut self) -> Result {
        let process = i32::try_from(self.program.process()?).ok().and_then(Pid::from_raw);
        kill_process(process.ok_or("the controller has no process")?, Signal::TERM)?;
        let asked = Instant::now();
        while !self.program.has_ended() {
            if asked.elapsed() > PATIENCE {
                return Err("the controller does not end".into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// What it used until now, as the kernel accounts for it.
    pub(crate) fn usage(&self) -> Result<Usage> {
        Usage::of(&[self.program.process()?])
    }

    /// The requests it made until now.
    pub(crate) async fn requests(&self) -> Result<Requests> {
        Ok(Requests::read(&self.page("/metrics").await?))
    }

    async fn page(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut page = String::new();
        stream.read_to_string(&mut page).await?;
        Ok(page)
    }
}

/// Requests by verb and resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Requests(BTreeMap<(String, String), u64>);

impl Requests {
    fn read(page: &str) -> Self {
        let mut counts = BTreeMap::new();
        for line in page.lines().filter_map(|line| line.strip_prefix("trellis_requests_total{")) {
            let label = |name: &str| {
                let (_, rest) = line.split_once(&format!("{name}=\""))?;
                rest.split_once('"').map(|(value, _)| value.to_owned())
            };
            let count = line.rsplit_once(' ').and_then(|(_, count)| count.parse::<u64>().ok());
            if let (Some(verb), Some(resource), Some(count)) = (label("verb"), label("resource"), count) {
                *counts.entry((verb, resource)).or_default() += count;
            }
        }
        Self(counts)
    }

    /// What was asked for since then.
    pub(crate) fn since(&self, then: &Self) -> Self {
        let more = |(what, count): (&(String, String), &u64)| {
            let more = count - then.0.get(what).copied().unwrap_or_default();
            (more > 0).then(|| (what.clone(), more))
        };
        Self(self.0.iter().filter_map(more).collect())
    }

    fn sum(&self, pick: impl Fn(&str, &str) -> bool) -> u64 {
        self.0.iter().filter(|((verb, resource), _)| pick(verb, resource)).map(|(_, count)| count).sum()
    }

    /// Those for single machines: their objects, Secrets, VMs and Nodes. Watches and what all share are apart.
    pub(crate) fn of_machines(&self) -> u64 {
        const KINDS: [&str; 4] =
            ["machines.machine.openshift.io", "secrets", "virtualmachines.kubevirt.io", "nodes"];
        self.sum(|verb, resource| {
            let resource = resource.split('/').next().unwrap_or_default();
            KINDS.contains(&resource) && !["list", "watch"].contains(&verb)
        })
    }

    /// Those that tell people what happened.
    pub(crate) fn of_events(&self) -> u64 {
        self.sum(|_, resource| resource == "events")
    }

    /// All but leases and watches.
    pub(crate) fn idle(&self) -> u64 {
        self.sum(|verb, resource| verb != "watch" && !resource.starts_with("leases"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_from_the_page() {
        let page = "# HELP x\n\
            trellis_requests_total{site=\"control\",verb=\"patch\",resource=\"machines.machine.openshift.io/status\",result=\"ok\"} 5\n\
            trellis_requests_total{site=\"infra\",verb=\"list\",resource=\"secrets\",result=\"ok\"} 2\n\
            trellis_requests_total{site=\"control\",verb=\"create\",resource=\"events\",result=\"ok\"} 3\n\
            trellis_requests_total{site=\"control\",verb=\"update\",resource=\"leases.coordination.k8s.io\",result=\"ok\"} 9\n";
        let requests = Requests::read(page);
        assert_eq!((requests.of_machines(), requests.of_events(), requests.idle()), (5, 3, 10));
        assert_eq!(requests.since(&requests), Requests::default());
    }
}
