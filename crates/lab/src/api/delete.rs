//! Deleting objects: at once, after a grace period, or when the last finalizer is gone.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::body;
use super::options::{DeleteOptions, Propagation};
use super::present::Presenter;
use super::reply::Reply;
use super::{Call, negotiate, read};
use crate::admission::{Operation, Review};
use crate::clock::seconds;
use crate::registry::Served;
use crate::schema::decode;
use crate::server::Server;
use crate::status::Status;
use crate::store::{Expect, Key, Record, Refusal};
use crate::together::side_by_side;

/// The finalizer of an object whose dependents go first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents are let go.
pub(crate) const ORPHAN: &str = "orphan";
/// How often a deletion is tried again when somebody else was faster.
const ATTEMPTS: usize = 64;

/// What came of a deletion.
#[derive(Debug)]
pub(crate) enum Gone {
    /// The object is no more; its last state.
    Removed(Arc<Record>),
    /// The object waits for somebody.
    Waiting(Arc<Record>),
    /// The object would be no more; it was a dry run.
    WouldGo(Value),
    /// The object would look like this; it was a dry run.
    WouldBe(Value),
}

/// `DELETE` of an object.
pub(crate) async fn one(server: &Arc<Server>, call: &Call, served: &Arc<Served>) -> Result<Reply, Status> {
    let output = negotiate::output_of(call, served, false)?;
    let presenter = Presenter::new(server, served, output, &call.parameters)?;
    let given = body::delete_options(call)?;
    let options = DeleteOptions::read(call, given.as_ref())?;
    let is_job = served.resource.group == "batch" && served.resource.resource == "jobs";
    if is_job && options.policy.is_none() && options.orphan_dependents.is_none() {
        call.warn(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
        );
    }
    let gone = delete(server, call, served, &call.key(served), &options, None).await?;
    let accepted =
        matches!(gone, Gone::Waiting(_) | Gone::WouldBe(_)) && options.orphan_dependents == Some(false);
    let code = if accepted { 202 } else { 200 };
    match gone {
        Gone::Waiting(record) => Ok(read::answer(code, presenter.object(&record).await?, output)),
        Gone::Removed(record) if served.returns_deleted() => {
            Ok(read::answer(code, presenter.object(&record).await?, output))
        }
        Gone::WouldGo(object) if served.returns_deleted() => {
            Ok(Reply::object(code, &presenter.view(object), output))
        }
        Gone::WouldBe(object) => Ok(Reply::object(code, &presenter.view(object), output)),
        Gone::Removed(record) => Ok(Reply::object(code, &success(served, &record.parse()), output)),
        Gone::WouldGo(object) => Ok(Reply::object(code, &success(served, &object), output)),
    }
}

fn success(served: &Served, object: &Value) -> Value {
    let mut details = json!({"name": object["metadata"]["name"], "kind": served.resource.resource, "uid": object["metadata"]["uid"]});
    if !served.resource.group.is_empty() {
        details["group"] = served.resource.group.as_str().into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// `DELETE` of a collection. Answers with the list of what was there.
pub(crate) async fn collection(
    server: &Arc<Server>,
    call: &Call,
    served: &Arc<Served>,
) -> Result<Reply, Status> {
    let output = negotiate::output_of(call, served, true)?;
    let presenter = Presenter::new(server, served, output, &call.parameters)?;
    let filter = call.filter(served)?;
    let given = body::delete_options(call)?;
    let options = DeleteOptions::read(call, given.as_ref())?;
    let listing = read::matching(server, served, &filter, 0);
    // Deletions that wait for the disk together share a commit.
    let (options, filter) = (&options, &filter);
    side_by_side(&listing.records, |record| async move {
        match delete(server, call, served, &record.key, options, Some(filter)).await {
            Err(status) if status.code != 404 => Err(status),
            _ => Ok(()),
        }
    })
    .await?;
    let version = server.store().version();
    server.settled(version).await?;
    let metadata = json!({"resourceVersion": version.to_string()});
    Ok(read::answer(200, presenter.list(&listing, metadata).await?, output))
}

/// Deletes one object as far as it can be: removes it, or marks it for those who have to let it go.
///
/// With a filter, an object that has ceased to match is left alone.
pub(crate) async fn delete(
    server: &Arc<Server>,
    call: &Call,
    served: &Arc<Served>,
    key: &Key,
    options: &DeleteOptions,
    filter: Option<&super::filter::Filter>,
) -> Result<Gone, Status> {
    let (group, resource) = (&served.resource.group, &served.resource.resource);
    let missing = || Status::not_found(group, resource, &key.name);
    for _ in 0..ATTEMPTS {
        let record = server.store().get(&served.stored_as, key).ok_or_else(missing)?;
        if filter.is_some_and(|filter| !filter.matches(key, &record)) {
            return Err(missing());
        }
        let object = server.read(served, &record).await?;
        check_preconditions(served, key, &object, options)?;

        let mut attributes = call.attributes.clone();
        // Admission is not told names when a whole collection goes.
        attributes.name = if filter.is_some() { String::new() } else { key.name.clone() };
        if served.is_namespace() {
            attributes.namespace.clone_from(&key.name);
        } else {
            attributes.namespace.clone_from(&key.namespace);
        }
        let mut review = Review {
            attributes: &attributes,
            kind: &served.kind,
            operation: Operation::Delete,
            dry_run: options.dry_run,
            options: options.to_value(),
            object: None,
            old: Some(Arc::new(object.clone())),
        };
        if !options.unasked {
            let mut warnings = server.admission().mutate(&mut review).await?;
            warnings.extend(server.admission().validate(&review).await?);
            call.warn_all(warnings);
        }

        let step = plan(served, &object, options, server.clock().now());
        if options.dry_run {
            return Ok(match step {
                // The real server shows what it has not filled in when it finds out late that nothing is left to
                // wait for.
                Step::Remove if has_finalizers(&object) => Gone::WouldBe(empty(served)),
                Step::Remove => Gone::WouldGo(object),
                Step::Wait => Gone::Waiting(record),
                Step::Mark(object) | Step::MarkAndRemove(object) => Gone::WouldBe(object),
            });
        }
        match step {
            Step::Wait => {
                server.settled(record.version).await?;
                return Ok(Gone::Waiting(record));
            }
            Step::Remove => {
                let draft = server.draft(served, object).await?;
                match server.store().remove(&served.stored_as, key, record.version, draft) {
                    Ok(record) => {
                        server.settled(record.version).await?;
                        return Ok(Gone::Removed(record));
                    }
                    Err(Refusal::Gone) => return Err(missing()),
                    Err(Refusal::Lost(why)) => return Err(Status::internal(why.to_string())),
                    Err(Refusal::Changed(_)) => {}
                }
            }
            Step::MarkAndRemove(object) => {
                // Watchers see both steps, as they do for the real server.
                let draft = server.draft(served, object.clone()).await?;
                match server.store().put(&served.stored_as, key, Expect::Version(record.version), draft) {
                    Ok(marked) => {
                        let draft = server.draft(served, object).await?;
                        if let Ok(record) =
                            server.store().remove(&served.stored_as, key, marked.version, draft)
                        {
                            server.settled(record.version).await?;
                            return Ok(Gone::Removed(record));
                        }
                    }
                    Err(Refusal::Gone) => return Err(missing()),
                    Err(Refusal::Lost(why)) => return Err(Status::internal(why.to_string())),
                    Err(Refusal::Changed(_)) => {}
                }
            }
            Step::Mark(object) => {
                if object == server.read(served, &record).await? {
                    server.settled(record.version).await?;
                    return Ok(Gone::Waiting(record));
                }
                let draft = server.draft(served, object).await?;
                match server.store().put(&served.stored_as, key, Expect::Version(record.version), draft) {
                    Ok(record) => {
                        server.settled(record.version).await?;
                        return Ok(Gone::Waiting(record));
                    }
                    Err(Refusal::Gone) => return Err(missing()),
                    Err(Refusal::Lost(why)) => return Err(Status::internal(why.to_string())),
                    Err(Refusal::Changed(_)) => {}
                }
            }
        }
    }
    Err(Status::conflict(group, resource, &key.name, super::identity::MODIFIED))
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

/// An object of a resource about which nothing is known.
fn empty(served: &Served) -> Value {
    let mut object = json!({});
    if served.custom_version().is_none()
        && let Some(shape) = served.shape()
        && let Ok(decoded) = decode::convert(shape, json!({}))
    {
        object = decoded.value;
    }
    object["kind"] = served.kind.kind.as_str().into();
    object["apiVersion"] = served.kind.api_version().into();
    object
}

pub(crate) fn check_preconditions(
    served: &Served,
    key: &Key,
    object: &Value,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let found = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let conflict =
        |why: String| Err(Status::conflict(&served.resource.group, &served.kind.kind, &key.name, &why));
    match &options.uid {
        Some(uid) if uid != found("uid") => {
            return conflict(format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                found("uid")
            ));
        }
        _ => {}
    }
    match &options.version {
        Some(version) if version != found("resourceVersion") => conflict(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            found("resourceVersion")
        )),
        _ => Ok(()),
    }
}

/// What a deletion does to an object.
#[derive(Debug, PartialEq)]
enum Step {
    /// It goes.
    Remove,
    /// It is marked, becomes this, and goes.
    MarkAndRemove(Value),
    /// It is on its way already.
    Wait,
    /// It is marked, and becomes this.
    Mark(Value),
}

/// Decides what a deletion does to an object.
fn plan(served: &Served, object: &Value, options: &DeleteOptions, now: Timestamp) -> Step {
    let mut object = object.clone();
    let mut graceful = false;
    if served.is_pod() {
        match grace(&mut object, options, now) {
            Grace::Pending => return Step::Wait,
            Grace::Given => graceful = true,
            Grace::None => {}
        }
    }
    let finalizers = finalizers(served, &object, options);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".to_owned(), finalizers.clone().into());
        }
    }
    if served.is_definition() {
        if object["metadata"]["deletionTimestamp"].is_null() {
            mark(&mut object, now);
            crate::crd::definition::start_deletion(&mut object, &seconds(now));
        }
        return Step::Mark(object);
    }
    let namespace_finalizers = served.is_namespace()
        && object["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
    if graceful {
        let zero = object["metadata"]["deletionGracePeriodSeconds"].as_i64() == Some(0);
        return if zero && finalizers.is_empty() { Step::MarkAndRemove(object) } else { Step::Mark(object) };
    }
    if finalizers.is_empty() && !namespace_finalizers {
        return Step::Remove;
    }
    mark(&mut object, now);
    if served.is_namespace() {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("deletionGracePeriodSeconds");
        }
        object["status"]["phase"] = "Terminating".into();
    }
    Step::Mark(object)
}

/// Marks an object as being deleted now.
fn mark(object: &mut Value, now: Timestamp) {
    let metadata = &mut object["metadata"];
    if metadata["deletionTimestamp"].is_null() {
        bump_generation(metadata);
    }
    let later = metadata["deletionTimestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    if later.is_none_or(|at| at > now) {
        metadata["deletionTimestamp"] = seconds(now).into();
    }
    metadata["deletionGracePeriodSeconds"] = 0.into();
}

fn bump_generation(metadata: &mut Value) {
    if let Some(generation) = metadata["generation"].as_i64().filter(|generation| *generation > 0) {
        metadata["generation"] = (generation + 1).into();
    }
}

/// What a grace period makes of a deletion.
enum Grace {
    /// There is none.
    None,
    /// The object was given one, and its deletion time set.
    Given,
    /// It runs already and is not shortened.
    Pending,
}

/// Gives a pod its grace period, or shortens the one it has.
fn grace(pod: &mut Value, options: &DeleteOptions, now: Timestamp) -> Grace {
    let asked = options.grace_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let metadata = &pod["metadata"];
    if let Some(text) = metadata["deletionTimestamp"].as_str() {
        let running = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        if running == 0 {
            return Grace::None;
        }
        let Some(mut period) = asked.filter(|period| *period < running) else { return Grace::Pending };
        let deadline = text.parse::<Timestamp>().unwrap_or(now);
        let mut earlier = deadline.saturating_sub(SignedDuration::from_secs(running - period)).unwrap_or(now);
        if earlier < now {
            earlier = now;
            period = period.min(1);
        }
        pod["metadata"]["deletionTimestamp"] = seconds(earlier).into();
        pod["metadata"]["deletionGracePeriodSeconds"] = period.into();
        return Grace::Given;
    }
    let mut period = asked.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(0);
    // Nobody runs it, so nobody needs time to stop it.
    let unscheduled = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    if unscheduled || finished {
        period = 0;
    }
    let deadline = now.saturating_add(SignedDuration::from_secs(period)).unwrap_or(now);
    pod["metadata"]["deletionTimestamp"] = seconds(deadline).into();
    pod["metadata"]["deletionGracePeriodSeconds"] = period.into();
    bump_generation(&mut pod["metadata"]);
    Grace::Given
}

/// The finalizers the object has once its deletion was asked for this way.
fn finalizers(served: &Served, object: &Value, options: &DeleteOptions) -> Vec<String> {
    let present: Vec<&str> =
        object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let unchanged = || present.iter().map(|finalizer| (*finalizer).to_owned()).collect();
    if !served.collects_garbage() {
        return unchanged();
    }
    let of_collector = match propagation(served, &present, options) {
        Propagation::Orphan => Some(ORPHAN),
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Background => None,
    };
    // They stay in their order where the same ones stay.
    let is_same =
        [ORPHAN, FOREGROUND].iter().all(|one| present.contains(one) == (of_collector == Some(*one)));
    if is_same {
        return unchanged();
    }
    let others = present.iter().copied().filter(|finalizer| !matches!(*finalizer, ORPHAN | FOREGROUND));
    others.chain(of_collector).map(str::to_owned).collect()
}

/// What becomes of the dependents: as the deletion says, or as the object or its kind has it.
fn propagation(served: &Served, finalizers: &[&str], options: &DeleteOptions) -> Propagation {
    let orphans = match (options.orphan_dependents, options.policy) {
        (Some(orphans), _) => orphans,
        (None, Some(policy)) => return policy,
        (None, None) if finalizers.contains(&FOREGROUND) && !finalizers.contains(&ORPHAN) => {
            return Propagation::Foreground;
        }
        (None, None) => finalizers.contains(&ORPHAN) || served.orphans_by_default(),
    };
    if orphans { Propagation::Orphan } else { Propagation::Background }
}
