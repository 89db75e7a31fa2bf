//! A schema with its references followed.

use serde_json::{Map, Value};

/// References and wrappers that are followed for one schema. Only schemas that go in circles have more.
const MAX_LAYERS: usize = 64;

/// What kind of node a schema asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Anything,
    Scalar,
    List,
    Object,
}

/// A schema together with everything its `$ref` and `allOf` bring in. What stands further out wins.
#[derive(Debug, Clone)]
pub(super) struct View<'schema> {
    layers: Vec<&'schema Map<String, Value>>,
    /// The branches of an `anyOf` or `oneOf`, if there is a choice; a branch for "nothing" is not counted.
    pub(super) alternatives: Vec<&'schema Value>,
    /// Whether "nothing" is allowed.
    pub(super) nullable: bool,
}

impl<'schema> View<'schema> {
    /// Follows the references of a schema. `root` is where they lead into.
    pub(super) fn resolve(root: &'schema Value, schema: &'schema Value) -> Self {
        let mut view = Self { layers: Vec::new(), alternatives: Vec::new(), nullable: false };
        view.add(root, schema);
        view
    }

    /// The same schema with one branch of its alternatives chosen.
    pub(super) fn with_branch(&self, root: &'schema Value, branch: &'schema Value) -> Self {
        let mut view = Self { alternatives: Vec::new(), ..self.clone() };
        view.add(root, branch);
        view
    }

    fn add(&mut self, root: &'schema Value, schema: &'schema Value) {
        let mut open = vec![schema];
        while let Some(schema) = open.pop() {
            let Some(layer) = schema.as_object() else { continue };
            if self.layers.len() >= MAX_LAYERS {
                return;
            }
            self.layers.push(layer);
            self.nullable |= layer.get("type").is_some_and(allows_null) || is_true(layer.get("nullable"));
            if let Some(target) =
                layer.get("$ref").and_then(Value::as_str).and_then(|name| target(root, name))
            {
                open.push(target);
            }
            open.extend(branches(layer, "allOf"));
            for keyword in ["anyOf", "oneOf"] {
                let all: Vec<_> = branches(layer, keyword).collect();
                let real: Vec<_> = all.iter().copied().filter(|branch| !is_null_schema(branch)).collect();
                self.nullable |= real.len() < all.len();
                match real.as_slice() {
                    [] => {}
                    [only] => open.push(only),
                    _ => self.alternatives.extend(real),
                }
            }
        }
    }

    /// The value of a keyword, from the outermost layer that has it.
    pub(super) fn get(&self, keyword: &str) -> Option<&'schema Value> {
        self.layers.iter().find_map(|layer| layer.get(keyword))
    }

    pub(super) fn flag(&self, keyword: &str) -> bool {
        is_true(self.get(keyword))
    }

    pub(super) fn text(&self, keyword: &str) -> Option<&'schema str> {
        self.get(keyword).and_then(Value::as_str)
    }

    /// A keyword that counts something.
    pub(super) fn count(&self, keyword: &str) -> Option<u64> {
        self.get(keyword).and_then(Value::as_u64)
    }

    pub(super) fn number(&self, keyword: &str) -> Option<f64> {
        self.get(keyword).and_then(Value::as_f64)
    }

    /// The schema of a property.
    pub(super) fn property(&self, name: &str) -> Option<&'schema Value> {
        self.layers.iter().find_map(|layer| layer.get("properties")?.get(name))
    }

    /// The names of all properties.
    pub(super) fn property_names(&self) -> Vec<&'schema str> {
        let mut names = Vec::new();
        for layer in &self.layers {
            if let Some(properties) = layer.get("properties").and_then(Value::as_object) {
                names.extend(properties.keys().map(String::as_str));
            }
        }
        names
    }

    /// The names of all properties that must be there.
    pub(super) fn required(&self) -> Vec<&'schema str> {
        let mut names: Vec<&str> = Vec::new();
        for list in self.layers.iter().filter_map(|layer| layer.get("required")?.as_array()) {
            for name in list.iter().filter_map(Value::as_str) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }

    /// The schema for keys that are no properties, if such keys are allowed.
    pub(super) fn additional(&self) -> Option<&'schema Value> {
        self.layers
            .iter()
            .filter_map(|layer| layer.get("additionalProperties"))
            .find(|schema| **schema != Value::Bool(false))
    }

    /// The other spellings of properties.
    pub(super) fn alias(&self, name: &str) -> Option<&'schema str> {
        self.layers.iter().find_map(|layer| layer.get("x-trellis-aliases")?.get(name)?.as_str())
    }

    pub(super) fn has_type(&self, name: &str) -> bool {
        match self.get("type") {
            Some(Value::String(only)) => only == name,
            Some(Value::Array(list)) => list.iter().any(|entry| entry == name),
            _ => false,
        }
    }

    /// Whether the schema says nothing about the value.
    pub(super) fn is_anything(&self) -> bool {
        let says = ["type", "properties", "additionalProperties", "items", "enum", "const"];
        let special = self.flag("x-kubernetes-int-or-string") || self.flag("x-trellis-text");
        self.alternatives.is_empty() && !special && says.iter().all(|keyword| self.get(keyword).is_none())
    }

    pub(super) fn shape(&self, root: &'schema Value) -> Shape {
        if self.has_type("object")
            || self.get("properties").is_some()
            || self.get("additionalProperties").is_some()
        {
            Shape::Object
        } else if self.has_type("array") || self.get("items").is_some() {
            Shape::List
        } else if self.is_anything() {
            Shape::Anything
        } else if self.enumeration(root).is_some() || self.alternatives.is_empty() {
            Shape::Scalar
        } else {
            // A choice is of the shape all its branches have, if they agree.
            let mut shapes = self.alternatives.iter().map(|branch| Self::resolve(root, branch).leaf_shape());
            let first = shapes.next().unwrap_or(Shape::Anything);
            if shapes.all(|shape| shape == first) { first } else { Shape::Anything }
        }
    }

    /// The shape without a look into nested choices, which could go in circles.
    pub(super) fn leaf_shape(&self) -> Shape {
        if self.alternatives.is_empty() { self.shape(&Value::Null) } else { Shape::Anything }
    }

    /// The texts to choose from, if the schema is a choice of texts and nothing else.
    ///
    /// `schemars` writes an enum with documented variants as `oneOf` several constants.
    pub(super) fn enumeration(&self, root: &'schema Value) -> Option<Vec<&'schema str>> {
        if let Some(own) = self.own_texts() {
            return Some(own);
        }
        if self.alternatives.is_empty() {
            return None;
        }
        let mut texts = Vec::new();
        for branch in &self.alternatives {
            texts.extend(Self::resolve(root, branch).own_texts()?);
        }
        Some(texts)
    }

    fn own_texts(&self) -> Option<Vec<&'schema str>> {
        if let Some(only) = self.text("const") {
            return Some(vec![only]);
        }
        // `null` stands in the list of an optional enum.
        let list = self.get("enum")?.as_array()?;
        list.iter().filter(|entry| !entry.is_null()).map(Value::as_str).collect()
    }

    /// The first sentence of the description, without its full stop.
    pub(super) fn summary(&self) -> Option<String> {
        let text = self.text("description")?;
        let paragraph = text.split("\n\n").next().unwrap_or_default().replace('\n', " ");
        let sentence = paragraph.split(". ").next().unwrap_or_default().trim().trim_end_matches('.');
        (!sentence.is_empty()).then(|| sentence.to_owned())
    }
}

/// The schema a reference such as `#/$defs/Name` leads to.
fn target<'schema>(root: &'schema Value, reference: &str) -> Option<&'schema Value> {
    root.pointer(reference.strip_prefix('#')?)
}

fn branches<'schema>(
    layer: &'schema Map<String, Value>,
    keyword: &str,
) -> impl Iterator<Item = &'schema Value> + use<'schema> {
    layer.get(keyword).and_then(Value::as_array).into_iter().flatten()
}

fn is_true(value: Option<&Value>) -> bool {
    value == Some(&Value::Bool(true))
}

fn allows_null(types: &Value) -> bool {
    types == "null" || types.as_array().is_some_and(|list| list.iter().any(|entry| entry == "null"))
}

fn is_null_schema(schema: &Value) -> bool {
    schema.get("type").is_some_and(|types| types == "null")
        || schema.get("const").is_some_and(Value::is_null)
        || schema
            .get("enum")
            .is_some_and(|list| list.as_array().is_some_and(|list| list.iter().all(Value::is_null)))
}
