//! What has to be in the store after a crash.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::server::Server;
use crate::support::Result;

/// Where the writers work.
pub(crate) const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";
/// The object all writers change.
pub(crate) const SHARED: &str = "shared";

/// What is known about all objects.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// By the name of the object.
    objects: BTreeMap<String, Known>,
    /// What each writer has in the object they share.
    shared: BTreeMap<String, Known>,
    /// The newest version anybody was told.
    newest: u64,
    acknowledged: u64,
    /// Grows with every write, so that no two write the same.
    pub(crate) turn: u64,
}

/// What an object, or a writer's part of one, may be.
#[derive(Debug, Default, Clone)]
pub(crate) struct Known {
    /// The state last acknowledged.
    pub(crate) certain: State,
    /// What an unanswered write would have made of it.
    pub(crate) possible: Option<Content>,
}

/// A state somebody was told.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) content: Content,
    /// The version of it, where it is an object of its own that exists.
    pub(crate) version: Option<u64>,
}

/// Absent, or written in some turn.
pub(crate) type Content = Option<u64>;

impl Model {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// How many writes were acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// What is known of an object.
    pub(crate) fn of(&self, name: &str) -> Known {
        self.objects.get(name).cloned().unwrap_or_default()
    }

    /// What is known of a writer's part of the shared object.
    pub(crate) fn part(&self, writer: &str) -> Known {
        self.shared.get(writer).cloned().unwrap_or_default()
    }

    /// Takes in what a writer knows at its end.
    pub(crate) fn learn(
        &mut self,
        objects: HashMap<String, Known>,
        writer: &str,
        part: Known,
        newest: u64,
        acknowledged: u64,
    ) {
        self.objects.extend(objects);
        self.shared.insert(writer.to_owned(), part);
        self.newest = self.newest.max(newest);
        self.acknowledged += acknowledged;
    }

    /// Compares what a restarted server has with what it may have, and takes that for certain.
    pub(crate) async fn check(&mut self, server: &Server) -> Result {
        let list = server.client.get(COLLECTION).await?.ok(200);
        let version = number(&list["metadata"]["resourceVersion"]).ok_or("the list has no version")?;
        if version < self.newest {
            return Err(format!("versions went back from {} to {version}", self.newest).into());
        }
        let mut found: HashMap<&str, &Value> = HashMap::new();
        for object in list["items"].as_array().ok_or("the list has no items")? {
            found.insert(object["metadata"]["name"].as_str().unwrap_or_default(), object);
        }
        let shared = found.remove(SHARED);
        for (writer, known) in &mut self.shared {
            let turn = shared.and_then(|object| number(&object["data"][writer]));
            known.settle(State { content: turn, version: None }).map_err(|why| format!("{writer}: {why}"))?;
        }
        for (name, known) in &mut self.objects {
            let state = match found.remove(name.as_str()) {
                Some(object) => read(object).map_err(|why| format!("{name}: {why}"))?,
                None => State::default(),
            };
            known.settle(state).map_err(|why| format!("{name}: {why}"))?;
        }
        // The server's own objects are none of ours.
        match found.keys().find(|name| name.starts_with("writer-")) {
            Some(stranger) => Err(format!("{stranger} was never written").into()),
            None => Ok(()),
        }
    }
}

impl Known {
    /// Takes what was found for certain, if it may be.
    fn settle(&mut self, found: State) -> std::result::Result<(), String> {
        let unchanged = found.content == self.certain.content
            && (self.certain.version.is_none() || found.version == self.certain.version);
        if !unchanged && self.possible != Some(found.content) {
            return Err(format!("it is {found:?}, but was acknowledged as {self:?}"));
        }
        *self = Self { certain: found, possible: None };
        Ok(())
    }
}

/// The state of an object that has to be whole: its two halves are written together.
fn read(object: &Value) -> std::result::Result<State, String> {
    let turn = number(&object["data"]["turn"]);
    let whole = turn.is_some() && object["data"]["again"] == object["data"]["turn"];
    let labelled = object["metadata"]["labels"]["turn"] == object["data"]["turn"];
    if !whole || !labelled {
        return Err(format!("half an object: {object}"));
    }
    Ok(State { content: turn, version: number(&object["metadata"]["resourceVersion"]) })
}

/// A number written as text.
pub(crate) fn number(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}
