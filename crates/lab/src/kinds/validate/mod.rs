//! What makes an object of a built-in kind invalid, told like the real server tells it.

mod apps;
mod batch;
mod certificates;
mod core;
mod devices;
mod flow;
mod hooks;
mod job_status;
mod networking;
mod node;
mod pod;
mod quota;
mod rbac;
mod scaling;
mod service;
mod settings;
mod slices;
mod storage;
mod storage_classes;

use serde_json::Value;

use super::WriteContext;
use super::facts::{Facts, facts};
use super::meta::{self, NameRule};
use super::view::{Look, Path, Problems};
use crate::status::FieldProblem;

pub(super) use service::cluster_addresses as service_addresses;

/// A write that is being checked.
struct Check<'a> {
    context: &'a WriteContext<'a>,
    facts: Facts,
}

/// The problems of an object that is being made; none when it is fine.
pub fn validate_create(context: &WriteContext<'_>, object: &Value) -> Vec<FieldProblem> {
    let Some(facts) = facts(context.kind) else { return Vec::new() };
    let check = Check { context, facts };
    let mut problems = Problems::default();
    create(&check, object, &mut problems);
    if problems.is_empty() {
        // What the kind itself does not look at.
        let any = |name: &str, prefix: bool| NameRule::PathSegment.check(name, prefix);
        let at = Path::root("metadata");
        meta::validate_into(object.at("metadata"), facts.namespaced, &any, &at, &mut problems);
    }
    without_repetitions(problems)
}

/// The problems of an object that is being changed; none when it is fine.
pub fn validate_update(context: &WriteContext<'_>, old: &Value, new: &Value) -> Vec<FieldProblem> {
    let Some(facts) = facts(context.kind) else { return Vec::new() };
    let check = Check { context, facts };
    let mut problems = Problems::default();
    let any = |name: &str, prefix: bool| NameRule::PathSegment.check(name, prefix);
    let at = Path::root("metadata");
    meta::validate_into(new.at("metadata"), facts.namespaced, &any, &at, &mut problems);
    meta::validate_update_into(new.at("metadata"), old.at("metadata"), &at, &mut problems);
    update(&check, old, new, &mut problems);
    without_repetitions(problems)
}

fn without_repetitions(problems: Problems) -> Vec<FieldProblem> {
    let mut told: Vec<FieldProblem> = Vec::with_capacity(problems.len());
    for problem in problems.finish() {
        if !told.contains(&problem) {
            told.push(problem);
        }
    }
    told
}

/// Metadata as the kind itself checks it.
fn own_metadata(check: &Check<'_>, object: &Value, problems: &mut Problems) {
    machinery_metadata(check, object, problems);
    finalizer_names(object.at("metadata"), problems);
}

/// The same for kinds that do not know which finalizers there are.
fn machinery_metadata(check: &Check<'_>, object: &Value, problems: &mut Problems) {
    let (metadata, rule) = (object.at("metadata"), check.facts.name);
    let at = Path::root("metadata");
    // Where the schema has a rule for names, nothing else looks at them.
    let by_schema = rule == NameRule::LongName;
    let name_check = |name: &str, prefix: bool| if by_schema { Vec::new() } else { rule.check(name, prefix) };
    meta::validate_into(metadata, check.facts.namespaced, &name_check, &at, problems);
    let name = metadata.text("name");
    if by_schema && !name.is_empty() {
        problems.declared(|problems| problems.invalid_each(&at.child("name"), name, rule.check(name, false)));
    }
}

/// Finalizers without a domain are those the server knows.
fn finalizer_names(metadata: &Value, problems: &mut Problems) {
    let at = Path::root("metadata");
    let list = at.child("finalizers");
    for (place, name) in metadata.list("finalizers").iter().enumerate() {
        standard_finalizer(name.str(), &list.index(place), problems);
    }
}

fn standard_finalizer(name: &str, at: &Path<'_>, problems: &mut Problems) {
    if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
        problems.invalid(at, name, "name is neither a standard finalizer name nor is it fully qualified");
    }
}

fn create(check: &Check<'_>, object: &Value, problems: &mut Problems) {
    match check.facts.group {
        "" => create_core(check, object, problems),
        "apps" => apps::create(check, object, problems),
        "batch" => batch::create(check, object, problems),
        _ => either(check, object, None, problems),
    }
}

/// Kinds whose changes are checked like what is made.
fn either(check: &Check<'_>, object: &Value, old: Option<&Value>, problems: &mut Problems) {
    let rules = match check.facts.group {
        "autoscaling" => scaling::autoscaler,
        "networking.k8s.io" => networking::check,
        "rbac.authorization.k8s.io" => rbac::check,
        "storage.k8s.io" => storage_classes::check,
        "discovery.k8s.io" => slices::check,
        "events.k8s.io" => core::event,
        "certificates.k8s.io" => certificates::check,
        "admissionregistration.k8s.io" => hooks::check,
        "flowcontrol.apiserver.k8s.io" => flow::check,
        "resource.k8s.io" => devices::check,
        "scheduling.k8s.io" => settings::priority_class,
        "node.k8s.io" => settings::runtime_class,
        "storagemigration.k8s.io" => settings::storage_migration,
        "policy" => return scaling::budget(check, object, problems),
        "coordination.k8s.io" => return settings::lease(check, object, problems),
        "apiregistration.k8s.io" => return settings::api_service(check, object, problems),
        _ => return own_metadata(check, object, problems),
    };
    rules(check, object, old, problems);
}

fn create_core(check: &Check<'_>, object: &Value, problems: &mut Problems) {
    // Pods check their own together with the rest; events of this group are not checked.
    if !matches!(check.facts.kind, "Pod" | "Event") {
        own_metadata(check, object, problems);
    }
    match check.facts.kind {
        "Pod" => pod::create(object, problems),
        "PodTemplate" => pod::template(object.at("template"), &Path::root("template"), problems),
        "Service" => service::service(object, None, problems),
        "ConfigMap" => core::config_map(object, problems),
        "Secret" => core::secret(object, problems),
        "Namespace" => core::namespace(object, problems),
        "Node" => node::node(object, problems),
        "ReplicationController" => core::replication_controller(object, problems),
        "LimitRange" => quota::limit_range(object, problems),
        "ResourceQuota" => quota::resource_quota(object, problems),
        "Endpoints" => core::endpoints(object, problems),
        "Event" => core::event(check, object, None, problems),
        "PersistentVolume" => storage::volume(object, problems),
        "PersistentVolumeClaim" => {
            storage::claim_spec(object.at("spec"), false, &Path::root("spec"), problems);
        }
        _ => {}
    }
}

fn update(check: &Check<'_>, old: &Value, new: &Value, problems: &mut Problems) {
    match check.facts.group {
        "" => update_core(check, old, new, problems),
        "apps" => apps::update(check, old, new, problems),
        "batch" => batch::update(check, old, new, problems),
        _ => either(check, new, Some(old), problems),
    }
}

fn update_core(check: &Check<'_>, old: &Value, new: &Value, problems: &mut Problems) {
    let status = check.context.subresource == "status";
    if check.facts.kind != "Event" {
        finalizer_names(new.at("metadata"), problems);
    }
    match check.facts.kind {
        "Pod" => pod::change(check, old, new, problems),
        "PodTemplate" => pod::template(new.at("template"), &Path::root("template"), problems),
        "Service" => service::update(check, old, new, problems),
        "ConfigMap" => {
            core::immutable_data(&["data", "binaryData"], old, new, problems);
            own_metadata(check, new, problems);
            core::config_map(new, problems);
        }
        "Secret" => {
            problems.immutable(&Path::root("type"), new.at("type"), old.at("type"));
            core::immutable_data(&["data"], old, new, problems);
            own_metadata(check, new, problems);
            core::secret(new, problems);
        }
        "Namespace" => core::namespace_update(check, new, problems),
        "Node" => node::node_update(check, old, new, problems),
        "ReplicationController" if status => core::replica_status(new.at("status"), true, problems),
        "ReplicationController" => core::replication_controller(new, problems),
        "LimitRange" => quota::limit_range(new, problems),
        "ResourceQuota" => quota::resource_quota_update(check, old, new, problems),
        "Endpoints" => core::endpoints(new, problems),
        "Event" => core::event(check, new, Some(old), problems),
        "PersistentVolume" => storage::volume_update(check, old, new, problems),
        "PersistentVolumeClaim" => storage::claim_update(check, old, new, problems),
        _ => {}
    }
}
