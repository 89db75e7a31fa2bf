//! Changing an object that is there, or making it where a change can.
//!
//! What is there is read, a [`Change`] makes of it what it should become, then ownership, admission, the rules of
//! the kind and validation follow, and the outcome is written if nobody was faster. Otherwise it begins anew with
//! what is there then.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::identity::{self, MODIFIED, Version};
use super::options::WriteOptions;
use super::patch::Patch;
use super::strategy::Rules;
use super::write::{Creation, Origin, Outcome};
use super::{Call, ownership, strategy, subresources};
use crate::admission::quota::Charged;
use crate::admission::{Operation, Review};
use crate::merge;
use crate::names::Gvk;
use crate::registry::Served;
use crate::server::{Allocation, Server};
use crate::status::Status;
use crate::store::{Expect, Key, Record, Refusal};

/// How often a change is tried again when somebody else was faster.
const ATTEMPTS: usize = 64;

/// What a write makes of what is there.
pub(crate) enum Change<'a> {
    /// The whole object is given.
    Replace(Value),
    /// A patch is applied.
    Patch(&'a Patch),
    /// A configuration is applied by a manager.
    Apply {
        configuration: &'a Value,
        /// The patch it is, when a client sent it.
        sent_as: Option<&'a Patch>,
    },
    /// Something is changed, and the managed fields with it.
    Tracked(&'a (dyn Fn(Value) -> Result<Value, Status> + Send + Sync)),
    /// The server itself changes something.
    Own(&'a (dyn Fn(Value) -> Result<Value, Status> + Send + Sync)),
}

/// Makes a change; says what came of it, and whether the object is new.
pub(crate) async fn modify(
    server: &Arc<Server>,
    call: &Call,
    served: &Arc<Served>,
    subresource: &str,
    options: &WriteOptions,
    mut change: Change<'_>,
) -> Result<(Outcome, bool), Status> {
    let key = call.key(served);
    if let Change::Replace(object) = &mut change {
        identity::same_namespace(call, served, object)?;
        identity::same_name(object, &key)?;
        identity::dedup_owners(call, object, false);
    }
    let write = Write { server, call, served, subresource, options, key, change };
    let mut charged = Charged::default();
    for _ in 0..ATTEMPTS {
        let found = server.store().get(&served.stored_as, &write.key);
        let created = found.is_none();
        let outcome = match found {
            Some(record) => write.attempt(&record, &mut charged).await?,
            None => write.make(&mut charged).await?,
        };
        if let Some(outcome) = outcome {
            return Ok((outcome, created));
        }
    }
    Err(write.conflict(MODIFIED))
}

/// One write to one object.
struct Write<'a> {
    server: &'a Arc<Server>,
    call: &'a Call,
    served: &'a Arc<Served>,
    subresource: &'a str,
    options: &'a WriteOptions,
    key: Key,
    change: Change<'a>,
}

impl Write<'_> {
    fn rules(&self) -> Rules<'_> {
        Rules { server: self.server, call: self.call, served: self.served, subresource: self.subresource }
    }

    fn not_found(&self) -> Status {
        Status::not_found(&self.served.resource.group, &self.served.resource.resource, &self.key.name)
    }

    fn conflict(&self, why: &str) -> Status {
        Status::conflict(&self.served.resource.group, &self.served.resource.resource, &self.key.name, why)
    }

    /// Makes the object that is not there, where the change can do that; none when somebody was faster.
    async fn make(&self, charged: &mut Charged) -> Result<Option<Outcome>, Status> {
        let anyway = self.served.creates_on_update();
        let object = match &self.change {
            Change::Apply { configuration, sent_as } if anyway || self.subresource.is_empty() => {
                let mut object = self.applied(None, configuration, *sent_as).await?;
                if let Some(uid) = identity::uid_of(&object) {
                    return Err(self.conflict(&format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    )));
                }
                self.placed(&mut object)?;
                object
            }
            Change::Replace(object) if anyway => {
                if let Some(uid) = identity::uid_of(object) {
                    return Err(self.conflict(&identity::uid_mismatch(self.served, &self.key, uid, "")));
                }
                identity::version_of(object)?;
                let mut object = object.clone();
                self.tracked(None, &mut object).await;
                object
            }
            _ => return Err(self.not_found()),
        };
        let origin = if self.subresource.is_empty() { Origin::Update } else { Origin::UpdateOfPart };
        let Self { server, call, served, options, .. } = *self;
        match (Creation { server, call, served, options, origin }).tracked(object, charged).await {
            Err(status) if status.reason == "AlreadyExists" => Ok(None),
            created => created.map(Some),
        }
    }

    /// Changes the object that is there; none when somebody was faster.
    async fn attempt(&self, record: &Arc<Record>, charged: &mut Charged) -> Result<Option<Outcome>, Status> {
        let Self { server, call, served, .. } = *self;
        let old = Arc::new(server.read(served, record).await?);
        let mut new = self.wanted(&old).await?;
        let seen = Seen { served, subresource: self.subresource };
        let mut review = Review {
            attributes: &call.attributes,
            kind: seen.kind(),
            operation: Operation::Update,
            dry_run: self.options.dry_run,
            options: self.options.to_value("UpdateOptions"),
            object: Some(seen.of(&new)?),
            old: Some(Arc::new(seen.of(&old)?)),
        };
        if !call.admitted {
            call.warn_all(server.admission().mutate(&mut review).await?);
            new = seen.taken_over(new, review.object.take().unwrap_or_default())?;
        }
        identity::dedup_owners(call, &mut new, true);
        if self.subresource.is_empty() {
            server.authorizer().check_escalation(&call.attributes, &new, Some(&old))?;
        }
        let version = identity::check_version(served, &self.key, &old, &new)?;
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        // Kept until the object is written, so that nobody else is given the same address.
        let dry_run = self.options.dry_run;
        let allocation = server.allocate(served, &self.rules().context(), Some(&old), &mut new, dry_run)?;
        self.check(&old, &mut new)?;
        merge::ignore_times(&old, &mut new);
        if !call.admitted {
            review.object = Some(seen.of(&new)?);
            call.warn_all(server.admission().validate(&review).await?);
            server.charge(&review, charged).await?;
        }
        if Server::is_done(served, &old, &new) {
            return self.end(record, &old, new).await;
        }
        let conditional = matches!((version, &self.change), (Version::Same, Change::Replace(_)));
        self.put(record, &old, new, conditional, allocation).await
    }

    /// The object as the change wants it, with its owners.
    async fn wanted(&self, old: &Value) -> Result<Value, Status> {
        let mut new = match &self.change {
            Change::Replace(object) => {
                let found = identity::uid_of(old).unwrap_or_default();
                if let Some(uid) = identity::uid_of(object).filter(|uid| *uid != found) {
                    return Err(self.conflict(&identity::uid_mismatch(self.served, &self.key, uid, found)));
                }
                object.clone()
            }
            Change::Patch(patch) => {
                let patched = patch.apply(self.served, old)?;
                self.rules().reshape_patched(patched, self.options.validation)?
            }
            Change::Apply { configuration, sent_as } => {
                self.applied(Some(old), configuration, *sent_as).await?
            }
            Change::Own(change) | Change::Tracked(change) => change(old.clone())?,
        };
        if !matches!(self.change, Change::Apply { .. } | Change::Tracked(_)) {
            self.tracked(Some(old), &mut new).await;
        }
        self.placed(&mut new)?;
        Ok(new)
    }

    /// What applying a configuration makes of an object, or of nothing.
    async fn applied(
        &self,
        live: Option<&Value>,
        configuration: &Value,
        sent_as: Option<&Patch>,
    ) -> Result<Value, Status> {
        let applied = self.owners().apply(self.options, live, configuration).await?;
        let object = self.rules().reshape_applied(applied, configuration)?;
        if let Some(patch) = sent_as {
            patch.complain_applied(self.call, self.options.validation)?;
        }
        Ok(object)
    }

    /// Records who owns what of an object that was not applied.
    async fn tracked(&self, old: Option<&Value>, new: &mut Value) {
        self.owners().update(&self.options.manager(self.call), old, new).await;
    }

    fn owners(&self) -> ownership::Owners<'_> {
        let Self { server, served, subresource, .. } = *self;
        ownership::Owners { server, served, subresource, now: server.clock().now() }
    }

    /// Makes sure that the object is the one of the path.
    fn placed(&self, object: &mut Value) -> Result<(), Status> {
        identity::same_namespace(self.call, self.served, object)?;
        identity::same_name(object, &self.key)
    }

    /// Puts back what the write cannot change, and refuses what breaks the rules.
    fn check(&self, old: &Value, new: &mut Value) -> Result<(), Status> {
        // A binding is checked by itself, and changes what nothing else may.
        let bound = self.subresource == "binding";
        if !bound {
            self.rules().prepare_update(old, new);
        }
        identity::keep_system_fields(old, new);
        if bound { Ok(()) } else { self.rules().check_update(old, new) }
    }

    /// Ends an object that waited for the finalizer that is gone now.
    ///
    /// Whoever watches sees it go as it was, and whoever took the finalizer away sees what they made of it.
    async fn end(&self, record: &Record, old: &Value, new: Value) -> Result<Option<Outcome>, Status> {
        if !self.options.dry_run {
            let draft = self.server.draft(self.served, old.clone()).await?;
            match self.server.store().remove(&self.served.stored_as, &self.key, record.version, draft) {
                Ok(removed) => self.server.settled(removed.version).await?,
                Err(Refusal::Lost(why)) => return Err(Status::internal(why.to_string())),
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(Outcome::Shown(new)))
    }

    /// Stores the object, if it is another one than before.
    async fn put(
        &self,
        record: &Arc<Record>,
        old: &Value,
        new: Value,
        conditional: bool,
        allocation: Option<Allocation>,
    ) -> Result<Option<Outcome>, Status> {
        let Self { server, served, .. } = *self;
        let new = strategy::as_stored(served, new, self.call.now);
        // What is stored counts, also where readers do not see all of it.
        let same = if record.index.gaps { new == record.parse() } else { new == *old };
        if same {
            server.settled(record.version).await?;
            return Ok(Some(Outcome::Stored(Arc::clone(record))));
        }
        if self.options.dry_run {
            let new = server.as_if_stored(served, new).await?;
            return Ok(Some(Outcome::Shown(strategy::as_read(served, new))));
        }
        let stored = server.in_storage_version(served, new).await?;
        // A version may show less, or have defaults for more, than what is stored of it.
        if served.custom_version().is_some() && served.kind != served.storage_kind && stored == record.parse()
        {
            server.settled(record.version).await?;
            return Ok(Some(Outcome::Stored(Arc::clone(record))));
        }
        let draft = Server::draft_of(served, &stored)?;
        match server.store().put(&served.stored_as, &self.key, Expect::Version(record.version), draft) {
            Ok(record) => {
                server.finished(&record, allocation).await?;
                Ok(Some(Outcome::Stored(record)))
            }
            Err(Refusal::Lost(why)) => Err(Status::internal(why.to_string())),
            Err(Refusal::Gone) if conditional => Err(self.not_found()),
            Err(_) if conditional => Err(self.conflict(MODIFIED)),
            Err(_) => Ok(None),
        }
    }
}

/// What admission sees of an object: the object, or the view a subresource gives of it.
struct Seen<'a> {
    served: &'a Served,
    subresource: &'a str,
}

impl Seen<'_> {
    fn is_scale(&self) -> bool {
        self.subresource == "scale"
    }

    fn kind(&self) -> &Gvk {
        static SCALE: LazyLock<Gvk> = LazyLock::new(|| Gvk::new("autoscaling", "v1", "Scale"));
        if self.is_scale() { &SCALE } else { &self.served.kind }
    }

    fn of(&self, object: &Value) -> Result<Value, Status> {
        if self.is_scale() { subresources::scale_seen(self.served, object) } else { Ok(object.clone()) }
    }

    /// The object after admission changed what it saw of it.
    fn taken_over(&self, object: Value, seen: Value) -> Result<Value, Status> {
        if self.is_scale() { subresources::apply_scale(self.served, object, &seen) } else { Ok(seen) }
    }
}
