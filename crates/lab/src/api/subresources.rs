//! Parts of objects, and actions on them, that have a path of their own.

use std::sync::Arc;

use serde_json::{Value, json};

use super::negotiate::{self, Output};
use super::options::{DeleteOptions, WriteOptions};
use super::patch::{Form, Patch, Patched};
use super::present::Presenter;
use super::reply::Reply;
use super::write::{self, Change};
use super::{Call, body, delete, identity, not_allowed, ownership, read, unknown_resource};
use crate::admission::eviction::{self, Eviction};
use crate::admission::{Operation, Review};
use crate::auth;
use crate::clock::seconds;
use crate::crd;
use crate::kinds;
use crate::merge;
use crate::names::{GroupResource, Gvk};
use crate::reader::Reader as _;
use crate::registry::Served;
use crate::schema::builtin;
use crate::schema::decode::FieldValidation;
use crate::server::{Server, Stored};
use crate::status::{FieldProblem, Problem, Status};
use crate::store::Key;

/// How often an eviction is decided anew when the pod or its budget changes.
const EVICTION_ATTEMPTS: usize = 10;

/// Answers a request for a subresource.
pub(crate) async fn handle(server: &Arc<Server>, call: &Call, served: &Arc<Served>) -> Result<Reply, Status> {
    let subresource = call.attributes.subresource.as_str();
    let verb = call.attributes.verb.as_str();
    let Some(verbs) = served.subresource_verbs(subresource) else {
        let (group, resource) = (&served.resource.group, &served.resource.resource);
        return Err(match served.custom_version() {
            Some(_) => Status::not_found(group, resource, &call.attributes.name),
            None => unknown_resource(),
        });
    };
    if served.namespaced && call.attributes.namespace.is_empty() {
        return Err(unknown_resource());
    }
    if !verbs.contains(&verb) {
        return Err(not_allowed());
    }
    match (subresource, verb) {
        ("scale", _) => scale(server, call, served).await,
        ("eviction", _) => evict(server, call).await,
        ("binding", _) => bind(server, call, Some(&call.attributes.name)).await,
        ("token", _) => token(server, call).await,
        ("log" | "exec" | "attach" | "portforward" | "proxy", _) => connect(server, call, served).await,
        (_, "get") => read::get(server, call, served).await,
        (_, "update") => {
            let options = WriteOptions::read(call, "UpdateOptions")?;
            let object = body::object(call, served, options.validation)?;
            write::finish(server, call, served, subresource, &options, Change::Replace(object)).await
        }
        (_, "patch") => write::patch_subresource(server, call, served, subresource).await,
        _ => Err(not_allowed()),
    }
}

/// The question a resource stands for whose objects are asked and never stored.
pub(crate) fn review_kind(served: &Served) -> Option<auth::Review> {
    auth::Review::of(&served.resource.group, &served.resource.resource)
}

/// Answers a review.
pub(crate) fn review(
    server: &Server,
    call: &Call,
    review: auth::Review,
    object: &Value,
    output: Output,
) -> Result<Reply, Status> {
    let now = server.clock().now();
    let answer =
        server.reviews().answer(review, &call.attributes.user, &call.attributes.namespace, object, now)?;
    Ok(Reply::object(201, &answer, output))
}

/// `GET`, `PUT` and `PATCH` of `scale`.
async fn scale(server: &Arc<Server>, call: &Call, served: &Arc<Served>) -> Result<Reply, Status> {
    let output = negotiate::output(&call.headers, &call.parameters, false)?;
    let presenter = Presenter::new(server, served, output, &call.parameters)?;
    if call.attributes.verb == "get" {
        let record = read::find(server, call, served).await?;
        let scale = scale_of(served, &server.read(served, &record).await?)?;
        return Ok(Reply::object(200, &presenter.view_as(&scale_kind(), scale), output));
    }
    let (wanted, options) = if call.attributes.verb == "update" {
        let options = WriteOptions::read(call, "UpdateOptions")?;
        let mut scale = body::other(call, &scale_kind(), options.validation)?;
        identity::same_namespace(call, served, &mut scale)?;
        identity::same_name(&scale, &call.key(served))?;
        (Wanted::Whole(scale), options)
    } else {
        let (patch, options) = Patch::read(call, served)?;
        (Wanted::Patch(patch), options)
    };
    let scaling = Scaling { server, call, served, options: &options, wanted: &wanted };
    let change = |object: Value| scaling.change(object);
    let (outcome, _) =
        write::modify(server, call, served, "scale", &options, Change::Tracked(&change)).await?;
    let object = match outcome {
        write::Outcome::Stored(record) => server.read(served, &record).await?,
        write::Outcome::Shown(object) => object,
    };
    let scale = presenter.view_as(&scale_kind(), scale_seen(served, &object)?);
    Ok(Reply::object(200, &scale, output))
}

/// A write to the scale of an object.
struct Scaling<'a> {
    server: &'a Server,
    call: &'a Call,
    served: &'a Served,
    options: &'a WriteOptions,
    wanted: &'a Wanted,
}

impl Scaling<'_> {
    /// Brings what a patch made into the form of a scale.
    fn reshaped(&self, patched: Patched<'_>) -> Result<Value, Status> {
        let shape =
            builtin::kind_of(&scale_kind()).ok_or_else(|| Status::internal("a kind without a shape"))?;
        let (scale, warnings) = patched.read(shape, &scale_kind(), self.options.validation)?;
        self.call.warn_all(warnings);
        Ok(scale)
    }

    /// The object with the number of replicas that is wanted, and its owners.
    fn change(&self, object: Value) -> Result<Value, Status> {
        let Self { server, call, served, options, .. } = *self;
        let paths = served.replicas_paths();
        let mut current = match served.custom_version() {
            None => scale_of(served, &object)?,
            Some(version) => crd::scale_for_update(version, &object)?,
        };
        current["metadata"]["managedFields"] =
            merge::to_scale(&object["metadata"]["managedFields"], &paths).map_err(Status::internal)?;
        let owners = ownership::Owners { server, served, subresource: "scale", now: call.now };
        let scale = match self.wanted {
            Wanted::Patch(patch) if patch.form == Form::Apply => {
                let scale = owners.apply_scale(options, &current, &patch.value)?;
                patch.complain_applied(call, options.validation)?;
                scale
            }
            Wanted::Patch(patch) => {
                let patched = self.reshaped(patch.apply_to_scale(&current)?)?;
                owners.update_scale(&options.manager(call), &current, patched)
            }
            Wanted::Whole(scale) => {
                let found = identity::uid_of(&object).unwrap_or_default();
                if let Some(uid) = identity::uid_of(scale).filter(|uid| *uid != found) {
                    let key = call.key(served);
                    let why = identity::uid_mismatch(served, &key, uid, found);
                    let (group, resource) = (&served.resource.group, &served.resource.resource);
                    return Err(Status::conflict(group, resource, &key.name, &why));
                }
                owners.update_scale(&options.manager(call), &current, scale.clone())
            }
        };
        let mut scale = scale;
        identity::same_namespace(call, served, &mut scale)?;
        identity::same_name(&scale, &call.key(served))?;
        let entries = merge::from_scale(
            &object["metadata"]["managedFields"],
            &scale["metadata"]["managedFields"],
            &served.kind.api_version(),
            &paths,
        )
        .map_err(Status::internal)?;
        let mut object = apply_scale(served, object, &scale)?;
        object["metadata"]["managedFields"] = entries;
        // Whoever tells a version means it, and is told when it is another one.
        let version = scale["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if !version.is_empty() {
            object["metadata"]["resourceVersion"] = version.into();
        }
        Ok(object)
    }
}

/// The kind all scales have.
fn scale_kind() -> Gvk {
    Gvk::new("autoscaling", "v1", "Scale")
}

/// What a write to `scale` sends.
enum Wanted {
    Whole(Value),
    Patch(Patch),
}

/// The scale of an object.
fn scale_of(served: &Served, object: &Value) -> Result<Value, Status> {
    match served.custom_version() {
        None => kinds::scale_of(&served.kind, object).ok_or_else(unknown_resource),
        Some(version) => crd::scale_of(version, object),
    }
}

/// The scale of an object that is written: a number that is not there is none.
pub(crate) fn scale_seen(served: &Served, object: &Value) -> Result<Value, Status> {
    match served.custom_version() {
        None => scale_of(served, object),
        Some(version) => crd::scale_seen(version, object),
    }
}

/// The object with the number of replicas of a scale.
pub(crate) fn apply_scale(served: &Served, object: Value, scale: &Value) -> Result<Value, Status> {
    match served.custom_version() {
        None => kinds::apply_scale(&served.kind, &object, scale),
        Some(version) => {
            let mut object = object;
            crd::apply_scale(version, &mut object, scale)?;
            Ok(object)
        }
    }
}

/// `POST` of an eviction: a deletion that respects disruption budgets.
async fn evict(server: &Arc<Server>, call: &Call) -> Result<Reply, Status> {
    let output = negotiate::output_of_answer(call)?;
    let kind = Gvk::new("policy", "v1", "Eviction");
    let mut object = body::other(call, &kind, FieldValidation::Ignore)?;
    let pods = server.registry().find("", "v1", "pods").ok_or_else(unknown_resource)?;
    identity::same_namespace(call, &pods, &mut object)?;
    let in_query = call.parameters.all("dryRun").any(|value| value == "All");
    let mut review = Review {
        attributes: &call.attributes,
        kind: &kind,
        operation: Operation::Create,
        dry_run: in_query || DeleteOptions::read(call, Some(&object["deleteOptions"]))?.dry_run,
        options: Value::Null,
        object: Some(object),
        old: None,
    };
    call.warn_all(server.admission().mutate(&mut review).await?);
    let object = review.object.as_ref().unwrap_or(&Value::Null);
    if object["metadata"]["name"].as_str().unwrap_or_default() != call.attributes.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = DeleteOptions::read(call, Some(&object["deleteOptions"]))?;
    options.dry_run |= in_query;
    // Admission has had its say about the eviction, and has none about the deletion that it is.
    options.unasked = true;
    call.warn_all(server.admission().validate(&review).await?);
    let key = call.key(&pods);
    let mut charged = false;
    for _ in 0..EVICTION_ATTEMPTS {
        match try_evict(server, call, &pods, &key, &options, &mut charged).await? {
            Tried::Evicted => {
                let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
                return Ok(Reply::object(201, &success, output));
            }
            Tried::Again => {}
        }
    }
    let mut status = Status::new(429, "TooManyRequests", "too many requests, please try again later");
    status.details.retry_after_seconds = Some(10);
    Err(status)
}

/// What came of one attempt to evict.
enum Tried {
    Evicted,
    /// The pod or its budget changed meanwhile.
    Again,
}

/// Decides about an eviction, charges the budget and deletes the pod. A budget that was charged by an earlier attempt
/// has had its say.
async fn try_evict(
    server: &Arc<Server>,
    call: &Call,
    pods: &Arc<Served>,
    key: &Key,
    options: &DeleteOptions,
    charged: &mut bool,
) -> Result<Tried, Status> {
    let budgets = GroupResource::new("policy", "poddisruptionbudgets");
    let record =
        server.store().get(&pods.stored_as, key).ok_or_else(|| Status::not_found("", "pods", &key.name))?;
    let pod = record.parse();
    delete::check_preconditions(pods, key, &pod, options)?;
    let found = Stored(Arc::clone(server.store())).list(&budgets, Some(&key.namespace));
    let decision = if *charged {
        Eviction { budget: None, only_as_it_is: false, on_conflict: None }
    } else {
        eviction::evict(&pod, &found, server.clock().now())?
    };
    if let Some(update) = decision.budget.filter(|_| !options.dry_run) {
        let name = update.name.as_str();
        let mut budget =
            found.iter().find(|budget| budget["metadata"]["name"] == name).map(|budget| (**budget).clone());
        if let Some(budget) = &mut budget {
            budget["status"] = update.status;
            budget["metadata"]["resourceVersion"] = update.resource_version.as_str().into();
            if server.replace(&budgets, &Key::new(key.namespace.as_str(), name), budget).await?.is_none() {
                return Ok(Tried::Again);
            }
            *charged = true;
        }
    }
    let mut options = options.clone();
    let pinned = decision.only_as_it_is && options.version.is_none();
    let mut version = record.version;
    // Whoever owns the pod reads off it why it goes.
    if !options.dry_run {
        let now = server.clock().now();
        match server.replace(&pods.stored_as, key, &eviction::with_condition(&pod, now)).await? {
            Some(record) => version = record.version,
            None => return Ok(Tried::Again),
        }
    }
    if pinned || options.version.is_some() {
        options.version = Some(version.to_string());
    }
    match delete::delete(server, call, pods, key, &options, None).await {
        Ok(_) => Ok(Tried::Evicted),
        Err(status) if status.code == 409 && pinned => match decision.on_conflict {
            Some(status) => Err(status),
            None => Ok(Tried::Again),
        },
        Err(status) => Err(status),
    }
}

/// `POST` of a binding: a pod gets its node. Without a name in the path the binding names the pod.
pub(crate) async fn bind(server: &Arc<Server>, call: &Call, name: Option<&str>) -> Result<Reply, Status> {
    let output = negotiate::output_of_answer(call)?;
    let options = WriteOptions::read(call, "CreateOptions")?;
    let kind = Gvk::new("", "v1", "Binding");
    let mut binding = body::other(call, &kind, options.validation)?;
    let pods = server.registry().find("", "v1", "pods").ok_or_else(unknown_resource)?;
    identity::same_namespace(call, &pods, &mut binding)?;
    let mut review = Review {
        attributes: &call.attributes,
        kind: &kind,
        operation: Operation::Create,
        dry_run: options.dry_run,
        options: options.to_value("CreateOptions"),
        object: Some(binding),
        old: None,
    };
    call.warn_all(server.admission().mutate(&mut review).await?);
    let binding = review.object.clone().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pod = text(&binding["metadata"]["name"]);
    if name.is_some_and(|name| name != pod) {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    check_target(&binding["target"])?;
    call.warn_all(server.admission().validate(&review).await?);
    let node = text(&binding["target"]["name"]);
    let key = Key::new(call.attributes.namespace.as_str(), pod);
    let now = seconds(server.clock().now());
    let wanted = ["uid", "resourceVersion"].map(|field| (field, text(&binding["metadata"][field])));
    let change = |mut pod: Value| {
        let conflict = |why: String| Err(Status::conflict("", "pods/binding", &key.name, &why));
        for (field, wanted) in &wanted {
            let found = pod["metadata"][field].as_str().unwrap_or_default();
            if !wanted.is_empty() && wanted != found {
                let why = identity::precondition_failed(&pods, &key, field, wanted, found);
                return Err(Status::conflict("", "pods", &key.name, &why));
            }
        }
        if pod["metadata"]["deletionTimestamp"].is_string() {
            return conflict(format!("pod {} is being deleted, cannot be assigned to a host", key.name));
        }
        if let Some(already) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
            return conflict(format!("pod {} is already assigned to node {already:?}", key.name));
        }
        if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
            return conflict(format!("pod {} has non-empty .spec.schedulingGates", key.name));
        }
        pod["spec"]["nodeName"] = node.as_str().into();
        for field in ["annotations", "labels"] {
            for (name, value) in binding["metadata"][field].as_object().into_iter().flatten() {
                pod["metadata"][field][name] = value.clone();
            }
        }
        let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
        match &mut pod["status"]["conditions"] {
            Value::Array(conditions) => {
                conditions.retain(|condition| condition["type"] != "PodScheduled");
                conditions.push(condition);
            }
            none => *none = json!([condition]),
        }
        Ok(pod)
    };
    let mut inner = Call::inside(call.now, &call.attributes.user, "update", &pods, &key, "binding");
    inner.admitted = true;
    write::modify(server, &inner, &pods, "binding", &options, Change::Own(&change)).await?;
    let success =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Reply::object(201, &success, output))
}

/// What a pod is bound to has to be a node.
fn check_target(target: &Value) -> Result<(), Status> {
    let kind = target["kind"].as_str().unwrap_or_default();
    let mut problems = Vec::new();
    if !matches!(kind, "" | "Node") {
        let choices = vec!["Node".to_owned(), "<empty>".to_owned()];
        problems.push(FieldProblem::new("target.kind", Problem::NotSupported(kind.into(), choices)));
    }
    if target["name"].as_str().unwrap_or_default().is_empty() {
        problems.push(FieldProblem::new("target.name", Problem::Required(String::new())));
    }
    match problems.into_iter().next() {
        None => Ok(()),
        Some(problem) => {
            let cause = problem.cause();
            Err(Status::new(500, "", format!("{}: {}", cause.field, cause.message)))
        }
    }
}

/// `POST` of a token request.
async fn token(server: &Arc<Server>, call: &Call) -> Result<Reply, Status> {
    let output = negotiate::output_of_answer(call)?;
    let kind = Gvk::new("authentication.k8s.io", "v1", "TokenRequest");
    let request = body::other(call, &kind, FieldValidation::Ignore)?;
    let (now, reader) = (server.clock().now(), Stored(Arc::clone(server.store())));
    let (namespace, name) = (&call.attributes.namespace, &call.attributes.name);
    let prepared = server.tokens().prepare_token(&reader, namespace, name, &request, now)?;
    let mut review = Review {
        attributes: &call.attributes,
        kind: &kind,
        operation: Operation::Create,
        dry_run: false,
        options: Value::Null,
        object: Some(prepared),
        old: None,
    };
    call.warn_all(server.admission().mutate(&mut review).await?);
    call.warn_all(server.admission().validate(&review).await?);
    let prepared = review.object.take().unwrap_or_default();
    Ok(Reply::object(201, &server.tokens().complete_token(&reader, &prepared, now)?, output))
}

/// Requests that a node would have to answer.
async fn connect(server: &Arc<Server>, call: &Call, served: &Arc<Served>) -> Result<Reply, Status> {
    let record = read::find(server, call, served).await?;
    let object = record.parse();
    let name = &call.attributes.name;
    let container = call.parameters.text("container");
    if served.is_pod() && !container.is_empty() {
        let lists = ["containers", "initContainers", "ephemeralContainers"];
        let mut all = lists.iter().flat_map(|list| object["spec"][*list].as_array().into_iter().flatten());
        if !all.any(|known| known["name"] == container) {
            return Err(Status::bad_request(format!("container {container} is not valid for pod {name}")));
        }
    }
    if served.is_pod() && object["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
    }
    if served.is_pod()
        && call.attributes.subresource == "log"
        && let Some(reply) = server.ask_kubelets(super::logs::path(call, &object)?).await?
    {
        return Ok(reply);
    }
    let what = format!("{}/{name}/{}", served.resource.resource, call.attributes.subresource);
    Err(Status::new(503, "ServiceUnavailable", format!("nothing in this lab answers for {what}")))
}

/// Options of a write the server makes itself.
pub(crate) fn own_options() -> WriteOptions {
    WriteOptions::own("kube-apiserver")
}
