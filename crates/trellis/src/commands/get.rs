//! `trellis get`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;
use trellis_runtime::Selection;

use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::live::find::{FamilyName, Wanted};
use crate::live::table::{Layout, Table};
use crate::live::{Connected, Estate, Kind, Screen, Sort, Watched, Where, clusters, machines, pools, words};
use crate::output::{Output, print, print_json, remark};

/// How often a live view is drawn anew although nothing changed: times in it pass.
const TICK: Duration = Duration::from_secs(1);

/// Show machines, pools or tenant clusters of every family in one table.
///
/// Machine objects of all families the server has are shown together: Kubermatic's (cluster.k8s.io), OpenShift's
/// (machine.openshift.io) and our own (trellis.dev). Every machine says why it is where it is and how much of its time is
/// left. With --watch a terminal shows a table that is kept current, and a pipe gets a line for every change.
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// What to show.
    #[arg(value_enum)]
    what: What,
    /// Only those of these names.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    place: Where,
    /// Of all namespaces.
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only those of this tenant cluster.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Only those of this family; of all the server has when left out.
    #[arg(long, value_enum)]
    family: Option<FamilyName>,
    /// Only those whose labels fit, such as `trellis.dev/pool=workers,tier!=db`.
    #[arg(long, short = 'l', value_name = "LABELS")]
    selector: Option<String>,
    /// Go on and show every change until interrupted.
    #[arg(long, short)]
    watch: bool,
}

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Machines, with phase, reason, Node and host.
    #[value(alias = "machine")]
    Machines,
    /// Pools: MachineDeployments, MachinePools, and MachineSets that belong to none.
    #[value(alias = "pool")]
    Pools,
    /// Tenant clusters.
    #[value(alias = "cluster", alias = "tenantclusters", alias = "tenantcluster")]
    Clusters,
}

impl What {
    fn word(self) -> &'static str {
        match self {
            Self::Machines => "machines",
            Self::Pools => "pools",
            Self::Clusters => "clusters",
        }
    }
}

/// What there is to show: a table, and the same for programs.
struct Shown {
    table: Table,
    items: Vec<Item>,
}

/// A row for programs.
struct Item {
    key: String,
    name: String,
    json: Value,
}

impl Get {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        crate::live::run(self.show(output))
    }

    async fn show(self, output: Output) -> Result<Exit, Failure> {
        let connected = self.place.connect().await?;
        let (there, estate) = connected.list(&self.wanted(&connected)).await?;
        let shown = self.shown(&self.names, &estate, output);
        if let Some(missing) =
            self.names.iter().find(|name| !shown.items.iter().any(|item| item.name == **name))
        {
            let all = self.shown(&[], &estate, output);
            return Err(Failure::NotFound(format!(
                "there is no {} {missing}{}{}",
                self.what.word().trim_end_matches('s'),
                self.scope(&connected),
                words::did_you_mean(missing, all.items.iter().map(|item| item.name.as_str()))
            )));
        }
        if self.watch {
            let watched = Watched::start(&connected, &there).await?;
            return self.follow(watched, output).await;
        }
        match output.format {
            Format::Json => {
                let items: Vec<&Value> = shown.items.iter().map(|item| &item.json).collect();
                print_json(&json!({ self.what.word(): items }))?;
            }
            Format::Human if shown.items.is_empty() => {
                remark(&format!("No {}{}.\n", self.what.word(), self.scope(&connected)))?;
            }
            Format::Human => print(&shown.table.text(Screen::new(output).layout()))?,
        }
        Ok(Exit::Success)
    }

    fn scope(&self, connected: &Connected) -> String {
        let place = if self.all_namespaces {
            " in any namespace".to_owned()
        } else {
            format!(" in namespace {}", connected.namespace)
        };
        let cluster = self.cluster.as_ref().filter(|_| self.what != What::Clusters);
        cluster.map(|cluster| format!(" of cluster {cluster}")).unwrap_or_default() + &place
    }

    /// What is asked of the server. Pools and sets are looked at for machines too: they know the newest revision.
    fn wanted(&self, connected: &Connected) -> Vec<Wanted> {
        let here = if self.all_namespaces {
            Selection::default()
        } else {
            Selection::namespace(&connected.namespace)
        };
        let selected = here.clone().labels(self.selector.as_deref().unwrap_or_default());
        let kinds = match self.what {
            What::Machines => Kind::all(self.family, &[Sort::Machine, Sort::Pool, Sort::Set]),
            What::Pools => Kind::all(self.family, &[Sort::Pool, Sort::Set]),
            What::Clusters => vec![Kind::clusters()],
        };
        let helps = |kind: &Kind| self.what == What::Machines && kind.sort != Sort::Machine;
        kinds
            .into_iter()
            .map(|kind| (kind, if helps(&kind) { here.clone() } else { selected.clone() }))
            .collect()
    }

    fn shown(&self, names: &[String], estate: &Estate, output: Output) -> Shown {
        let now = Timestamp::now();
        let (namespaces, cluster) = (self.all_namespaces, self.cluster.as_deref());
        let named = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
        let item = |namespace: &str, name: &str, kind: &str, json: Value| Item {
            key: format!("{kind} {namespace}/{name}"),
            name: name.to_owned(),
            json,
        };
        match self.what {
            What::Machines => {
                let mut rows = machines::machines(estate, cluster);
                rows.retain(|row| named(&row.name));
                let items =
                    rows.iter().map(|row| item(&row.namespace, &row.name, row.family, row.json())).collect();
                Shown { table: machines::table(&rows, namespaces, output.wide, now), items }
            }
            What::Pools => {
                let mut rows = pools::pools(estate, cluster);
                rows.retain(|row| named(&row.name));
                let kind = |row: &pools::Pool| format!("{} {}", row.family, row.kind);
                let items =
                    rows.iter().map(|row| item(&row.namespace, &row.name, &kind(row), row.json())).collect();
                Shown { table: pools::table(&rows, namespaces, output.wide, now), items }
            }
            What::Clusters => {
                let all = estate.of(Sort::Cluster).map(|thing| clusters::Cluster::of(&thing.object));
                let rows: Vec<_> = all
                    .filter(|row| named(&row.name) && cluster.is_none_or(|cluster| cluster == row.name))
                    .collect();
                let items = rows.iter().map(|row| item(&row.namespace, &row.name, "", row.json())).collect();
                Shown { table: clusters::table(&rows, namespaces, output.wide, now), items }
            }
        }
    }

    /// Shows every change until interrupted.
    async fn follow(&self, mut watched: Watched, output: Output) -> Result<Exit, Failure> {
        let mut screen = Screen::new(output);
        let redraws = screen.is_terminal() && output.format == Format::Human;
        let mut known: Option<BTreeMap<String, Value>> = None;
        loop {
            let shown = self.shown(&self.names, &watched.estate(), output);
            if redraws {
                let mut lines = shown.table.lines(screen.layout());
                if shown.items.is_empty() {
                    lines.push(format!("no {} yet", self.what.word()));
                }
                lines.extend(watched.silence().map(str::to_owned));
                screen.draw(&lines)?;
            } else {
                known = Some(self.tell(known, &shown, output)?);
            }
            tokio::select! {
                () = watched.news(Instant::now() + TICK) => {}
                interrupted = tokio::signal::ctrl_c() => {
                    interrupted?;
                    return Ok(Exit::Success);
                }
            }
        }
    }

    /// Tells a pipe what changed since the last time, which was `known`.
    fn tell(
        &self,
        known: Option<BTreeMap<String, Value>>,
        shown: &Shown,
        output: Output,
    ) -> Result<BTreeMap<String, Value>, Failure> {
        let what = self.what.word().trim_end_matches('s');
        let lines = shown.table.lines(Layout::default());
        let first = known.is_none();
        let known = known.unwrap_or_default();
        let now: BTreeMap<String, Value> =
            shown.items.iter().map(|item| (item.key.clone(), item.json.clone())).collect();
        let mut told = Vec::new();
        if first && output.format == Format::Human {
            told.extend(lines.first().cloned());
        }
        for (item, line) in shown.items.iter().zip(lines.iter().skip(1)) {
            if known.get(&item.key) != Some(&item.json) {
                told.push(match output.format {
                    Format::Human => line.clone(),
                    Format::Json => json!({ "type": "changed", what: item.json }).to_string(),
                });
            }
        }
        for (key, json) in known.iter().filter(|(key, _)| !now.contains_key(*key)) {
            let name = key.rsplit_once('/').map_or(key.as_str(), |(_, name)| name);
            told.push(match output.format {
                Format::Human => format!("{name} is gone"),
                Format::Json => json!({ "type": "gone", what: json }).to_string(),
            });
        }
        if !told.is_empty() {
            print(&told.join("\n"))?;
        }
        Ok(now)
    }
}
