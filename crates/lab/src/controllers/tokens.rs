//! Secrets with the token of a service account: they are filled in, and go with the account.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::agent::Agent;
use super::{Controller, Interest, Next, Queue};
use crate::api::options::DeleteOptions;
use crate::names::GroupResource;
use crate::server::Server;
use crate::status::Status;
use crate::store::{Change, EventKind, Key, Query, Record};

/// The type of those secrets.
const TYPE: &str = "kubernetes.io/service-account-token";
/// Where a secret says whose token it has.
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// Where it says which account of that name it was.
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Task {
    /// A secret that may have to be filled in.
    Fill(Key),
    /// A secret is gone that this account may still list.
    Unlist { account: Key, secret: String },
}

/// Keeps the secrets of service accounts.
#[derive(Debug)]
pub(super) struct Tokens {
    agent: Agent,
}

fn secrets() -> GroupResource {
    GroupResource::new("", "secrets")
}

fn accounts() -> GroupResource {
    GroupResource::new("", "serviceaccounts")
}

fn has_token(record: &Record) -> bool {
    record.index.fields.iter().any(|(field, value)| field == "type" && value == TYPE)
}

/// The name and the uid of the account a secret is for. The uid is empty until the secret was filled in.
fn account_of(secret: &Value) -> (&str, &str) {
    let annotation = |name: &str| secret["metadata"]["annotations"][name].as_str().unwrap_or_default();
    (annotation(ACCOUNT_NAME), annotation(ACCOUNT_UID))
}

impl Controller for Tokens {
    type Item = Task;

    fn interest(&self) -> Interest {
        Box::new(|change| {
            change.of.group.is_empty()
                && match change.of.resource.as_str() {
                    "secrets" => has_token(&change.event.record),
                    "serviceaccounts" => change.event.kind != EventKind::Modified,
                    _ => false,
                }
        })
    }

    fn begin(&mut self, queue: &mut Queue<Task>) {
        let Some(server) = self.agent.server() else { return };
        let all = server.store().list(&secrets(), &Query::default(), |_, record| has_token(record)).records;
        queue.extend(all.iter().map(|record| Task::Fill(record.key.clone())));
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<Task>) {
        let event = &change.event;
        let namespace = event.key.namespace.as_str();
        if change.of == accounts() {
            let Some(server) = self.agent.server() else { return };
            let query = Query { namespace: Some(namespace), ..Query::default() };
            let all = server.store().list(&secrets(), &query, |_, record| has_token(record)).records;
            queue.extend(all.iter().map(|record| Task::Fill(record.key.clone())));
        } else if event.kind == EventKind::Deleted {
            let secret = event.record.parse();
            let account = Key::new(namespace, account_of(&secret).0);
            queue.add(Task::Unlist { account, secret: event.key.name.clone() });
        } else {
            queue.add(Task::Fill(event.key.clone()));
        }
    }

    async fn work(&mut self, task: &Task, _: &mut Queue<Task>) -> Result<Next, Status> {
        let Some(server) = self.agent.server() else { return Ok(Next::Done) };
        match task {
            Task::Fill(key) => self.fill(&server, key).await?,
            Task::Unlist { account, secret } => {
                if server
                    .store()
                    .get(&secrets(), &Key::new(account.namespace.as_str(), secret.as_str()))
                    .is_none()
                {
                    let change = |found| Ok(without_secret(found, secret));
                    self.agent.change(&accounts(), account, "", &change).await?;
                }
            }
        }
        Ok(Next::Done)
    }
}

impl Tokens {
    pub(super) fn new(agent: Agent) -> Self {
        Self { agent }
    }

    /// Fills a secret in, or deletes it when its account is gone.
    async fn fill(&self, server: &Server, key: &Key) -> Result<(), Status> {
        let Some(record) = server.store().get(&secrets(), key).filter(|record| has_token(record)) else {
            return Ok(());
        };
        let secret = record.parse();
        let (name, uid) = account_of(&secret);
        if name.is_empty() || record.index.deleting {
            return Ok(());
        }
        let account = server.store().get(&accounts(), &Key::new(key.namespace.as_str(), name));
        let Some(account) = account.filter(|account| uid.is_empty() || account.index.uid == uid) else {
            let options = DeleteOptions { uid: Some(record.index.uid.clone()), ..DeleteOptions::default() };
            return match self.agent.delete(&secrets(), key, &options).await {
                // It is another secret by now.
                Err(status) if status.code == 409 => Ok(()),
                outcome => outcome,
            };
        };
        let account = account.parse();
        let authority = STANDARD.encode(server.authority_pem());
        let version = record.version.to_string();
        let change = |secret: Value| {
            if secret["metadata"]["resourceVersion"] != version.as_str() {
                // The change meanwhile is looked at next.
                return Ok(secret);
            }
            filled(server, secret, &account, &authority)
        };
        self.agent.change(&secrets(), key, "", &change).await
    }
}

/// The secret with all that is missing in it.
fn filled(server: &Server, mut secret: Value, account: &Value, authority: &str) -> Result<Value, Status> {
    let missing = |key: &str| secret["data"][key].as_str().unwrap_or_default().is_empty();
    let needs_authority = secret["data"]["ca.crt"] != authority;
    let (needs_namespace, needs_token) = (missing("namespace"), missing("token"));
    if !needs_authority && !needs_namespace && !needs_token {
        return Ok(secret);
    }
    if needs_token {
        let token = server.tokens().secret_token(account, &secret);
        let token = token.map_err(|error| Status::internal(error.to_string()))?;
        secret["data"]["token"] = STANDARD.encode(token.expose()).into();
    }
    if needs_namespace {
        let namespace = secret["metadata"]["namespace"].as_str().unwrap_or_default();
        secret["data"]["namespace"] = STANDARD.encode(namespace).into();
    }
    secret["data"]["ca.crt"] = authority.into();
    let annotations = &mut secret["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[ACCOUNT_NAME] = account["metadata"]["name"].clone();
    annotations[ACCOUNT_UID] = account["metadata"]["uid"].clone();
    Ok(secret)
}

/// The account without one of the secrets it lists.
fn without_secret(mut account: Value, secret: &str) -> Value {
    if let Some(listed) = account["secrets"].as_array_mut() {
        listed.retain(|reference| reference["name"] != secret);
        if listed.is_empty() {
            account.as_object_mut().map(|account| account.remove("secrets"));
        }
    }
    account
}
