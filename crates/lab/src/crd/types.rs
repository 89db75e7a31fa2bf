//! The schema of a custom resource as merging sees it.

use crate::schema::{Embedding, Field, ListMerge, Node, Omit, Patch, Shape, TypeId, TypeRef, Types, Width};

use super::schema::{Additional, Kind, ListType, MapType, Schema};

/// An arena of types and the type of the whole object in it.
#[derive(Debug)]
pub(crate) struct CustomTypes {
    /// The arena.
    pub types: Types,
    /// The type of the whole object.
    pub root: TypeId,
}

impl CustomTypes {
    /// The type of the whole object.
    pub(crate) fn root(&self) -> TypeRef<'_> {
        TypeRef { types: &self.types, id: self.root }
    }
}

/// The types of a schema.
pub(crate) fn of(schema: &Schema) -> CustomTypes {
    let mut builder = Builder::default();
    let root = builder.resource(schema);
    CustomTypes { types: builder.types, root }
}

#[derive(Default)]
struct Builder {
    types: Types,
    string: Option<TypeId>,
    metadata: Option<TypeId>,
}

impl Builder {
    fn add(&mut self, shape: Shape) -> TypeId {
        self.types.add(Node { name: None, shape })
    }

    fn string(&mut self) -> TypeId {
        if let Some(known) = self.string {
            return known;
        }
        let added = self.add(Shape::String);
        *self.string.insert(added)
    }

    /// An object with kind, version and metadata, whether its schema names them or not.
    fn resource(&mut self, schema: &Schema) -> TypeId {
        let mut fields = self.fields(schema);
        fields.retain(|field| !super::shape::is_meta(&field.name));
        let string = self.string();
        let metadata = self.metadata();
        for (name, of) in [("apiVersion", string), ("kind", string), ("metadata", metadata)] {
            fields.push(field(name, of));
        }
        fields.sort_by(|left, right| left.name.cmp(&right.name));
        let atomic = schema.map_type == Some(MapType::Atomic);
        self.add(Shape::Object { fields, atomic, preserve_unknown: schema.preserve_unknown })
    }

    fn node(&mut self, schema: &Schema) -> TypeId {
        if schema.embedded {
            return self.resource(schema);
        }
        if schema.int_or_string {
            return self.add(Shape::IntOrString);
        }
        match &schema.kind {
            Kind::String => self.string(),
            Kind::Boolean => self.add(Shape::Boolean),
            Kind::Integer => {
                let width = if schema.checks.format_name == "int32" { Width::W32 } else { Width::W64 };
                self.add(Shape::Integer(width))
            }
            Kind::Number => self.add(Shape::Number),
            Kind::Array => {
                let items = match schema.items.as_deref() {
                    Some(items) => self.node(items),
                    None => self.add(Shape::Any(Embedding::None)),
                };
                let merge = match schema.list_type {
                    Some(ListType::Set) => ListMerge::Set,
                    Some(ListType::Map) => ListMerge::Map(schema.list_map_keys.clone()),
                    Some(ListType::Atomic) | None => ListMerge::Atomic,
                };
                self.add(Shape::List { items, merge })
            }
            Kind::Object | Kind::Any | Kind::Other(_) => self.object(schema),
        }
    }

    fn object(&mut self, schema: &Schema) -> TypeId {
        let atomic = schema.map_type == Some(MapType::Atomic);
        if schema.properties.is_empty() {
            match &schema.additional {
                Some(Additional::Schema(below)) => {
                    let values = self.node(below);
                    return self.add(Shape::Map { values, atomic });
                }
                Some(Additional::Allowed(true)) => {
                    let values = self.add(Shape::Any(Embedding::None));
                    return self.add(Shape::Map { values, atomic });
                }
                _ => {}
            }
        }
        let fields = self.fields(schema);
        self.add(Shape::Object { fields, atomic, preserve_unknown: schema.preserve_unknown })
    }

    fn fields(&mut self, schema: &Schema) -> Vec<Field> {
        schema
            .properties
            .iter()
            .map(|(name, property)| Field {
                required: schema.checks.required.contains(name),
                default: property.default.clone(),
                ..field(name, self.node(property))
            })
            .collect()
    }

    /// Metadata as every resource has it.
    fn metadata(&mut self) -> TypeId {
        if let Some(known) = self.metadata {
            return known;
        }
        let string = self.string();
        let whole = self.add(Shape::Integer(Width::W64));
        let flag = self.add(Shape::Boolean);
        let time = self.add(Shape::Time);
        let texts = self.add(Shape::Map { values: string, atomic: false });
        let finalizers = self.add(Shape::List { items: string, merge: ListMerge::Set });
        let raw = self.add(Shape::Any(Embedding::FieldsV1));
        let entry = self.add(Shape::Object {
            fields: ["apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "subresource", "time"]
                .into_iter()
                .map(|name| {
                    field(
                        name,
                        if name == "fieldsV1" {
                            raw
                        } else if name == "time" {
                            time
                        } else {
                            string
                        },
                    )
                })
                .collect(),
            atomic: false,
            preserve_unknown: false,
        });
        let managed = self.add(Shape::List { items: entry, merge: ListMerge::Atomic });
        let owner = self.add(Shape::Object {
            fields: ["apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"]
                .into_iter()
                .map(|name| {
                    field(
                        name,
                        if matches!(name, "blockOwnerDeletion" | "controller") { flag } else { string },
                    )
                })
                .collect(),
            atomic: true,
            preserve_unknown: false,
        });
        let owners = self.add(Shape::List { items: owner, merge: ListMerge::Map(vec!["uid".to_owned()]) });
        let fields = [
            ("annotations", texts),
            ("creationTimestamp", time),
            ("deletionGracePeriodSeconds", whole),
            ("deletionTimestamp", time),
            ("finalizers", finalizers),
            ("generateName", string),
            ("generation", whole),
            ("labels", texts),
            ("managedFields", managed),
            ("name", string),
            ("namespace", string),
            ("ownerReferences", owners),
            ("resourceVersion", string),
            ("selfLink", string),
            ("uid", string),
        ];
        let fields = fields.into_iter().map(|(name, of)| field(name, of)).collect();
        let added = self.add(Shape::Object { fields, atomic: false, preserve_unknown: false });
        *self.metadata.insert(added)
    }
}

fn field(name: &str, of: TypeId) -> Field {
    Field {
        name: name.to_owned(),
        of,
        required: false,
        omit: Omit::Missing,
        default: None,
        proto: None,
        patch: Patch::default(),
    }
}
