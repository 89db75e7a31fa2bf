//! Keeping what a shape was when a machine saw it first.

use serde_json::{Value, json};

use super::find::{INSTANCETYPE, PREFERENCE, Side, object, revision_name, shape};
use super::{Problem, Shape, apply, written_out};
use crate::client::Identity;
use crate::context::Context;
use crate::kinds::{CONTROLLER_REVISION, VM};
use crate::kubevirt::admission::config::Config;
use crate::kubevirt::admission::field::Field;
use crate::object::{Key, Object as _, owned_by};

/// Where the labels of revisions begin.
const LABEL: &str = "instancetype.kubevirt.io/object-";

/// Remembers what a machine's instancetype and preference are now, as revisions that its status refers to; where the
/// cluster's policy is to expand, writes them into the machine instead. Does nothing where it is done.
pub async fn ensure_revisions(context: &Context, vm: &Value) -> Result<(), Problem> {
    let names_any = [&INSTANCETYPE, &PREFERENCE]
        .iter()
        .any(|side| vm["spec"][side.matcher].is_object() || vm["status"][side.status].is_object());
    if !names_any {
        return Ok(());
    }
    let shape = shape(context, vm).await?;
    let config = Config::of(context).await;
    let done = match config.reference_policy() {
        policy @ ("expand" | "expandAll") => write_out(context, &config, &shape, vm, policy).await,
        _ => store(context, &shape, vm).await,
    };
    let Err(mut problem) = done else { return Ok(()) };
    problem.message = format!(
        "error encountered while storing instancetype.kubevirt.io controllerRevisions: {}",
        problem.message
    );
    context.recorder(Identity::VIRT_CONTROLLER).warning(&VM, vm, "FailedCreate", &problem.message).await;
    Err(problem)
}

async fn store(context: &Context, shape: &Shape, vm: &Value) -> Result<(), Problem> {
    let mut status = json!({});
    for side in [&INSTANCETYPE, &PREFERENCE] {
        let known = &vm["status"][side.status];
        let wanted = reference(context, side, shape, vm).await?;
        if wanted != *known {
            status[side.status] = replacing(known, wanted);
        }
    }
    if status.as_object().is_some_and(|fields| !fields.is_empty()) {
        let client = context.client(Identity::VIRT_CONTROLLER);
        client.merge_status(&VM, &Key::of(vm), &json!({"status": status})).await?;
    }
    Ok(())
}

/// What a merge patch needs to turn one reference into another: what is gone has to be named.
fn replacing(known: &Value, mut wanted: Value) -> Value {
    if let (Some(known), true) = (known.as_object(), wanted.is_object()) {
        for name in known.keys() {
            if wanted[name.as_str()].is_null() {
                wanted[name.as_str()] = Value::Null;
            }
        }
    }
    wanted
}

/// What the machine's status should say of one side of its shape; the revision is made where there is none.
async fn reference(context: &Context, side: &Side, shape: &Shape, vm: &Value) -> Result<Value, Problem> {
    let matcher = &vm["spec"][side.matcher];
    if matcher.text("/name").is_empty() {
        return Ok(Value::Null);
    }
    let revision = match revision_name(side, vm) {
        Some(name) => name.to_owned(),
        None => keep(context, side, shape, vm).await?,
    };
    let kind = side.kind(matcher.text("/kind")).map(|kind| kind.kind).unwrap_or_default();
    let kind = if matcher.text("/kind").is_empty() { kind } else { matcher.text("/kind") };
    let mut reference =
        json!({"name": matcher["name"], "kind": kind, "controllerRevisionRef": {"name": revision}});
    for name in ["inferFromVolume", "inferFromVolumeFailurePolicy"] {
        if matcher[name].is_string() {
            reference[name] = matcher[name].clone();
        }
    }
    Ok(reference)
}

/// Makes a revision of what one side of the shape is now, and gives its name.
async fn keep(context: &Context, side: &Side, shape: &Shape, vm: &Value) -> Result<String, Problem> {
    let client = context.client(Identity::VIRT_CONTROLLER);
    let object = object(&client, side, vm).await?;
    if side.matcher == INSTANCETYPE.matcher {
        // It may have changed since the machine was admitted.
        let alone = Shape { instancetype: shape.instancetype.clone(), preference: Value::Null };
        let mut template = vm["spec"]["template"].clone();
        let conflicts = apply::apply(&alone, &mut template, &Field::new("spec.template.spec"));
        if !conflicts.is_empty() {
            let message =
                format!("VM field(s) {} conflicts with selected instance type", conflicts.join(", "));
            return Err(Problem { fields: conflicts, ..Problem::new("FailedCreate", message) });
        }
    }
    let revision = revision(vm, &object);
    let name = revision.name().to_owned();
    client.create_if_absent(&CONTROLLER_REVISION, revision).await?;
    Ok(name)
}

/// A revision of an object for a machine.
fn revision(vm: &Value, object: &Value) -> Value {
    let (_, version) = object.text("/apiVersion").split_once('/').unwrap_or_default();
    let mut metadata = json!({});
    for name in ["name", "namespace", "uid", "generation", "creationTimestamp", "resourceVersion"] {
        if !object["metadata"][name].is_null() {
            metadata[name] = object["metadata"][name].clone();
        }
    }
    let generation = object.generation();
    let mut labels = json!({});
    for (label, value) in [
        ("generation", generation.to_string().as_str()),
        ("kind", object.text("/kind")),
        ("name", object.name()),
        ("uid", object.uid()),
        ("version", version),
    ] {
        labels[format!("{LABEL}{label}")] = value.into();
    }
    json!({
        "metadata": {
            "namespace": vm.namespace(),
            "name": format!("{}-{}-{version}-{}-{generation}", vm.name(), object.name(), object.uid()),
            "labels": labels,
            "ownerReferences": [owned_by(&VM, vm)],
        },
        "data": {
            "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata,
            "spec": object["spec"],
        },
        "revision": 0,
    })
}

/// Writes the shape into the machine itself. With `expand` a machine that has revisions keeps them; with `expandAll`
/// it loses them.
async fn write_out(
    context: &Context,
    config: &Config,
    shape: &Shape,
    vm: &Value,
    policy: &str,
) -> Result<(), Problem> {
    let kept: Vec<&str> = [&INSTANCETYPE, &PREFERENCE]
        .iter()
        .map(|side| vm["status"][side.status].text("/controllerRevisionRef/name"))
        .filter(|name| !name.is_empty())
        .collect();
    if policy == "expand" && !kept.is_empty() {
        return Ok(());
    }
    let written = written_out(config, shape, vm)?;
    if written == *vm {
        return Ok(());
    }
    let client = context.client(Identity::VIRT_CONTROLLER);
    let mut updated = client.replace(&VM, &written).await?;
    if written["status"].is_object() && updated["status"] != written["status"] {
        updated["status"] = written["status"].clone();
        client.replace_status(&VM, &updated).await?;
    }
    for name in kept {
        client.delete(&CONTROLLER_REVISION, &Key::new(vm.namespace(), name), "").await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_named_and_labelled_after_what_it_keeps() {
        let vm = json!({"metadata": {"namespace": "n", "name": "vm", "uid": "v"}});
        let object = json!({
            "apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineClusterInstancetype",
            "metadata": {"name": "u1.small", "uid": "u", "generation": 3, "labels": {"a": "b"}, "managedFields": []},
            "spec": {"cpu": {"guest": 1}},
        });
        let revision = revision(&vm, &object);
        assert_eq!(revision.name(), "vm-u1.small-v1beta1-u-3");
        assert_eq!(
            revision.label("instancetype.kubevirt.io/object-kind"),
            "VirtualMachineClusterInstancetype"
        );
        assert_eq!(revision.label("instancetype.kubevirt.io/object-generation"), "3");
        assert!(revision.is_controlled_by("v"));
        assert_eq!(revision["data"]["spec"], object["spec"]);
        assert!(revision["data"]["metadata"]["labels"].is_null());
    }

    #[test]
    fn what_is_gone_is_named_in_a_patch() {
        let known = json!({"name": "a", "inferFromVolume": "root"});
        assert_eq!(replacing(&known, json!({"name": "b"})), json!({"name": "b", "inferFromVolume": null}));
        assert_eq!(replacing(&known, Value::Null), Value::Null);
    }
}
