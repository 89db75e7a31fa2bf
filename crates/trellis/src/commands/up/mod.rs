//! `trellis up`.

mod background;
mod demo;
mod fleet;
pub(super) mod home;
mod told;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use trellis_lab::{Lab as Server, Options, Secret, auth};
use trellis_runtime::client::Manners;
use trellis_runtime::credentials::Source;
use trellis_runtime::{CancellationToken, Site};

use self::demo::DEMO;
use self::home::Home;
use self::told::{Step, Told, Word};
use super::lab;
use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::live::words;
use crate::output::{Output, print, print_json, remark};

/// The folder, where none is named.
pub(super) const FOLDER: &str = ".trellis";

/// Run everything on this machine: an infra cluster, the controllers, and a demo tenant cluster grown on it.
///
/// The infra cluster is the lab of `trellis lab`. On it a tenant cluster with three masters and two workers is grown by
/// the same controllers as anywhere: keys are made, a bootstrap machine hands configurations to the masters for their
/// tokens, the masters take over, workers join. Then the kubeconfigs of both clusters are in the folder, and everything
/// runs until it is interrupted. All of it is kept in the folder, the disks of the machines and the data of the tenant
/// too: the next `up` goes on where this one was, as after a power cut. `trellis down` stops it from elsewhere.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// The folder everything is kept in.
    #[arg(long, value_name = "DIR", default_value = FOLDER)]
    dir: PathBuf,
    /// How long growing the tenant cluster may take, such as 90s or 10m.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = words::duration)]
    timeout: Duration,
    /// End as soon as the tenant cluster is there, instead of running until interrupted.
    #[arg(long, conflicts_with = "detach")]
    once: bool,
    /// Go on in the background, and return when the tenant cluster is there.
    #[arg(long)]
    detach: bool,
    /// This is the process in the background.
    #[arg(long, hide = true, conflicts_with = "detach")]
    background: bool,
    #[command(flatten)]
    infra: lab::Infra,
}

/// How it ended.
enum Ended {
    /// The tenant cluster is there, and was until somebody wanted it to end.
    Grown,
    /// Somebody wanted it to end before that.
    Interrupted,
}

impl Up {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        // What is wrong with the command line is said before there is a folder.
        let Some((settings, is_seeded)) = self.infra.settings()? else {
            return Err(Failure::Usage(
                "a tenant cluster needs an infra cluster: leave --api-only out".to_owned(),
            ));
        };
        let home = Home::new(&self.dir);
        home.prepare()?;
        if self.detach {
            return background::start(&home, output);
        }
        let mut told = if self.background {
            // Nobody's terminal ends it any more. Whoever leads a session already may stay where it is.
            let _ = rustix::process::setsid();
            Told::parent()
        } else {
            Told::people(output)
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let ended = runtime.block_on(self.serve(&home, settings, is_seeded, &mut told, output));
        match ended {
            Ok(Ended::Grown) => {}
            Ok(Ended::Interrupted) => {
                told.word(&Word::Failed("it was stopped before the tenant cluster was there".to_owned()));
                if output.format == Format::Human {
                    remark("stopped; the next `trellis up` goes on where it was\n")?;
                }
            }
            Err(failure) => {
                told.word(&Word::Failed(failure.to_string()));
                return Err(failure);
            }
        }
        Ok(Exit::Success)
    }

    async fn serve(
        &self,
        home: &Home,
        mut settings: trellis_infra::Settings,
        is_seeded: bool,
        told: &mut Told,
        output: Output,
    ) -> Result<Ended, Failure> {
        super::logs::begin_quietly();
        let since = Timestamp::now();
        let claim = home.claim()?;
        home.sign(&claim)?;
        let folder = home.infra();
        let _lab_claim = trellis_lab::claim_folder(&folder).map_err(failed)?;
        if !is_seeded {
            settings.seed = lab::chosen_seed(Some(&folder))?;
        }
        let options = Options { folder: Some(folder.clone()), seed: self.infra.seed(), ..Options::default() };
        let mut server = Server::start(options).await.map_err(failed)?;
        lab::listen(&mut server, &folder, 0, true).await?;
        let (hosts, zones) = (self.infra.hosts(), self.infra.zones());
        let cluster = lab::Cluster::start(&server, settings, hosts, zones, Some(&folder)).await?;
        let described = cluster.described().await?;
        told.say(Step::Infra, &format!("an infra cluster is up: {}", described.summary()))?;

        let (own, site) = (connect(home).await?, connect(home).await?);
        demo::install(&own).await.map_err(failed)?;
        let stop = CancellationToken::new();
        let controllers = fleet::start(&site, &stop);
        told.say(Step::Demo, &format!("the controllers run, and look after the tenant cluster {DEMO}"))?;
        let ended = tokio::select! {
            grown = tokio::time::timeout(self.timeout, self.grow(home, &own, &site, since, told)) => {
                grown.unwrap_or_else(|_| Err(self.late(home))).map(|ready| (Ended::Grown, ready))
            }
            interrupted = lab::interrupted() => {
                interrupted.map(|()| (Ended::Interrupted, Value::Null)).map_err(Failure::from)
            }
            why = cluster.lost() => Err(Failure::Lab(why)),
        };
        let ended = match ended {
            Ok((Ended::Grown, ready)) => {
                told.word(&Word::Ready(ready.clone()));
                if !self.background {
                    greet(&ready, self.once, output)?;
                }
                let until = async { if self.once { Ok(()) } else { lab::interrupted().await } };
                tokio::select! {
                    interrupted = until => interrupted.map(|()| Ended::Grown).map_err(Failure::from),
                    why = cluster.lost() => Err(Failure::Lab(why)),
                }
            }
            other => other.map(|(ended, _)| ended),
        };
        stop.cancel();
        controllers.end().await;
        ended
    }

    /// Waits until the tenant cluster is there with all its nodes; returns what there is to know of it.
    async fn grow(
        &self,
        home: &Home,
        own: &Site,
        controllers: &Site,
        since: Timestamp,
        told: &mut Told,
    ) -> Result<Value, Failure> {
        demo::grown(own, told).await?;
        let text = demo::kubeconfig(own).await.map_err(failed)?;
        let path = home.tenant_kubeconfig();
        if let Some(folder) = path.parent() {
            auth::create_private_folder(folder)?;
        }
        auth::write_secret_file(&path, &Secret::new(text)).map_err(failed)?;
        let source = Source::File { path: path.clone(), context: None };
        let tenant = source.connect("tenant", Manners::default()).await.map_err(failed)?.site;
        let nodes = demo::heard(&tenant, since, told).await?;
        told.say(Step::Complete, &format!("{nodes} nodes are ready"))?;
        let traffic = controllers.connection_traffic();
        for (request, result, count) in traffic.all() {
            let (verb, resource) = (request.verb.word(), request.resource());
            tracing::debug!(verb, resource, result, count, "requests of the controllers");
        }
        // What only says that the controllers are alive, or what they have done, is not what growing takes.
        let apart = ["events", "leases"];
        Ok(json!({
            "folder": home.folder(),
            "infraKubeconfig": home.infra_kubeconfig(),
            "tenantKubeconfig": path,
            "nodes": nodes,
            "seconds": told.elapsed().as_secs_f64(),
            "infraRequests": traffic.sum(|request| !apart.contains(&request.plural)),
            "pid": std::process::id(),
        }))
    }

    fn late(&self, home: &Home) -> Failure {
        Failure::TimedOut(format!(
            "the tenant cluster was not there after {}; run `trellis up` again to go on, and `kubectl --kubeconfig {} -n {DEMO} get tenantclusters,machinepools,machines,vmi` in another terminal to see why",
            words::span(SignedDuration::try_from(self.timeout).unwrap_or_default()),
            home.infra_kubeconfig().display(),
        ))
    }
}

async fn connect(home: &Home) -> Result<Site, Failure> {
    let source = Source::File { path: home.infra_kubeconfig(), context: None };
    Ok(source.connect("control", Manners::default()).await.map_err(failed)?.site)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Lab(error.to_string())
}

/// Says what there is now, and what to try next.
fn greet(ready: &Value, ends: bool, output: Output) -> Result<(), Failure> {
    if output.format == Format::Json {
        return Ok(print_json(ready)?);
    }
    let text = |field: &str| ready[field].as_str().unwrap_or_default();
    let (infra, tenant, folder) = (text("infraKubeconfig"), text("tenantKubeconfig"), text("folder"));
    let last = match (ends, ready["detached"].as_bool().unwrap_or_default()) {
        (true, _) => "Stopped; the next `trellis up` goes on where it was.".to_owned(),
        (false, true) => {
            format!(
                "It runs in the background as process {}; `trellis down --dir {folder}` stops it.",
                ready["pid"]
            )
        }
        (false, false) => "Ctrl-C stops everything; the next `trellis up` goes on where it was.".to_owned(),
    };
    Ok(print(&format!(
        "\nThe tenant cluster {DEMO} is there after {seconds:.1} s: {nodes} nodes, and {requests} requests of the controllers.\n\n\
         Its kubeconfig:    {tenant}\n\
         That of its infra: {infra}\n\n\
         Its nodes:         kubectl --kubeconfig {tenant} get nodes\n\
         Its machines:      trellis get machines -n {DEMO} --kubeconfig {infra}\n\
         What it is on:     kubectl --kubeconfig {infra} -n {DEMO} get vm,vmi,dv,svc\n\
         One more worker:   trellis scale workers -n {DEMO} --replicas 3 --kubeconfig {infra}\n\
         A host fails:      trellis lab fail host-0001 --dir {folder}/infra\n\n\
         {last}\n",
        seconds = ready["seconds"].as_f64().unwrap_or_default(),
        nodes = ready["nodes"],
        requests = ready["infraRequests"],
    ))?)
}
