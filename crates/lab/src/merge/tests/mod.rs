//! Tests that need more than one part: laws of merging, recorded writes, and what tracking costs.

mod laws;
mod life;
mod replay;
mod server;

use serde_json::Value;

use crate::names::Gvk;
use crate::schema::{
    Embedding, Field, ListMerge, Node, Omit, Patch, Shape, TypeId, TypeRef, Types, Width, builtin,
};

/// The custom resource of the recordings.
const CRD: &str = include_str!("data/widgets.json");

/// Adds a type of a CRD; just what the recordings need.
fn add_schema(types: &mut Types, schema: &Value) -> TypeId {
    let shape = match schema["type"].as_str() {
        Some("string") => Shape::String,
        Some("integer") => Shape::Integer(Width::W64),
        Some("number") => Shape::Number,
        Some("boolean") => Shape::Boolean,
        Some("array") => {
            let items = add_schema(types, &schema["items"]);
            let merge = match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => ListMerge::Set,
                Some("map") => ListMerge::Map(
                    serde_json::from_value(schema["x-kubernetes-list-map-keys"].clone()).unwrap(),
                ),
                _ => ListMerge::Atomic,
            };
            Shape::List { items, merge }
        }
        Some("object") => {
            let atomic = schema["x-kubernetes-map-type"] == "atomic";
            if schema["additionalProperties"].is_object() {
                let values = add_schema(types, &schema["additionalProperties"]);
                Shape::Map { values, atomic }
            } else {
                let fields = schema["properties"].as_object().into_iter().flatten();
                let fields =
                    fields.map(|(name, of)| field(name, add_schema(types, of), of.get("default"))).collect();
                let preserve_unknown = schema["x-kubernetes-preserve-unknown-fields"] == true;
                Shape::Object { fields, atomic, preserve_unknown }
            }
        }
        _ if schema["x-kubernetes-int-or-string"] == true => Shape::IntOrString,
        _ => Shape::Any(Embedding::None),
    };
    types.add(Node { name: None, shape })
}

fn field(name: &str, of: TypeId, default: Option<&Value>) -> Field {
    Field {
        name: name.to_owned(),
        of,
        required: false,
        omit: Omit::Missing,
        default: default.cloned(),
        proto: None,
        patch: Patch::default(),
    }
}

/// Copies a type of another arena.
fn copy(types: &mut Types, of: TypeRef<'_>) -> TypeId {
    let mut node = of.node().clone();
    match &mut node.shape {
        Shape::Object { fields, .. } => {
            for field in fields {
                field.of = copy(types, of.at(field.of));
            }
        }
        Shape::List { items, .. } => *items = copy(types, of.at(*items)),
        Shape::Map { values, .. } => *values = copy(types, of.at(*values)),
        _ => {}
    }
    types.add(node)
}

fn widget_types() -> (Types, TypeId) {
    let crd: Value = serde_json::from_str(CRD).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut types = Types::default();
    let pod = builtin::kind_of(&Gvk::new("", "v1", "Pod")).unwrap();
    let meta = copy(&mut types, pod.field("metadata").unwrap().1);
    let text = types.add(Node { name: None, shape: Shape::String });
    let mut fields =
        vec![field("apiVersion", text, None), field("kind", text, None), field("metadata", meta, None)];
    for name in ["spec", "status"] {
        let of = add_schema(&mut types, &schema["properties"][name]);
        fields.push(field(name, of, None));
    }
    let shape = Shape::Object { fields, atomic: false, preserve_unknown: false };
    let root = types.add(Node { name: Some("com.example.Widget".to_owned()), shape });
    (types, root)
}

fn builtin_type(api_version: &str, kind: &str) -> Option<TypeRef<'static>> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    builtin::kind_of(&Gvk::new(group, version, kind))
}
