//! What the objects of the API look like: one form for built-in kinds and custom resources.
//!
//! A [`Types`] is an arena of nodes. Everything that has to know the shape of an object walks it through a
//! [`TypeRef`]: decoding and encoding protobuf, dropping unknown fields, server-side apply, strategic merge,
//! OpenAPI documents. Values of the custom resources' own rules (patterns, ranges, CEL) are not here; they are
//! checked by `crd`.

pub mod builtin;
pub mod decode;
mod table;

use std::collections::HashMap;

use serde_json::Value;

/// The place of a node in its [`Types`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeId(pub(crate) u32);

/// An arena of types that refer to each other.
#[derive(Debug, Default)]
pub struct Types {
    pub(crate) nodes: Vec<Node>,
    /// Named types by their full name, such as `io.k8s.api.core.v1.Container`.
    pub(crate) names: HashMap<String, TypeId>,
    /// What is known of built-in types beyond their shape.
    pub(crate) facts: HashMap<TypeId, Facts>,
}

/// One type.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The full name, where it has one.
    pub name: Option<String>,
    /// What values of it look like.
    pub shape: Shape,
}

/// What is known of a built-in type beyond its shape.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// The name the type has in messages about wrong values, where the shape does not tell it: `v1.PodPhase`.
    pub go_name: Option<&'static str>,
    /// The values a text is limited to by the schema.
    pub choices: Vec<String>,
    /// True when the field says itself how it is merged (`x-kubernetes-list-type`, `x-kubernetes-map-type`),
    /// rather than leaving it to the default or to the type.
    pub declared: bool,
    /// True for a list that is a message of its own in protobuf, with its items in field 1.
    pub message: bool,
    /// The fields that come from embedded structures of Go, with the names of those: messages about wrong
    /// values have them in the path.
    pub embedded: Vec<(&'static str, &'static str)>,
    /// The alternatives of an object (`x-kubernetes-unions`).
    pub unions: Option<Value>,
}

/// What the values of a type look like in JSON.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A text.
    String,
    /// `true` or `false`.
    Boolean,
    /// A whole number of 32 or 64 bits.
    Integer(Width),
    /// A number with a fraction.
    Number,
    /// A whole number or a text; a message of its own in protobuf.
    IntOrString,
    /// A resource quantity: a text, also accepted as a number; a message of its own in protobuf.
    Quantity,
    /// A moment with seconds, RFC 3339.
    Time,
    /// A moment with microseconds.
    MicroTime,
    /// A duration in the notation of Go, such as `1h0m0s`; a message with nanoseconds in protobuf.
    Duration,
    /// Bytes, as base64 in JSON.
    Bytes,
    /// Any JSON at all: objects merge field by field, lists are atomic. `FieldsV1`, `RawExtension`, `JSON`
    /// and custom fields that preserve what is unknown.
    Any(Embedding),
    /// A JSON schema, or something shorter in its place: the three odd fields of `JSONSchemaProps`.
    /// Server-side apply and OpenAPI treat it as free-form JSON.
    SchemaOr {
        /// The type of the schema.
        schema: TypeId,
        /// What may stand in its place.
        instead: Instead,
    },
    /// A map from text to values of one type.
    Map {
        /// The type of the values.
        values: TypeId,
        /// True when the map is owned as a whole (`x-kubernetes-map-type: atomic`).
        atomic: bool,
    },
    /// A list of values of one type.
    List {
        /// The type of the items.
        items: TypeId,
        /// How two lists are merged by server-side apply.
        merge: ListMerge,
    },
    /// A record with named fields, sorted by name.
    Object {
        /// The fields, sorted by JSON name.
        fields: Vec<Field>,
        /// True when the object is owned as a whole (`x-kubernetes-map-type: atomic`).
        atomic: bool,
        /// True when fields that are not named here are kept (custom resources only).
        preserve_unknown: bool,
    },
}

/// The width of a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// 32 bits.
    W32,
    /// 64 bits.
    W64,
}

/// How free-form JSON is carried in protobuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Embedding {
    /// `runtime.RawExtension` and `apiextensions.JSON`: a message with the JSON text as bytes in field 1.
    Raw,
    /// `meta.FieldsV1`: the same form, under its own name.
    FieldsV1,
    /// Not part of protobuf at all.
    None,
}

/// What may stand in the place of a JSON schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instead {
    /// `JSONSchemaPropsOrBool`: a boolean. In protobuf a message with the boolean in field 1 (always `true`
    /// beside a schema) and the schema in field 2.
    Boolean,
    /// `JSONSchemaPropsOrArray`: a list of schemas. In protobuf the schema is field 1, the list field 2.
    List,
    /// `JSONSchemaPropsOrStringArray`: a list of texts. In protobuf the schema is field 1, the list field 2.
    Texts,
}

/// How server-side apply merges two lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListMerge {
    /// The list is owned as a whole.
    Atomic,
    /// The items are scalars, each owned by whoever set it.
    Set,
    /// The items are objects, told apart by these fields.
    Map(Vec<String>),
}

/// A field of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The name in JSON.
    pub name: String,
    /// The type of the value.
    pub of: TypeId,
    /// True when the OpenAPI schema lists it as required.
    pub required: bool,
    /// When a typed server leaves the field out on writing.
    pub omit: Omit,
    /// The default of the schema, where it has one.
    pub default: Option<Value>,
    /// The number and encoding in protobuf, where the type has one.
    pub proto: Option<Proto>,
    /// What strategic merge patch does with it.
    pub patch: Patch,
}

/// When a typed server leaves a field out of what it writes.
///
/// The stored form of built-in kinds follows this, so that an empty list and a missing one are one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Omit {
    /// Never: a missing value is written as its zero value (`""`, `0`, `false`, `{}`; lists, maps, moments
    /// and free-form JSON `null`).
    Never,
    /// When it has its zero value: empty text, zero, false, empty list or map, no moment. Objects are never
    /// empty.
    Zero,
    /// When it is missing: a pointer. A zero value that was set is kept.
    Missing,
    /// Never, and a missing value is written as `null`: a pointer that is always written.
    Null,
}

/// A field's place in protobuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proto {
    /// The field number.
    pub number: u32,
    /// True when the type is encoded as bytes, message or text (length-delimited); false for varints.
    /// Floating point numbers are 8-byte values, told by the shape.
    pub delimited: bool,
    /// The numbers of the messages around the field, outermost first and 0 for none: JSON has the fields of
    /// an embedded structure inline, protobuf has it as a message of its own, which is always written.
    pub within: [u32; 2],
}

/// What strategic merge patch does with a field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    /// Lists are merged rather than replaced.
    pub merge: bool,
    /// The field that tells the items of a merged list apart; none for lists of scalars.
    pub merge_key: Option<String>,
    /// Objects: `retainKeys` semantics are allowed.
    pub retain_keys: bool,
    /// Objects: the whole is replaced rather than merged.
    pub replace: bool,
}

/// A type inside its arena.
#[derive(Debug, Clone, Copy)]
pub struct TypeRef<'a> {
    /// The arena.
    pub types: &'a Types,
    /// The node.
    pub id: TypeId,
}

impl Types {
    /// Adds a node and says where it is.
    pub fn add(&mut self, node: Node) -> TypeId {
        let id = TypeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        if let Some(name) = &node.name {
            self.names.insert(name.clone(), id);
        }
        self.nodes.push(node);
        id
    }

    /// The type of this full name.
    pub fn named(&self, name: &str) -> Option<TypeRef<'_>> {
        self.names.get(name).map(|&id| TypeRef { types: self, id })
    }
}

impl<'a> TypeRef<'a> {
    /// The node.
    pub fn node(self) -> &'a Node {
        &self.types.nodes[self.id.0 as usize]
    }

    /// What is known of it beyond the shape, when it is built in and there is more to know.
    pub fn facts(self) -> Option<&'a Facts> {
        self.types.facts.get(&self.id)
    }

    /// The shape of its values.
    pub fn shape(self) -> &'a Shape {
        &self.node().shape
    }

    /// Another type of the same arena.
    #[must_use]
    pub fn at(self, id: TypeId) -> TypeRef<'a> {
        TypeRef { types: self.types, id }
    }

    /// The field of this name and its type, when this is an object that has it.
    pub fn field(self, name: &str) -> Option<(&'a Field, TypeRef<'a>)> {
        let Shape::Object { fields, .. } = self.shape() else { return None };
        let place = fields.binary_search_by(|field| field.name.as_str().cmp(name)).ok()?;
        Some((&fields[place], self.at(fields[place].of)))
    }
}
