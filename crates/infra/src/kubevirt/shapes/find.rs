//! Finding what a machine's matchers name.

use serde_json::Value;

use super::Problem;
use crate::client::{Client, Identity};
use crate::context::Context;
use crate::kinds::{
    CLUSTER_INSTANCETYPE, CLUSTER_PREFERENCE, CONTROLLER_REVISION, INSTANCETYPE as NAMESPACED_INSTANCETYPE,
    Kind, PREFERENCE as NAMESPACED_PREFERENCE,
};
use crate::object::{Key, Object as _};

/// One of the two parts of a shape.
#[derive(Debug)]
pub struct Side {
    /// The field of `spec` that names it.
    pub matcher: &'static str,
    /// The field of `status` that says which revision is used.
    pub status: &'static str,
    /// Its kind in a namespace.
    pub namespaced: &'static Kind,
    /// Its kind for everybody.
    pub cluster: &'static Kind,
    /// What the machine's condition says when it is missing.
    pub missing: &'static str,
    /// The label of volumes that names it.
    pub label: &'static str,
    /// What its matcher is called in messages.
    pub matcher_type: &'static str,
}

/// The instancetype: what a machine consists of.
pub static INSTANCETYPE: Side = Side {
    matcher: "instancetype",
    status: "instancetypeRef",
    namespaced: &NAMESPACED_INSTANCETYPE,
    cluster: &CLUSTER_INSTANCETYPE,
    missing: "FailedFindInstancetype",
    label: "instancetype.kubevirt.io/default-instancetype",
    matcher_type: "InstancetypeMatcher",
};

/// The preference: what a guest likes.
pub static PREFERENCE: Side = Side {
    matcher: "preference",
    status: "preferenceRef",
    namespaced: &NAMESPACED_PREFERENCE,
    cluster: &CLUSTER_PREFERENCE,
    missing: "FailedFindPreference",
    label: "instancetype.kubevirt.io/default-preference",
    matcher_type: "PreferenceMatcher",
};

impl Side {
    /// The kind a matcher means: singular or plural in any case, and that for everybody where it is empty.
    pub fn kind(&self, name: &str) -> Option<&'static Kind> {
        let name = name.to_lowercase();
        let is = |kind: &Kind| name == kind.plural || name == kind.kind.to_lowercase();
        if name.is_empty() || is(self.cluster) {
            Some(self.cluster)
        } else if is(self.namespaced) {
            Some(self.namespaced)
        } else {
            None
        }
    }

    /// Whether a matcher's kind means the one for everybody.
    pub fn is_cluster(&self, name: &str) -> bool {
        self.kind(name) == Some(self.cluster)
    }
}

/// The specs that a machine's matchers come to; null where it names none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shape {
    /// `spec` of the instancetype.
    pub instancetype: Value,
    /// `spec` of the preference.
    pub preference: Value,
}

impl Shape {
    /// Whether the machine names neither.
    pub fn is_empty(&self) -> bool {
        self.instancetype.is_null() && self.preference.is_null()
    }
}

/// The shape of a machine: as it was when the machine saw it first, if there is a revision of that.
pub async fn shape(context: &Context, vm: &Value) -> Result<Shape, Problem> {
    Ok(Shape {
        instancetype: spec(context, &INSTANCETYPE, vm).await?,
        preference: spec(context, &PREFERENCE, vm).await?,
    })
}

/// The spec of one side of a machine's shape, or null.
pub async fn spec(context: &Context, side: &Side, vm: &Value) -> Result<Value, Problem> {
    let matcher = &vm["spec"][side.matcher];
    if matcher.text("/name").is_empty() {
        return Ok(Value::Null);
    }
    let client = context.client(Identity::VIRT_CONTROLLER);
    match revision_name(side, vm) {
        Some(name) => {
            let revision = revision(&client, &Key::new(vm.namespace(), name)).await?;
            let missing =
                || Problem::new(side.missing, format!("controllerrevisions.apps \"{name}\" not found"));
            Ok(revision.ok_or_else(missing)?.at("/data/spec").clone())
        }
        None => Ok(object(&client, side, vm).await?.at("/spec").clone()),
    }
}

/// The object that a machine's matcher names.
pub async fn object(client: &Client, side: &Side, vm: &Value) -> Result<Value, Problem> {
    let matcher = &vm["spec"][side.matcher];
    let (name, kind) = (matcher.text("/name"), matcher.text("/kind"));
    let Some(kind) = side.kind(kind) else {
        let message = format!("got unexpected kind in {}: {kind}", side.matcher_type);
        return Err(Problem::new(side.missing, message));
    };
    let key = if kind.namespaced { Key::new(vm.namespace(), name) } else { Key::cluster(name) };
    let found = client.get(kind, &key).await?;
    found.ok_or_else(|| {
        Problem::new(side.missing, format!("{}.{} \"{name}\" not found", kind.plural, kind.group))
    })
}

/// The revision a machine uses of one side of its shape, if it has one already.
pub fn revision_name<'v>(side: &Side, vm: &'v Value) -> Option<&'v str> {
    let matcher = &vm["spec"][side.matcher];
    let named = matcher.text("/revisionName");
    if !named.is_empty() {
        return Some(named);
    }
    let status = &vm["status"][side.status];
    let same = status.text("/name") == matcher.text("/name")
        && side.kind(status.text("/kind")) == side.kind(matcher.text("/kind"));
    let used = status.text("/controllerRevisionRef/name");
    (same && !used.is_empty()).then_some(used)
}

/// A revision; they never change, so one that is known need not be asked for.
async fn revision(client: &Client, key: &Key) -> Result<Option<Value>, Problem> {
    if let Some(known) = client.cache(&CONTROLLER_REVISION).get(key) {
        return Ok(Some((*known).clone()));
    }
    Ok(client.get(&CONTROLLER_REVISION, key).await?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_are_named_in_many_ways() {
        for (name, cluster) in [
            ("", true),
            ("VirtualMachineClusterInstancetype", true),
            ("virtualmachineclusterinstancetypes", true),
            ("VirtualMachineInstancetype", false),
            ("virtualmachineinstancetype", false),
        ] {
            assert_eq!(INSTANCETYPE.is_cluster(name), cluster, "{name}");
            assert!(INSTANCETYPE.kind(name).is_some(), "{name}");
        }
        assert!(INSTANCETYPE.kind("VirtualMachinePreference").is_none());
    }

    #[test]
    fn a_revision_counts_for_the_shape_it_was_made_of() {
        let mut vm = json!({
            "spec": {"instancetype": {"name": "a", "kind": "VirtualMachineClusterInstancetype"}},
            "status": {"instancetypeRef": {"name": "a", "controllerRevisionRef": {"name": "r"}}},
        });
        assert_eq!(revision_name(&INSTANCETYPE, &vm), Some("r"));
        vm["spec"]["instancetype"]["name"] = "b".into();
        assert_eq!(revision_name(&INSTANCETYPE, &vm), None);
        vm["spec"]["instancetype"]["revisionName"] = "s".into();
        assert_eq!(revision_name(&INSTANCETYPE, &vm), Some("s"));
    }
}
