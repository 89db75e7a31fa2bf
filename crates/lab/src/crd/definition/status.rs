//! What becomes of a definition: its names are accepted, it is established, it goes.

use serde_json::{Map, Value, json};

use crate::{crd::kind::Names, gotext::quote};

use super::{
    approval::{Approval, approval, is_protected_group},
    structural, webhook,
};
use crate::crd::{
    path::Path,
    schema::{Schema, flag, list, text},
};

/// Keeps a definition until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// A condition of a definition, without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    /// The type, such as `Established`.
    pub kind: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// The reason, in one word.
    pub reason: &'static str,
    /// The reason, in a sentence.
    pub message: String,
}

impl Condition {
    fn new(
        kind: &'static str,
        status: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { kind, status, reason, message: message.into() }
    }
}

/// The condition of this type.
pub(crate) fn condition<'v>(definition: &'v Value, kind: &str) -> Option<&'v Value> {
    definition
        .pointer("/status/conditions")?
        .as_array()?
        .iter()
        .find(|condition| condition.get("type").is_some_and(|known| known == kind))
}

/// True when the condition is there and holds.
pub(crate) fn is_condition_true(definition: &Value, kind: &str) -> bool {
    condition(definition, kind)
        .and_then(|condition| condition.get("status"))
        .is_some_and(|status| status == "True")
}

/// Sets a condition; the time changes with the status only.
pub(crate) fn set_condition(definition: &mut Value, wanted: &Condition, now: &str) {
    let status = &mut definition["status"];
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    let place = conditions
        .iter()
        .position(|condition| condition.get("type").is_some_and(|known| known == wanted.kind));
    let mut fresh = json!({
        "type": wanted.kind, "status": wanted.status, "reason": wanted.reason, "message": wanted.message,
        "lastTransitionTime": now,
    });
    match place.and_then(|place| conditions.get_mut(place)) {
        None => conditions.push(fresh),
        Some(known) => {
            if known.get("status") == fresh.get("status")
                && let Some(time) = known.get("lastTransitionTime").filter(|time| time.is_string())
            {
                fresh["lastTransitionTime"] = time.clone();
            }
            if let Some(generation) = known.get("observedGeneration") {
                fresh["observedGeneration"] = generation.clone();
            }
            *known = fresh;
        }
    }
}

fn names_at(definition: &Value, pointer: &str) -> Names {
    definition.pointer(pointer).and_then(Value::as_object).map(Names::read).unwrap_or_default()
}

/// Decides which names a definition gets, given all definitions there are. True when its status changed.
///
/// Others of the group have to be looked at again when it did, and when a definition is gone.
pub(crate) fn accept_names<'v>(
    definition: &mut Value,
    all: impl Iterator<Item = &'v Value>,
    now: &str,
) -> bool {
    let wanted = names_at(definition, "/spec/names");
    let accepted = names_at(definition, "/status/acceptedNames");
    if wanted == accepted {
        return false;
    }
    let group = definition.pointer("/spec/group").cloned();
    let (mut resources, mut kinds) = (Vec::new(), Vec::new());
    for other in all.filter(|other| other.pointer("/spec/group").cloned() == group) {
        let names = names_at(other, "/status/acceptedNames");
        resources.extend([names.plural, names.singular]);
        resources.extend(names.short_names);
        kinds.extend([names.kind, names.list_kind]);
    }
    let taken = |wanted: &str, accepted: &str, used: &[String]| {
        (wanted != accepted && used.iter().any(|name| name == wanted))
            .then(|| format!("{} is already in use", quote(wanted)))
    };
    let mut names = accepted.clone();
    let mut conflict: Option<(&'static str, String)> = None;
    match taken(&wanted.plural, &accepted.plural, &resources) {
        Some(problem) => conflict = Some(("PluralConflict", problem)),
        None => names.plural.clone_from(&wanted.plural),
    }
    match taken(&wanted.singular, &accepted.singular, &resources) {
        Some(problem) => conflict = Some(("SingularConflict", problem)),
        None => names.singular.clone_from(&wanted.singular),
    }
    if wanted.short_names != accepted.short_names {
        let mut problems: Vec<String> = wanted
            .short_names
            .iter()
            .filter(|name| !accepted.short_names.contains(name))
            .filter_map(|name| taken(name, "", &resources))
            .collect();
        problems.dedup();
        match problems.as_slice() {
            [] => names.short_names.clone_from(&wanted.short_names),
            [one] => conflict = Some(("ShortNamesConflict", one.clone())),
            many => conflict = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
        }
    }
    match taken(&wanted.kind, &accepted.kind, &kinds) {
        Some(problem) => conflict = Some(("KindConflict", problem)),
        None => names.kind.clone_from(&wanted.kind),
    }
    match taken(&wanted.list_kind, &accepted.list_kind, &kinds) {
        Some(problem) => conflict = Some(("ListKindConflict", problem)),
        None => names.list_kind.clone_from(&wanted.list_kind),
    }
    names.categories.clone_from(&wanted.categories);
    let accepted_condition = match conflict {
        Some((reason, problem)) => Condition::new("NamesAccepted", "False", reason, problem),
        None => Condition::new("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
    };
    let same =
        condition(definition, "NamesAccepted").is_some_and(|known| is_equivalent(known, &accepted_condition));
    if names == accepted && same {
        return false;
    }
    let established = condition(definition, "Established").cloned();
    let not_yet =
        established.as_ref().and_then(|known| known.get("status")).is_none_or(|status| status != "True");
    definition["status"]["acceptedNames"] = names.to_value();
    set_condition(definition, &accepted_condition, now);
    if not_yet {
        if accepted_condition.status == "True" {
            let installing = "the initial names have been accepted";
            set_condition(definition, &Condition::new("Established", "False", "Installing", installing), now);
        } else if established.is_none() {
            let waiting = "not all names are accepted";
            set_condition(definition, &Condition::new("Established", "False", "NotAccepted", waiting), now);
        }
    }
    true
}

fn is_equivalent(known: &Value, wanted: &Condition) -> bool {
    let same = |key: &str, value: &str| known.get(key).and_then(Value::as_str).unwrap_or("") == value;
    same("status", wanted.status) && same("reason", wanted.reason) && same("message", &wanted.message)
}

/// Makes a definition whose names are accepted one that is served. True when its status changed.
pub(crate) fn establish(definition: &mut Value, now: &str) -> bool {
    if !is_condition_true(definition, "NamesAccepted") || is_condition_true(definition, "Established") {
        return false;
    }
    let bundle = definition.pointer("/spec/conversion/webhook/clientConfig/caBundle").and_then(Value::as_str);
    let wanted = if bundle.is_some_and(|bundle| !webhook::is_bundle(bundle)) {
        Condition::new(
            "Established",
            "False",
            "InvalidCABundle",
            "The conversion webhook CABundle is invalid",
        )
    } else {
        Condition::new("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
    };
    if condition(definition, "Established").is_some_and(|known| is_equivalent(known, &wanted)) {
        return false;
    }
    set_condition(definition, &wanted, now);
    true
}

/// Says what is not structural about a definition from before that was asked for. True when its status changed.
pub(crate) fn sync_non_structural(definition: &mut Value, now: &str) -> bool {
    let spec: Map<String, Value> = super::spec_of(definition);
    let mut sentences = Vec::new();
    if flag(&spec, "preserveUnknownFields") {
        sentences.push("spec.preserveUnknownFields: Invalid value: true: must be false".to_owned());
    }
    let mut wanted = None;
    for (index, version) in list(&spec, "versions").iter().enumerate() {
        let Some(schema) = version.pointer("/schema/openAPIV3Schema") else { continue };
        if let Err(problem) = Schema::read(schema) {
            let name = version.as_object().map_or("", |version| text(version, "name"));
            let words = format!("failed to check validation schema for version {name}: {problem}");
            wanted = Some(Condition::new("NonStructuralSchema", "Unknown", "StructuralError", words));
            break;
        }
        let place = format!("spec.versions[{index}].schema.openAPIV3Schema");
        if let Some(fields) = schema.as_object() {
            for problem in structural::check(fields, &Path::At(&place)) {
                let cause = problem.cause();
                sentences.push(format!("{}: {}", cause.field, cause.message));
            }
        }
    }
    let wanted = wanted.or_else(|| {
        let words = match sentences.as_slice() {
            [] => return None,
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        Some(Condition::new("NonStructuralSchema", "True", "Violations", words))
    });
    match (wanted, condition(definition, "NonStructuralSchema")) {
        (None, None) => false,
        (Some(wanted), Some(known)) if is_equivalent(known, &wanted) => false,
        (Some(wanted), _) => {
            set_condition(definition, &wanted, now);
            true
        }
        (None, Some(_)) => {
            if let Some(conditions) = definition["status"]["conditions"].as_array_mut() {
                conditions.retain(|condition| {
                    condition.get("type").is_none_or(|kind| kind != "NonStructuralSchema")
                });
            }
            true
        }
    }
}

/// Says whether a definition in a protected group is approved. True when its status changed.
pub(crate) fn sync_approval(definition: &mut Value, now: &str) -> bool {
    let group = definition.pointer("/spec/group").and_then(Value::as_str).unwrap_or("");
    if !is_protected_group(group) {
        return false;
    }
    let (state, words) = approval(definition);
    let (status, reason) = match state {
        Approval::Invalid => ("False", "InvalidAnnotation"),
        Approval::Missing => ("False", "MissingAnnotation"),
        Approval::Approved => ("True", "ApprovedAnnotation"),
        Approval::Bypassed => ("False", "UnapprovedAnnotation"),
    };
    let wanted = Condition::new("KubernetesAPIApprovalPolicyConformant", status, reason, words);
    if condition(definition, wanted.kind).is_some_and(|known| is_equivalent(known, &wanted)) {
        return false;
    }
    set_condition(definition, &wanted, now);
    true
}

/// Marks a definition for deletion: its objects go first.
pub(crate) fn start_deletion(definition: &mut Value, now: &str) {
    let metadata = &mut definition["metadata"];
    if !metadata["deletionTimestamp"].is_string() {
        metadata["deletionTimestamp"] = now.into();
    }
    if !metadata["finalizers"].is_array() {
        metadata["finalizers"] = json!([]);
    }
    if let Some(finalizers) = metadata["finalizers"].as_array_mut()
        && !finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER)
    {
        finalizers.push(CLEANUP_FINALIZER.into());
    }
    set_condition(definition, &Condition::terminating(Termination::Pending), now);
}

/// How far the deletion of the objects of a definition is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Termination {
    /// It will begin.
    Pending,
    /// It has begun.
    InProgress,
    /// It failed.
    Failed(String),
    /// It is finished.
    Completed,
    /// There were never any.
    NeverEstablished,
}

impl Condition {
    /// The condition that says how far the deletion is.
    pub(crate) fn terminating(progress: Termination) -> Self {
        let (status, reason, message) = match progress {
            Termination::Pending => (
                "True",
                "InstanceDeletionPending",
                "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
                    .to_owned(),
            ),
            Termination::InProgress => {
                ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress".to_owned())
            }
            Termination::Failed(problem) => {
                ("True", "InstanceDeletionFailed", format!("could not issue all deletes: {problem}"))
            }
            Termination::Completed => {
                ("False", "InstanceDeletionCompleted", "removed all instances".to_owned())
            }
            Termination::NeverEstablished => {
                ("False", "NeverEstablished", "resource was never established".to_owned())
            }
        };
        Self { kind: "Terminating", status, reason, message }
    }
}
