//! The variables that expressions of policies know, and their types.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::expression::Scope;
use crate::cel::{Env, Record, Type};

/// The names of an environment, without the variables of a policy.
pub(super) fn env(scope: Scope, object: Type, params: Type) -> Env {
    let mut variables = BTreeMap::from([
        ("object".to_owned(), object.clone()),
        ("oldObject".to_owned(), object),
        ("request".to_owned(), request()),
        ("namespaceObject".to_owned(), namespace()),
    ]);
    if scope.params {
        variables.insert("params".to_owned(), params);
    }
    if scope.authorizer {
        let named = |name: &str| Type::named(&format!("kubernetes.authorization.{name}"));
        variables.insert("authorizer".to_owned(), named("Authorizer"));
        variables.insert("authorizer.requestResource".to_owned(), named("ResourceCheck"));
    }
    Env { variables, stored: scope.stored, patches: scope.patches }
}

fn record(name: &str, fields: &[(&str, Type)]) -> Type {
    let fields = fields.iter().map(|(name, of)| ((*name).to_owned(), of.clone())).collect();
    Type::Record(Arc::new(Record { name: format!("kubernetes.{name}"), fields }))
}

fn request() -> Type {
    let text = || Type::String;
    let kind = record("GroupVersionKind", &[("group", text()), ("version", text()), ("kind", text())]);
    let resource =
        record("GroupVersionResource", &[("group", text()), ("version", text()), ("resource", text())]);
    let user = record(
        "UserInfo",
        &[
            ("username", text()),
            ("uid", text()),
            ("groups", Type::list(Type::String)),
            ("extra", Type::map(Type::String, Type::list(Type::String))),
        ],
    );
    record(
        "AdmissionRequest",
        &[
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", text()),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
}

fn namespace() -> Type {
    let (text, texts) = (|| Type::String, || Type::list(Type::String));
    let labels = || Type::map(Type::String, Type::String);
    let condition = record(
        "NamespaceCondition",
        &[
            ("status", text()),
            ("type", text()),
            ("lastTransitionTime", Type::Timestamp),
            ("message", text()),
            ("reason", text()),
        ],
    );
    let metadata = record(
        "NamespaceMetadata",
        &[
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", labels()),
            ("annotations", labels()),
            ("UID", text()),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", text()),
            ("finalizers", texts()),
        ],
    );
    let status = record("NamespaceStatus", &[("conditions", Type::list(condition)), ("phase", text())]);
    let spec = record("NamespaceSpec", &[("finalizers", texts())]);
    record("Namespace", &[("metadata", metadata), ("spec", spec), ("status", status)])
}
