//! Clients that write until the server is gone, and remember what they were told.

use std::collections::HashMap;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::model::{COLLECTION, Content, Known, Model, SHARED, State, number};
use crate::server::Server;
use crate::support::Result;
use crate::support::client::{Answer, Client, Request};

/// How many clients write at the same time.
const WRITERS: u64 = 6;
/// How many objects each has.
const SLOTS: u64 = 5;
/// The turns of one writer in one round stay below this.
const TURNS: u64 = 100_000;

/// The writers of a round.
pub(crate) struct Writing(JoinSet<Result<Writer>>);

/// One client and what it knows of the objects only it writes.
struct Writer {
    client: Client,
    name: String,
    objects: HashMap<String, Known>,
    part: Known,
    turn: u64,
    newest: u64,
    acknowledged: u64,
    random: StdRng,
}

/// Starts the writers.
pub(crate) fn start(server: &Server, model: &mut Model, random: &mut StdRng) -> Writing {
    let mut tasks = JoinSet::new();
    for number in 0..WRITERS {
        let name = format!("writer-{number}");
        let objects = (0..SLOTS).map(|slot| format!("{name}-{slot}"));
        let writer = Writer {
            client: server.client.clone(),
            objects: objects.map(|object| (object.clone(), model.of(&object))).collect(),
            part: model.part(&name),
            name,
            turn: model.turn,
            newest: 0,
            acknowledged: 0,
            random: StdRng::seed_from_u64(random.random()),
        };
        model.turn += TURNS;
        tasks.spawn(writer.write());
    }
    Writing(tasks)
}

impl Writing {
    /// Waits until all writers have noticed that the server is gone, and takes in what they know.
    pub(crate) async fn collect(mut self, model: &mut Model) -> Result {
        while let Some(ended) = self.0.join_next().await {
            let writer = ended??;
            model.learn(writer.objects, &writer.name, writer.part, writer.newest, writer.acknowledged);
        }
        Ok(())
    }
}

impl Writer {
    /// Writes until there is no answer.
    async fn write(mut self) -> Result<Self> {
        while self.one().await? {}
        Ok(self)
    }

    /// One write; false when the server is gone.
    async fn one(&mut self) -> Result<bool> {
        self.turn += 1;
        if self.random.random_ratio(1, 8) {
            return self.share().await;
        }
        let name = format!("{}-{}", self.name, self.random.random_range(0..SLOTS));
        let known = self.objects.get(&name).cloned().unwrap_or_default();
        let path = format!("{COLLECTION}/{name}");
        let turn = self.turn;
        let (request, content): (Request, Content) = match known.certain.content {
            None => (self.client.post(COLLECTION, &object(&name, turn)), Some(turn)),
            Some(_) if self.random.random_ratio(1, 4) => (self.client.delete(&path), None),
            Some(_) if self.random.random_ratio(1, 2) => {
                (self.client.merge_patch(&path, &object(&name, turn)), Some(turn))
            }
            Some(_) => (self.client.put(&path, &object(&name, turn)), Some(turn)),
        };
        let possible = Known { certain: known.certain, possible: Some(content) };
        self.objects.insert(name.clone(), possible);
        let Ok(answer) = request.await else { return Ok(false) };
        let version = self.acknowledge(&answer)?.filter(|_| content.is_some());
        let certain = State { content, version };
        self.objects.insert(name, Known { certain, possible: None });
        Ok(true)
    }

    /// Changes this writer's part of the object all share.
    async fn share(&mut self) -> Result<bool> {
        let path = format!("{COLLECTION}/{SHARED}?fieldManager=crash");
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SHARED}});
        // Whoever is first creates it; the others find it there.
        let Ok(created) = self.client.post(COLLECTION, &body).await else { return Ok(false) };
        if created.status != 409 {
            self.acknowledge(&created)?;
        }
        let turn = self.turn;
        self.part.possible = Some(Some(turn));
        let patch = json!({"data": {&self.name: turn.to_string()}});
        let Ok(answer) = self.client.merge_patch(&path, &patch).await else { return Ok(false) };
        self.acknowledge(&answer)?;
        self.part = Known { certain: State { content: Some(turn), version: None }, possible: None };
        Ok(true)
    }

    /// Notes an answer, which has to be a success; the version it tells.
    fn acknowledge(&mut self, answer: &Answer) -> Result<Option<u64>> {
        if answer.status >= 300 {
            return Err(answer.to_string().into());
        }
        self.acknowledged += 1;
        let version = number(&answer.json()["metadata"]["resourceVersion"]);
        self.newest = self.newest.max(version.unwrap_or_default());
        Ok(version)
    }
}

/// An object whose parts all tell the same turn, and which fills more than a sector of a disk.
fn object(name: &str, turn: u64) -> Value {
    let turn = turn.to_string();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"turn": turn}},
        "data": {"again": turn, "filler": turn.repeat(200), "turn": turn},
    })
}
