//! Changes of pods.

use serde_json::{Map, Value};

use super::{CONTAINERS, metadata_and_spec, scheduling};
use crate::kinds::format::between;
use crate::kinds::prepare::quality_of_service;
use crate::kinds::shown;
use crate::kinds::view::{Edit, Look, Path, Problems, same};

const SPEC: Path<'static> = Path::root("spec");

/// What changed, in the words of the real server: a difference of two texts.
pub(in crate::kinds::validate) fn changes_words(kind: &str, old: &Value, new: &Value) -> String {
    shown::difference(kind, old, new)
}

fn annotation_changes(old: &Value, new: &Value, problems: &mut Problems) {
    const ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
    const MIRROR: &str = "kubernetes.io/config.mirror";
    let metadata = Path::root("metadata");
    let at = metadata.child("annotations");
    let (before, after) = (old.at("metadata").at("annotations"), new.at("metadata").at("annotations"));
    for (key, value) in before.as_object().into_iter().flatten() {
        if after.at(key) == value {
            continue;
        }
        if key.starts_with(ARMOR) {
            problems.forbidden(&at.key(key), "may not remove or update AppArmor annotations");
        }
        if key == MIRROR {
            problems.forbidden(&at.key(key), "may not remove or update mirror pod annotation");
        }
    }
    for key in after.as_object().into_iter().flat_map(Map::keys).filter(|key| !before.has(key)) {
        if key.starts_with(ARMOR) {
            problems.forbidden(&at.key(key), "may not add AppArmor annotations");
        }
        if key == MIRROR {
            problems.forbidden(&at.key(key), "may not add mirror pod annotation");
        }
    }
    super::security::annotations(after, new.at("spec"), &at, problems);
}

/// The same for writes of the status.
pub(super) fn annotations(old: &Value, new: &Value, problems: &mut Problems) {
    annotation_changes(old, new, problems);
}

/// A change of the pod itself: only a few fields may differ.
pub(super) fn main(old: &Value, new: &Value, problems: &mut Problems) {
    metadata_and_spec(new, problems);
    annotation_changes(old, new, problems);
    let (before, after) = (old.at("spec"), new.at("spec"));
    for group in ["containers", "initContainers"] {
        let here = SPEC.child(group);
        if before.list(group).len() != after.list(group).len() {
            problems.forbidden(&here, "pod updates may not add or remove containers");
            return;
        }
        for (place, container) in after.list(group).iter().enumerate() {
            problems.need(&here.index(place), container, "image");
            super::containers::padded_image(container, &here.index(place), problems);
        }
    }
    let deadline = SPEC.child("activeDeadlineSeconds");
    match (before.int("activeDeadlineSeconds"), after.int("activeDeadlineSeconds")) {
        (_, Some(seconds)) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            problems.invalid(&deadline, seconds, between(0, i64::from(i32::MAX)));
            return;
        }
        (Some(before), Some(seconds)) if before < seconds => {
            problems.invalid(&deadline, seconds, "must be less than or equal to previous value");
            return;
        }
        (Some(_), None) => {
            problems.invalid(&deadline, Value::Null, "must not update from a positive integer to nil value");
        }
        _ => {}
    }
    only_added_tolerations(before, after, problems);
    let gates = SPEC.child("schedulingGates");
    for (place, gate) in after.list("schedulingGates").iter().enumerate() {
        let name = gate.text("name");
        if !before.list("schedulingGates").iter().any(|old| old.text("name") == name) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            problems.forbidden(&gates.index(place).child("name"), why);
        }
    }
    if same(before, after) {
        return;
    }
    let munged = munge(before, after, problems);
    if !same(&munged, before) {
        let words = changes_words("PodSpec", before, &munged);
        problems.forbidden(
            &SPEC,
            format!(
                "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n{words}"
            ),
        );
    }
}

fn restore(before: &Value, munged: &mut Value, field: &str) {
    match before.get(field) {
        Some(value) => munged.put(field, value.clone()),
        None => {
            munged.cut(field);
        }
    }
}

/// The new spec with everything that may change as it was.
fn munge(before: &Value, after: &Value, problems: &mut Problems) -> Value {
    let mut munged = after.clone();
    for group in ["containers", "initContainers"] {
        for (container, old) in munged.items(group).iter_mut().zip(before.list(group)) {
            restore(old, container, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore(before, &mut munged, field);
    }
    let grace = |spec: &Value| spec.int("terminationGracePeriodSeconds").unwrap_or_default();
    if grace(before) < 0 && grace(&munged) == 1 {
        restore(before, &mut munged, "terminationGracePeriodSeconds");
    }
    if before.list("schedulingGates").is_empty() {
        return munged;
    }
    // A pod that waits may still be told where to run, more and more precisely.
    let (selector, wanted) = (before.at("nodeSelector"), munged.at("nodeSelector"));
    if !same(selector, wanted) {
        if selector.as_object().into_iter().flatten().any(|(key, value)| wanted.at(key) != value) {
            problems.invalid(
                &SPEC.child("nodeSelector"),
                wanted.clone(),
                "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
            );
        }
        restore(before, &mut munged, "nodeSelector");
    }
    let node = |spec: &Value| spec.at("affinity").at("nodeAffinity").clone();
    let (old, new) = (node(before), node(&munged));
    if !same(&old, &new) {
        node_affinity_change(&old, &new, problems);
        let alone = !before.has("affinity")
            && !munged.at("affinity").has("podAffinity")
            && !munged.at("affinity").has("podAntiAffinity");
        if alone {
            munged.cut("affinity");
        } else if old.is_null() {
            munged.object("affinity").cut("nodeAffinity");
        } else {
            munged.object("affinity").put("nodeAffinity", old);
        }
    }
    munged
}

fn node_affinity_change(old: &Value, new: &Value, problems: &mut Problems) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let affinity = SPEC.child("affinity");
    let nodes = affinity.child("nodeAffinity");
    let required = nodes.child(REQUIRED);
    let at = required.child("nodeSelectorTerms");
    if !old.has(REQUIRED) {
        return;
    }
    let terms = |affinity: &Value| affinity.at(REQUIRED).list("nodeSelectorTerms").to_vec();
    let (before, after) = (terms(old), terms(new));
    if !before.is_empty() && before.len() != after.len() {
        let shown = shown::list("NodeSelectorTerm", &after);
        problems.invalid_shown(
            &at,
            &shown,
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        );
        return;
    }
    for (place, (old, new)) in before.iter().zip(&after).enumerate() {
        let empty =
            |term: &Value| ["matchExpressions", "matchFields"].iter().all(|list| term.list(list).is_empty());
        let grown = |list: &str| {
            let (old, new) = (old.list(list), new.list(list));
            new.len() >= old.len() && old.iter().zip(new).all(|(a, b)| same(a, b))
        };
        if (empty(old) && !empty(new)) || !grown("matchExpressions") || !grown("matchFields") {
            let shown = shown::internal("NodeSelectorTerm", new);
            problems.invalid_shown(
                &at.index(place),
                &shown,
                "only additions are allowed (no mutations or deletions)",
            );
        }
    }
}

fn only_added_tolerations(before: &Value, after: &Value, problems: &mut Problems) {
    let at = SPEC.child("tolerations");
    let plain = |toleration: &Value| {
        let mut toleration = toleration.clone();
        toleration.cut("tolerationSeconds");
        toleration
    };
    let kept = |old: &Value| after.list("tolerations").iter().any(|new| plain(new) == plain(old));
    if !before.list("tolerations").iter().all(kept) {
        problems.forbidden(&at, "existing toleration can not be modified except its tolerationSeconds");
        return;
    }
    scheduling::tolerations(after.list("tolerations"), &at, problems);
}

/// Ephemeral containers: they are only ever added.
pub(super) fn ephemeral_containers(old: &Value, new: &Value, problems: &mut Problems) {
    if old.at("metadata").at("annotations").has("kubernetes.io/config.mirror") {
        problems.clear();
        problems.forbidden(&Path::root(""), "static pods do not support ephemeral containers");
        return;
    }
    metadata_and_spec(new, problems);
    annotation_changes(old, new, problems);
    let at = SPEC.child("ephemeralContainers");
    let after = new.at("spec").list("ephemeralContainers");
    for before in old.at("spec").list("ephemeralContainers") {
        let name = before.text("name");
        match after.iter().rfind(|one| one.text("name") == name) {
            None => {
                problems
                    .forbidden(&at, format!("existing ephemeral containers {name:?} may not be removed\n"));
            }
            Some(after) if !same(before, after) => {
                let words = changes_words("EphemeralContainer", before, after);
                let why = format!("existing ephemeral containers {name:?} may not be changed\n{words}");
                problems.forbidden(&at, why);
            }
            Some(_) => {}
        }
    }
}

/// Resizes: nothing but cpu and memory may change.
pub(super) fn resize(old: &Value, new: &Value, problems: &mut Problems) {
    let stop = |problems: &mut Problems, why: &str| {
        problems.clear();
        problems.forbidden(&Path::root(""), why);
    };
    if old.at("metadata").at("annotations").has("kubernetes.io/config.mirror") {
        return stop(problems, "static pods cannot be resized");
    }
    if old.at("spec").at("os").text("name") == "windows" {
        return stop(problems, "windows pods cannot be resized");
    }
    metadata_and_spec(new, problems);
    let (before, after) = (old.at("spec"), new.at("spec"));
    let class = match old.at("status").text("qosClass") {
        "" => quality_of_service(before),
        class => class,
    };
    if class != quality_of_service(after) {
        problems.invalid(
            &SPEC,
            new.at("status").text("qosClass"),
            "Pod QOS Class may not change as a result of resizing",
        );
    }
    let running =
        old.at("status").list("containerStatuses").iter().find(|one| one.at("state").has("running"));
    if running.is_some_and(|one| !one.has("resources")) {
        problems.forbidden(&SPEC, "Pod running on node without support for resize");
    }
    let mut copy = after.clone();
    pod_level_resize(before, after, &mut copy, problems);
    if !same_order(before, after, problems) {
        return;
    }
    for group in ["initContainers", "containers"] {
        let list = SPEC.child(group);
        for (place, (old, new)) in before.list(group).iter().zip(after.list(group)).enumerate() {
            let here = list.index(place);
            let here = here.child("resources");
            for kind in ["requests", "limits"] {
                if removed(old.at("resources").at(kind), new.at("resources").at(kind)) {
                    problems.forbidden(&here.child(kind), format!("resource {kind} cannot be removed"));
                }
            }
        }
    }
    containers_resize(before, &mut copy, problems);
    if !same(before.at("volumes"), after.at("volumes")) {
        problems.forbidden(
            &SPEC.child("volumes"),
            "volumes are immutable on resize when InPlacePodVerticalScalingMemoryBackedVolumes feature gate is disabled",
        );
    }
    if problems.is_empty() && !same(&copy, before) {
        problems.forbidden(&SPEC, "only cpu and memory resources are mutable");
    }
}

fn removed(old: &Value, new: &Value) -> bool {
    old.as_object().into_iter().flat_map(Map::keys).any(|name| !new.has(name))
}

fn pod_level_resize(before: &Value, after: &Value, copy: &mut Value, problems: &mut Problems) {
    let set = |spec: &Value| {
        ["requests", "limits"]
            .iter()
            .any(|kind| spec.at("resources").fields(kind).is_some_and(|list| !list.is_empty()))
    };
    if !set(before) && !set(after) {
        return;
    }
    let here = SPEC.child("resources");
    if before.has("resources") && !after.has("resources") {
        problems.forbidden(&here, "pod-level resources cannot be removed");
        return;
    }
    for kind in ["requests", "limits"] {
        if removed(before.at("resources").at(kind), after.at("resources").at(kind)) {
            problems.forbidden(&here.child(kind), format!("pod-level resource {kind} cannot be removed"));
        }
    }
    restore_compute(before, copy);
    if !same(before.at("resources"), copy.at("resources")) {
        problems.forbidden(&SPEC, "only cpu and memory resources are mutable at pod-level");
    }
}

/// Cpu and memory as they were.
fn restore_compute(before: &Value, holder: &mut Value) {
    for kind in ["requests", "limits"] {
        let old = before.at("resources").at(kind);
        for name in ["cpu", "memory"] {
            match old.get(name) {
                Some(amount) => holder.object("resources").object(kind).put(name, amount.clone()),
                None => {
                    if let Some(list) = holder.child("resources").and_then(|resources| resources.child(kind))
                    {
                        list.cut(name);
                    }
                }
            }
        }
    }
}

fn same_order(before: &Value, after: &Value, problems: &mut Problems) -> bool {
    let count = problems.len();
    for group in ["containers", "initContainers"] {
        let here = SPEC.child(group);
        let (old, new) = (before.list(group), after.list(group));
        if old.len() != new.len() {
            problems.forbidden(&here, format!("{group} may not be added or removed on resize"));
            continue;
        }
        for (place, (old, new)) in old.iter().zip(new).enumerate() {
            if old.text("name") != new.text("name") {
                let why = format!("{group} may not be renamed or reordered on resize");
                problems.forbidden(&here.index(place).child("name"), why);
            }
        }
    }
    problems.len() == count
}

fn containers_resize(before: &Value, copy: &mut Value, problems: &mut Problems) {
    for group in &CONTAINERS[..2] {
        let list = SPEC.child(group);
        for (place, (container, old)) in copy.items(group).iter_mut().zip(before.list(group)).enumerate() {
            let modified = !same(container, old);
            restore_compute(old, container);
            let here = list.index(place);
            let is_init = *group == "initContainers";
            if !same(container, old) {
                if is_init {
                    let why = "only cpu and memory resources for init or sidecar containers are mutable";
                    problems.forbidden(&here, why);
                } else {
                    problems.forbidden(&SPEC, "only cpu and memory resources are mutable");
                }
            }
            let restarts = container
                .list("resizePolicy")
                .iter()
                .filter(|one| one.text("restartPolicy") == "RestartContainer");
            if is_init && modified && container.text("restartPolicy") != "Always" {
                for _ in restarts {
                    problems.forbidden(
                        &here,
                        "non-sidecar init containers with a resize policy of RestartContainer cannot be resized",
                    );
                }
            }
        }
    }
}
