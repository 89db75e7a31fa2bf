//! Create, update, patch and apply.
//!
//! Every change of an object goes the same way: what is there is read, a [`Change`] makes of it what it should
//! become, then ownership, admission, the rules of the kind and validation follow, and the outcome is written if
//! nobody was faster. Otherwise it begins anew with what is there then.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::body;
use super::options::WriteOptions;
use super::patch::Patch;
use super::present::Presenter;
use super::reply::Reply;
use super::strategy::Rules;
use super::{Call, negotiate, read, strategy, subresources};
use crate::admission::{Operation, Review};
use crate::clock::seconds;
use crate::merge;
use crate::names::Gvk;
use crate::registry::Served;
use crate::server::Server;
use crate::status::Status;
use crate::store::{Expect, Key, Record, Refusal};

/// How often a change is tried again when somebody else was faster.
const ATTEMPTS: usize = 64;
/// How often a generated name is tried again when it is taken.
const NAME_ATTEMPTS: usize = 8;
/// What a writer is told whose copy was old.
pub(crate) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// What came of a write.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is stored like this.
    Stored(Arc<Record>),
    /// It would look like this; it was a dry run.
    Tried(Value),
}

/// `POST` to a collection.
pub(crate) async fn create(server: &Arc<Server>, call: &Call, served: &Arc<Served>) -> Result<Reply, Status> {
    if served.is_binding() {
        return subresources::bind(server, call, None).await;
    }
    if let Some(review) = subresources::review_kind(served) {
        let output = negotiate::output_of_answer(call)?;
        let options = WriteOptions::read(call, "CreateOptions")?;
        let object = body::object(call, served, options.validation)?;
        return subresources::review(server, call, review, &object, output);
    }
    let output = negotiate::output_of(call, served, false)?;
    let options = WriteOptions::read(call, "CreateOptions")?;
    let presenter = Presenter::new(server, served, output, &call.parameters)?;
    let object = body::object(call, served, options.validation)?;
    let outcome = create_object(server, call, served, &options, object).await?;
    let answer = match &outcome {
        Outcome::Stored(record) => presenter.object(record).await?,
        Outcome::Tried(object) => super::present::Answer::Value(presenter.view(object.clone())),
    };
    Ok(read::answer(201, answer, output))
}

/// Creates an object that is decoded already.
pub(crate) async fn create_object(
    server: &Arc<Server>,
    call: &Call,
    served: &Arc<Served>,
    options: &WriteOptions,
    mut object: Value,
) -> Result<Outcome, Status> {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if !version.is_empty() && version != "0" {
        return Err(Status::new(500, "", "resourceVersion should not be set on objects to be created"));
    }
    wipe_system_fields(&mut object);
    same_namespace(call, served, &mut object)?;
    dedup_owners(call, &mut object);
    let manager = options.manager(call);
    server.track_update(served, "", &manager, None, &mut object);
    create_tracked(server, call, served, options, object).await
}

/// Creates an object whose managed fields are set: the common end of create and of apply to nothing.
async fn create_tracked(
    server: &Arc<Server>,
    call: &Call,
    served: &Arc<Served>,
    options: &WriteOptions,
    object: Value,
) -> Result<Outcome, Status> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if served.terminating {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(&served.resource.group, &served.resource.resource, &name, why));
    }
    let mut attributes = call.attributes.clone();
    attributes.name.clone_from(&name);
    if served.is_namespace() {
        attributes.namespace = name;
    }
    let mut review = Review {
        attributes: &attributes,
        kind: &served.kind,
        operation: Operation::Create,
        dry_run: options.dry_run,
        options: options.to_value("CreateOptions"),
        object: None,
        old: None,
    };
    review.object = Some(object);
    for warning in server.admission().mutate(&mut review).await? {
        call.warn(warning);
    }
    let object = review.object.take().unwrap_or_default();
    let generates = object["metadata"]["name"].as_str().unwrap_or_default().is_empty()
        && !object["metadata"]["generateName"].as_str().unwrap_or_default().is_empty();
    let attempts = if generates { NAME_ATTEMPTS } else { 1 };
    let mut refused = None;
    for _ in 0..attempts {
        let mut object = object.clone();
        dedup_owners(call, &mut object);
        fill_system_fields(server, &mut object);
        let rules = Rules { server, call, served, subresource: "" };
        server.authorizer().check_escalation(&call.attributes, &object, None)?;
        // Held until the object is written, so that nobody else is given the same address.
        let _allocation =
            server.allocate(served, &rules.context(), None, &mut object, options.dry_run).await?;
        rules.prepare_create(&mut object);
        rules.check_create(&object)?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut attributes = attributes.clone();
        attributes.name.clone_from(&name);
        let mut review = Review {
            attributes: &attributes,
            kind: &served.kind,
            operation: Operation::Create,
            dry_run: options.dry_run,
            options: options.to_value("CreateOptions"),
            object: None,
            old: None,
        };
        review.object = Some(object);
        for warning in server.admission().validate(&review).await? {
            call.warn(warning);
        }
        server.charge(&review).await?;
        let object = review.object.take().unwrap_or_default();
        let object = as_read(served, object, call);
        let key = Key::new(call.key(served).namespace, name.as_str());
        if options.dry_run {
            if server.store().get(&served.stored_as, &key).is_some() {
                return Err(Status::already_exists(&served.resource.group, &served.resource.resource, &name));
            }
            return Ok(Outcome::Tried(object));
        }
        let draft = server.draft(served, object).await?;
        match server.store().put(&served.stored_as, &key, Expect::Absent, draft) {
            Ok(record) => {
                server.settled(record.version).await?;
                return Ok(Outcome::Stored(record));
            }
            Err(_) => {
                refused =
                    Some(Status::already_exists(&served.resource.group, &served.resource.resource, &name));
            }
        }
    }
    Err(refused.unwrap_or_else(|| Status::internal("no name was tried")))
}

/// What a write makes of what is there.
pub(crate) enum Change<'a> {
    /// The whole object is given.
    Replace(&'a Value),
    /// A patch is applied.
    Patch(&'a Patch),
    /// A configuration is applied by a manager.
    Apply(&'a Value),
    /// Something is changed, and the managed fields with it.
    Tracked(&'a (dyn Fn(Value) -> Result<Value, Status> + Send + Sync)),
    /// The server itself changes something.
    Own(&'a (dyn Fn(Value) -> Result<Value, Status> + Send + Sync)),
}

/// `PUT` of an object.
pub(crate) async fn update(server: &Arc<Server>, call: &Call, served: &Arc<Served>) -> Result<Reply, Status> {
    let options = WriteOptions::read(call, "UpdateOptions")?;
    let object = body::object(call, served, options.validation)?;
    finish(server, call, served, "", &options, Change::Replace(&object)).await
}

/// `PATCH` of an object.
pub(crate) async fn patch(server: &Arc<Server>, call: &Call, served: &Arc<Served>) -> Result<Reply, Status> {
    patch_subresource(server, call, served, "").await
}

/// `PATCH` of an object or a part of it.
pub(crate) async fn patch_subresource(
    server: &Arc<Server>,
    call: &Call,
    served: &Arc<Served>,
    subresource: &str,
) -> Result<Reply, Status> {
    let options = WriteOptions::read(call, "PatchOptions")?;
    let patch = Patch::read(call, served, &options)?;
    match patch {
        Patch::Apply(configuration) => {
            finish(server, call, served, subresource, &options, Change::Apply(&configuration)).await
        }
        patch => finish(server, call, served, subresource, &options, Change::Patch(&patch)).await,
    }
}

/// Makes the change and answers with what came of it.
pub(crate) async fn finish(
    server: &Arc<Server>,
    call: &Call,
    served: &Arc<Served>,
    subresource: &str,
    options: &WriteOptions,
    change: Change<'_>,
) -> Result<Reply, Status> {
    let output = negotiate::output_of(call, served, false)?;
    let presenter = Presenter::new(server, served, output, &call.parameters)?;
    let (outcome, created) = modify(server, call, served, subresource, options, change).await?;
    let answer = match &outcome {
        Outcome::Stored(record) => presenter.object(record).await?,
        Outcome::Tried(object) => super::present::Answer::Value(presenter.view(object.clone())),
    };
    Ok(read::answer(if created { 201 } else { 200 }, answer, output))
}

/// Makes a change; says what came of it, and whether the object is new.
pub(crate) async fn modify(
    server: &Arc<Server>,
    call: &Call,
    served: &Arc<Served>,
    subresource: &str,
    options: &WriteOptions,
    change: Change<'_>,
) -> Result<(Outcome, bool), Status> {
    let key = call.key(served);
    let (group, resource) = (&served.resource.group, &served.resource.resource);
    for _ in 0..ATTEMPTS {
        let Some(record) = server.store().get(&served.stored_as, &key) else {
            return match change {
                Change::Apply(configuration) if subresource.is_empty() => {
                    may_create(server, call)?;
                    let applied = server.apply(served, subresource, options, None, configuration)?;
                    let rules = Rules { server, call, served, subresource };
                    let mut object = rules.reshape(applied, options.validation)?;
                    if let Some(uid) = object["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) {
                        let why = format!(
                            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                        );
                        return Err(Status::conflict(group, resource, &key.name, &why));
                    }
                    take_name(&object, &key)?;
                    same_namespace(call, served, &mut object)?;
                    let outcome = create_tracked(server, call, served, options, object).await?;
                    Ok((outcome, true))
                }
                Change::Replace(object) if subresource.is_empty() && served.creates_on_update() => {
                    let object = object.clone();
                    if let Some(uid) = object["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) {
                        let why = uid_mismatch(served, &key, uid, "");
                        return Err(Status::conflict(group, resource, &key.name, &why));
                    }
                    take_name(&object, &key)?;
                    may_create(server, call)?;
                    let outcome = create_object(server, call, served, options, object).await?;
                    Ok((outcome, true))
                }
                _ => Err(Status::not_found(group, resource, &key.name)),
            };
        };
        let old = server.read(served, &record).await?;
        let rules = Rules { server, call, served, subresource };
        let mut new = match &change {
            Change::Replace(object) => {
                let object = (*object).clone();
                if subresource.is_empty() || Served::has_own_body(subresource) {
                    take_name(&object, &key)?;
                }
                if let Some(uid) = object["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) {
                    let found = old["metadata"]["uid"].as_str().unwrap_or_default();
                    if uid != found {
                        let why = uid_mismatch(served, &key, uid, found);
                        return Err(Status::conflict(group, resource, &key.name, &why));
                    }
                }
                object
            }
            Change::Patch(patch) => {
                let patched = patch.apply(served, &old)?;
                rules.reshape_patched(patched, patch, options.validation)?
            }
            Change::Apply(configuration) => {
                let applied = server.apply(served, subresource, options, Some(&old), configuration)?;
                rules.reshape(applied, options.validation)?
            }
            Change::Own(change) | Change::Tracked(change) => change(old.clone())?,
        };
        take_name(&new, &key)?;
        same_namespace(call, served, &mut new)?;
        if !matches!(change, Change::Apply(_) | Change::Tracked(_)) {
            dedup_owners(call, &mut new);
            server.track_update(served, subresource, &options.manager(call), Some(&old), &mut new);
        }
        let old = Arc::new(old);
        let seen = Seen { served, subresource };
        let mut review = Review {
            attributes: &call.attributes,
            kind: seen.kind(),
            operation: Operation::Update,
            dry_run: options.dry_run,
            options: options.to_value("UpdateOptions"),
            object: Some(seen.of(&new)?),
            old: Some(Arc::new(seen.of(&old)?)),
        };
        if !call.admitted {
            for warning in server.admission().mutate(&mut review).await? {
                call.warn(warning);
            }
            new = seen.taken_over(new, review.object.take().unwrap_or_default())?;
        }
        dedup_owners(call, &mut new);

        if subresource.is_empty() {
            server.authorizer().check_escalation(&call.attributes, &new, Some(&old))?;
        }
        let conditional = match check_version(served, &key, &old, &new)? {
            Version::Any => false,
            Version::Same => matches!(change, Change::Replace(_)),
        };
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        let _allocation =
            server.allocate(served, &rules.context(), Some(&old), &mut new, options.dry_run).await?;
        // A binding is checked by itself, and changes what nothing else may.
        let bound = subresource == "binding";
        if !bound {
            rules.prepare_update(&old, &mut new);
        }
        keep_system_fields(&old, &mut new);
        if !bound {
            rules.check_update(&old, &new)?;
        }
        merge::ignore_times(&old, &mut new);
        if !call.admitted {
            review.object = Some(seen.of(&new)?);
            for warning in server.admission().validate(&review).await? {
                call.warn(warning);
            }
            server.charge(&review).await?;
        }

        let new = as_read(served, new, call);
        if Server::is_done(served, &old, &new) {
            // The last finalizer went from an object that was waiting for it.
            return if options.dry_run {
                Ok((Outcome::Tried(new), false))
            } else {
                let draft = server.draft(served, new).await?;
                match server.store().remove(&served.stored_as, &key, record.version, draft) {
                    Ok(record) => {
                        server.settled(record.version).await?;
                        Ok((Outcome::Stored(record), false))
                    }
                    Err(_) => continue,
                }
            };
        }
        if new == *old {
            server.settled(record.version).await?;
            return Ok((Outcome::Stored(record), false));
        }
        if options.dry_run {
            return Ok((Outcome::Tried(new), false));
        }
        let draft = server.draft(served, new).await?;
        match server.store().put(&served.stored_as, &key, Expect::Version(record.version), draft) {
            Ok(record) => {
                server.settled(record.version).await?;
                return Ok((Outcome::Stored(record), false));
            }
            Err(Refusal::Gone) if conditional => {
                return Err(Status::not_found(group, resource, &key.name));
            }
            Err(_) if conditional => return Err(Status::conflict(group, resource, &key.name, MODIFIED)),
            Err(_) => {}
        }
    }
    Err(Status::conflict(group, resource, &key.name, MODIFIED))
}

/// The object as the real server reads it back: with the defaults of what preparing it set or took away.
fn as_read(served: &Served, object: Value, call: &Call) -> Value {
    if served.custom_version().is_some() { object } else { strategy::defaulted(served, object, call.now) }
}

/// Whoever creates an object by another verb needs the right to create it as well.
fn may_create(server: &Server, call: &Call) -> Result<(), Status> {
    let mut attributes = call.attributes.clone();
    "create".clone_into(&mut attributes.verb);
    server.authorizer().check(&attributes)
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
        if self.is_scale() { subresources::scale_of(self.served, object) } else { Ok(object.clone()) }
    }

    /// The object after admission changed what it saw of it.
    fn taken_over(&self, object: Value, seen: Value) -> Result<Value, Status> {
        if self.is_scale() { subresources::apply_scale(self.served, object, &seen) } else { Ok(seen) }
    }
}

/// What a write says about the version it is based on.
enum Version {
    Any,
    Same,
}

fn check_version(served: &Served, key: &Key, old: &Value, new: &Value) -> Result<Version, Status> {
    let (group, resource) = (&served.resource.group, &served.resource.resource);
    let text = new["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if text.is_empty() || text == "0" {
        if served.needs_version_on_update() {
            let problem = crate::status::FieldProblem::new(
                "metadata.resourceVersion",
                crate::status::Problem::Invalid(json!(0), "must be specified for an update".to_owned()),
            );
            return Err(Status::invalid(group, resource, &key.name, vec![problem]));
        }
        return Ok(Version::Any);
    }
    if text.parse::<u64>().is_err() {
        return Err(Status::new(500, "", format!("strconv.ParseUint: parsing {text:?}: invalid syntax")));
    }
    if old["metadata"]["resourceVersion"] == text {
        return Ok(Version::Same);
    }
    Err(Status::conflict(group, resource, &key.name, MODIFIED))
}

/// What a client is told whose object is another one of the same name.
fn uid_mismatch(served: &Served, key: &Key, wanted: &str, found: &str) -> String {
    let place = if served.namespaced { format!("{}/{}", key.namespace, key.name) } else { key.name.clone() };
    format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{place}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}",
        served.stored_as.resource
    )
}

/// Removes what only the server sets.
fn wipe_system_fields(object: &mut Value) {
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "resourceVersion",
            "generation",
        ] {
            metadata.remove(field);
        }
    }
}

/// Sets what only the server sets, and the name where it is to be generated.
fn fill_system_fields(server: &Server, object: &mut Value) {
    wipe_system_fields(object);
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let base = object["metadata"]["generateName"].as_str().unwrap_or_default();
    if name.is_empty() && !base.is_empty() {
        object["metadata"]["name"] = server.generated_name(base).into();
    }
    object["metadata"]["uid"] = server.new_uid().into();
    object["metadata"]["creationTimestamp"] = seconds(server.clock().now()).into();
}

/// Keeps what an update cannot change.
fn keep_system_fields(old: &Value, new: &mut Value) {
    let before = &old["metadata"];
    let Some(metadata) = new["metadata"].as_object_mut() else { return };
    if metadata.get("uid").and_then(Value::as_str).unwrap_or_default().is_empty() {
        metadata.insert("uid".to_owned(), before["uid"].clone());
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if !before[field].is_null() {
            metadata.insert(field.to_owned(), before[field].clone());
        }
    }
    let grace = "deletionGracePeriodSeconds";
    if !before[grace].is_null() && !metadata.contains_key(grace) {
        metadata.insert(grace.to_owned(), before[grace].clone());
    }
}

/// The namespace of the object is that of the URL.
fn same_namespace(call: &Call, served: &Served, object: &mut Value) -> Result<(), Status> {
    let expected = if served.namespaced { call.attributes.namespace.as_str() } else { "" };
    let found = object["metadata"]["namespace"].as_str().unwrap_or_default();
    if found == expected {
        return Ok(());
    }
    if !served.namespaced {
        // The real server takes objects of the cluster out of whatever namespace they claim.
        object["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
        return Ok(());
    }
    if !found.is_empty() {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object["metadata"]["namespace"] = expected.into();
    Ok(())
}

/// The name of a replaced object is that of the URL; left out, it is taken from there.
fn take_name(object: &Value, key: &Key) -> Result<(), Status> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            key.name
        )));
    }
    same_name(object, key)
}

fn same_name(object: &Value, key: &Key) -> Result<(), Status> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name == key.name {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({})",
        key.name
    )))
}

/// Owner references that are there twice are kept once, with a warning.
fn dedup_owners(call: &Call, object: &mut Value) {
    let Some(owners) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) else {
        return;
    };
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    let mut twice = Vec::new();
    for owner in owners.drain(..) {
        if kept.contains(&owner) {
            twice.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    if !twice.is_empty() {
        twice.dedup();
        call.warn(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        ));
    }
}
