//! A sequence of steps on both servers, and the shortest part of it that shows a difference.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::compare::{Known, differences};
use crate::kinds::{Kind, definition};
use crate::random::Random;
use crate::steps::Step;
use crate::support::client::Client;
use crate::support::real::RealCluster;
use crate::support::target::Target;
use crate::support::{Result, lab, parts};

/// How many steps a sequence has.
const STEPS: usize = 14;
/// How often a sequence is tried again with fewer steps.
const ATTEMPTS: usize = 60;

/// Both servers.
pub(crate) struct Both {
    lab: Client,
    real: Client,
    _targets: [Target; 2],
}

/// A sequence of steps.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    kind: Kind,
    seed: u64,
    steps: Vec<Step>,
}

/// Where a sequence differs.
struct Difference {
    /// The step after which it does, from zero.
    step: usize,
    places: Vec<String>,
}

impl Both {
    /// Starts both, with the custom resource defined.
    pub(crate) async fn start(directory: &Path) -> Result<Self> {
        let real = RealCluster::start(&directory.join("real"), &parts::find()?).await?;
        std::fs::create_dir_all(directory.join("in-process"))?;
        let lab = lab::start(&directory.join("in-process")).await?;
        let both =
            Self { lab: lab.client(&lab.admin)?, real: real.client(&real.admin)?, _targets: [lab, real] };
        for client in [&both.lab, &both.real] {
            client
                .post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition())
                .await?
                .ok(201);
            let start = Instant::now();
            while client.get(Kind::Widget.collection("default")).await?.status != 200 {
                if start.elapsed() > Duration::from_secs(30) {
                    return Err("the custom resource is never served".into());
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(both)
    }
}

impl Sequence {
    pub(crate) fn random(kind: Kind, seed: u64) -> Self {
        let mut random = Random::new(
            seed.wrapping_mul(1_000_003)
                .wrapping_add(u64::try_from(kind.resource().len()).unwrap_or_default()),
        );
        let steps = (0..STEPS).map(|_| Step::random(kind, &mut random)).collect();
        Self { kind, seed, steps }
    }

    /// Runs the sequence; a report if the servers differ.
    pub(crate) async fn examine(mut self, both: &Both) -> Result<Option<String>> {
        let Some(mut difference) = self.run(both).await? else { return Ok(None) };
        self.steps.truncate(difference.step + 1);
        let mut attempts = 0;
        let mut place = 0;
        // The last step is the one that differs, so only those before it can go.
        while place + 1 < self.steps.len() && attempts < ATTEMPTS {
            attempts += 1;
            let mut shorter = self.clone();
            shorter.steps.remove(place);
            match shorter.run(both).await? {
                Some(still) => {
                    shorter.steps.truncate(still.step + 1);
                    self = shorter;
                    difference = still;
                }
                None => place += 1,
            }
        }
        Ok(Some(self.report(&difference)))
    }

    fn report(&self, difference: &Difference) -> String {
        let mut lines = vec![format!("{} of seed {} differ:", self.kind.resource(), self.seed)];
        lines.extend(self.steps.iter().enumerate().map(|(number, step)| format!("  {}. {step}", number + 1)));
        lines.push("after the last step:".to_owned());
        lines.extend(difference.places.iter().take(20).map(|place| format!("  {place}")));
        lines.join("\n")
    }

    /// Takes the steps on both servers in a namespace of their own; where they differ first.
    async fn run(&self, both: &Both) -> Result<Option<Difference>> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let namespace = format!("d{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        for client in [&both.lab, &both.real] {
            client.post("/api/v1/namespaces", &object).await?.ok(201);
        }
        let collection = self.kind.collection(&namespace);
        let mut lab = Side::new(&both.lab, &collection);
        let mut real = Side::new(&both.real, &collection);
        for (number, step) in self.steps.iter().enumerate() {
            let places = differences(&lab.take(step).await?, &real.take(step).await?);
            if !places.is_empty() {
                return Ok(Some(Difference { step: number, places }));
            }
        }
        Ok(None)
    }
}

/// One server's side of a sequence.
struct Side<'both> {
    client: &'both Client,
    collection: &'both str,
    known: Known,
    first: Option<Value>,
    last: Option<Value>,
}

impl<'both> Side<'both> {
    fn new(client: &'both Client, collection: &'both str) -> Self {
        Self { client, collection, known: Known::default(), first: None, last: None }
    }

    /// Takes a step; the answer, and what is stored afterwards.
    async fn take(&mut self, step: &Step) -> Result<Value> {
        let answer = step.take(self.client, self.collection, self.last.as_ref(), self.first.as_ref()).await?;
        let stored = self.client.get(format!("{}/a", self.collection)).await?;
        // Stored first: a dry run shows a uid that nobody ever sees again.
        let stored_normal = self.known.normal(&stored);
        let answer_normal = self.known.normal(&answer);
        self.last = (stored.status == 200).then(|| stored.json());
        if self.first.is_none() {
            self.first.clone_from(&self.last);
        }
        Ok(json!({"answer": answer_normal, "stored": stored_normal}))
    }
}
