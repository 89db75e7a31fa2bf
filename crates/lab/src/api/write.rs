//! Create, update, patch and apply, as clients ask for them.

use std::sync::Arc;

use serde_json::Value;

use super::options::WriteOptions;
use super::patch::{Form, Patch};
use super::present::Presenter;
use super::reply::Reply;
use super::strategy::Rules;
use super::{Call, body, identity, negotiate, ownership, read, strategy, subresources};
use crate::admission::quota::Charged;
use crate::admission::{Operation, Review};
use crate::attributes::Attributes;
use crate::registry::Served;
use crate::server::Server;
use crate::status::Status;
use crate::store::{Expect, Key, Record, Refusal};

pub(crate) use super::change::{Change, modify};

/// How often a generated name is tried again when it is taken.
const NAME_ATTEMPTS: usize = 8;

/// What came of a write.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is stored like this.
    Stored(Arc<Record>),
    /// It looks like this but is not stored: it was a dry run, or the object is gone with this change.
    Shown(Value),
}

/// How an object comes to be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Somebody asked for it.
    Create,
    /// Something that is not there was updated or applied, which takes the right to create it as well.
    Update,
    /// The same with a part of something that is not there.
    UpdateOfPart,
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
        Outcome::Shown(object) => super::present::Answer::Value(presenter.view(object.clone())),
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
    identity::wipe_system_fields(&mut object);
    identity::same_namespace(call, served, &mut object)?;
    identity::dedup_owners(call, &mut object, false);
    let owners = ownership::Owners { server, served, subresource: "", now: server.clock().now() };
    owners.update(&options.manager(call), None, &mut object).await;
    let creation = Creation { server, call, served, options, origin: Origin::Create };
    creation.tracked(object, &mut Charged::default()).await
}

/// The creation of an object.
pub(super) struct Creation<'a> {
    pub(super) server: &'a Arc<Server>,
    pub(super) call: &'a Call,
    pub(super) served: &'a Arc<Served>,
    pub(super) options: &'a WriteOptions,
    pub(super) origin: Origin,
}

impl Creation<'_> {
    /// Creates an object whose managed fields are set: the common end of all ways to create one.
    pub(super) async fn tracked(&self, object: Value, charged: &mut Charged) -> Result<Outcome, Status> {
        let Self { server, call, served, options, .. } = *self;
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
            object: Some(object),
            old: None,
        };
        call.warn_all(server.admission().mutate(&mut review).await?);
        let mut object = review.object.take().unwrap_or_default();
        identity::dedup_owners(call, &mut object, true);
        let generates = object["metadata"]["name"].as_str().unwrap_or_default().is_empty()
            && !object["metadata"]["generateName"].as_str().unwrap_or_default().is_empty();
        if !generates {
            return self.attempt(&attributes, object, charged).await;
        }
        let mut refused = Status::internal("no name was tried");
        for _ in 0..NAME_ATTEMPTS {
            match self.attempt(&attributes, object.clone(), charged).await {
                Err(status) if status.reason == "AlreadyExists" => refused = status,
                outcome => return outcome,
            }
        }
        Err(refused)
    }

    /// Creates the object that admission has completed, under a new name where one is to be generated.
    async fn attempt(
        &self,
        attributes: &Attributes,
        mut object: Value,
        charged: &mut Charged,
    ) -> Result<Outcome, Status> {
        let Self { server, call, served, options, .. } = *self;
        if self.origin != Origin::Create {
            identity::wipe_system_fields(&mut object);
        }
        identity::fill_system_fields(server, &mut object);
        let rules = Rules { server, call, served, subresource: "" };
        server.authorizer().check_escalation(&call.attributes, &object, None)?;
        // Kept until the object is written, so that nobody else is given the same address. Whoever makes a service
        // by its status gets one without an address.
        let allocation = match self.origin {
            Origin::UpdateOfPart => None,
            Origin::Create | Origin::Update => {
                server.allocate(served, &rules.context(), None, &mut object, options.dry_run)?
            }
        };
        rules.prepare_create(&mut object);
        rules.check_create(&object)?;
        if self.origin != Origin::Create {
            may_create(server, call)?;
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let generated =
            (attributes.name != name).then(|| Attributes { name: name.clone(), ..attributes.clone() });
        let mut review = Review {
            attributes: generated.as_ref().unwrap_or(attributes),
            kind: &served.kind,
            operation: Operation::Create,
            dry_run: options.dry_run,
            options: options.to_value("CreateOptions"),
            object: Some(object),
            old: None,
        };
        call.warn_all(server.admission().validate(&review).await?);
        server.charge(&review, charged).await?;
        let object = strategy::as_stored(served, review.object.take().unwrap_or_default(), call.now);
        let key = Key::new(call.key(served).namespace, name.as_str());
        if options.dry_run {
            if let Some(record) = server.store().get(&served.stored_as, &key) {
                return Err(self.exists(&name, Some(&record)));
            }
            let object = server.as_if_stored(served, object).await?;
            return Ok(Outcome::Shown(strategy::as_read(served, object)));
        }
        if self.origin == Origin::Create && identity::version_of(&object).is_ok_and(|version| version != 0) {
            return Err(Status::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        let draft = server.draft(served, object).await?;
        match server.store().put(&served.stored_as, &key, Expect::Absent, draft) {
            Ok(record) => {
                server.finished(&record, allocation).await?;
                Ok(Outcome::Stored(record))
            }
            Err(Refusal::Lost(why)) => Err(Status::internal(why.to_string())),
            Err(_) => Err(self.exists(&name, server.store().get(&served.stored_as, &key).as_deref())),
        }
    }

    /// What somebody is told whose object is there already, and perhaps on its way out.
    fn exists(&self, name: &str, record: Option<&Record>) -> Status {
        let mut status =
            Status::already_exists(&self.served.resource.group, &self.served.resource.resource, name);
        if record.is_some_and(|record| record.index.deleting) {
            status.message.insert_str(0, "object is being deleted: ");
        }
        status
    }
}

/// Whoever creates an object by another verb needs the right to create it as well.
fn may_create(server: &Server, call: &Call) -> Result<(), Status> {
    let mut attributes = call.attributes.clone();
    "create".clone_into(&mut attributes.verb);
    server.authorizer().check(&attributes)
}

/// `PUT` of an object.
pub(crate) async fn update(server: &Arc<Server>, call: &Call, served: &Arc<Served>) -> Result<Reply, Status> {
    let options = WriteOptions::read(call, "UpdateOptions")?;
    let object = body::object(call, served, options.validation)?;
    finish(server, call, served, "", &options, Change::Replace(object)).await
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
    let (patch, options) = Patch::read(call, served)?;
    let change = match patch.form {
        Form::Apply => Change::Apply { configuration: &patch.value, sent_as: Some(&patch) },
        _ => Change::Patch(&patch),
    };
    finish(server, call, served, subresource, &options, change).await
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
        Outcome::Shown(object) => super::present::Answer::Value(presenter.view(object.clone())),
    };
    Ok(read::answer(if created { 201 } else { 200 }, answer, output))
}
