//! The structural schema of a custom resource, read once from its definition.

use serde_json::{Map, Number, Value};

use crate::goregex::GoRegex;

use super::formats::{self, Format};

/// A node of a schema: what the values at one place look like and have to satisfy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schema {
    /// The `type`.
    pub kind: Kind,
    /// Whether `null` is a value.
    pub nullable: bool,
    /// The `default`.
    pub default: Option<Value>,
    /// The named fields, sorted.
    pub properties: Vec<(String, Schema)>,
    /// What fields without a name of their own are.
    pub additional: Option<Additional>,
    /// The items of a list.
    pub items: Option<Box<Schema>>,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-list-type`.
    pub list_type: Option<ListType>,
    /// `x-kubernetes-list-map-keys`.
    pub list_map_keys: Vec<String>,
    /// `x-kubernetes-map-type`.
    pub map_type: Option<MapType>,
    /// What values have to satisfy.
    pub checks: Checks,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Rule>,
    /// What occurs here or below, so that walks know where there is nothing to do.
    pub below: Below,
}

/// What a node or anything below it has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Below {
    /// Defaults.
    pub defaults: bool,
    /// Embedded resources.
    pub embedded: bool,
    /// Lists that are sets or maps.
    pub keyed_lists: bool,
    /// CEL rules.
    pub rules: bool,
}

/// The `type` of a schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// None.
    #[default]
    Any,
    /// `object`.
    Object,
    /// `array`.
    Array,
    /// `string`.
    String,
    /// `integer`.
    Integer,
    /// `number`.
    Number,
    /// `boolean`.
    Boolean,
    /// A word that is no type.
    Other(String),
}

/// `additionalProperties`.
#[derive(Debug, Clone)]
pub(crate) enum Additional {
    /// Any or no further fields.
    Allowed(bool),
    /// Further fields of this schema.
    Schema(Box<Schema>),
}

/// How a list is merged and told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListType {
    /// As a whole.
    Atomic,
    /// By its values.
    Set,
    /// By the keys of its items.
    Map,
}

/// How a map is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapType {
    /// As a whole.
    Atomic,
    /// Key by key.
    Granular,
}

/// What the values of a schema have to satisfy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checks {
    /// The format as written, where it is checked.
    pub format: Option<FormatCheck>,
    /// The format as written, whether it is checked or not.
    pub format_name: String,
    /// Upper bound.
    pub maximum: Option<f64>,
    /// The upper bound itself is too much.
    pub exclusive_maximum: bool,
    /// Lower bound.
    pub minimum: Option<f64>,
    /// The lower bound itself is too little.
    pub exclusive_minimum: bool,
    /// What numbers are a multiple of.
    pub multiple_of: Option<f64>,
    /// Most characters.
    pub max_length: Option<i64>,
    /// Least characters.
    pub min_length: Option<i64>,
    /// What text matches.
    pub pattern: Option<Pattern>,
    /// Most items.
    pub max_items: Option<i64>,
    /// Least items.
    pub min_items: Option<i64>,
    /// Most fields.
    pub max_properties: Option<i64>,
    /// Least fields.
    pub min_properties: Option<i64>,
    /// Fields that have to be there.
    pub required: Vec<String>,
    /// The only values there are.
    pub choices: Vec<Value>,
    /// All of these hold.
    pub all_of: Vec<Schema>,
    /// One of these holds, or more.
    pub any_of: Vec<Schema>,
    /// Exactly one of these holds.
    pub one_of: Vec<Schema>,
    /// This does not hold.
    pub not: Option<Box<Schema>>,
}

/// A format that is checked.
#[derive(Debug, Clone)]
pub(crate) struct FormatCheck {
    /// The name as written.
    pub name: String,
    /// What it checks.
    pub format: Format,
}

/// A pattern text has to match.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// As written.
    pub text: String,
    /// Compiled, or the complaint about it.
    pub regex: Result<GoRegex, String>,
}

/// One of `x-kubernetes-validations`, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "schemas call it so")]
pub(crate) struct Rule {
    /// The expression.
    pub rule: String,
    /// The sentence when it does not hold.
    pub message: String,
    /// An expression for the sentence.
    pub message_expression: String,
    /// The reason that is reported.
    pub reason: Option<String>,
    /// The field that is reported, relative to the rule.
    pub field_path: String,
    /// Whether the rule also runs when there is no old value.
    pub optional_old_self: Option<bool>,
}

impl Schema {
    /// Reads a schema; the error is the sentence about what no structural schema can have.
    pub(crate) fn read(schema: &Value) -> Result<Self, String> {
        let empty = Map::new();
        let fields = schema.as_object().unwrap_or(&empty);
        refuse_unsupported(fields)?;
        let mut node = Self {
            kind: Kind::read(text(fields, "type")),
            nullable: flag(fields, "nullable"),
            default: fields.get("default").filter(|value| !value.is_null()).cloned(),
            embedded: flag(fields, "x-kubernetes-embedded-resource"),
            int_or_string: flag(fields, "x-kubernetes-int-or-string"),
            list_type: match text(fields, "x-kubernetes-list-type") {
                "atomic" => Some(ListType::Atomic),
                "set" => Some(ListType::Set),
                "map" => Some(ListType::Map),
                _ => None,
            },
            list_map_keys: texts(fields, "x-kubernetes-list-map-keys"),
            map_type: match text(fields, "x-kubernetes-map-type") {
                "atomic" => Some(MapType::Atomic),
                "granular" => Some(MapType::Granular),
                _ => None,
            },
            rules: list(fields, "x-kubernetes-validations").iter().map(Rule::read).collect(),
            ..Self::default()
        };
        match fields.get("x-kubernetes-preserve-unknown-fields") {
            Some(Value::Bool(false)) => {
                return Err(
                    "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
                        .to_owned(),
                );
            }
            Some(Value::Bool(true)) => node.preserve_unknown = true,
            _ => {}
        }
        node.checks = Checks::read(fields, &node)?;
        match fields.get("items") {
            Some(Value::Array(schemas)) if !schemas.is_empty() => {
                return Err("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
            }
            Some(items @ Value::Object(_)) => node.items = Some(Box::new(Self::read(items)?)),
            _ => {}
        }
        if let Some(Value::Object(properties)) = fields.get("properties") {
            node.properties = properties
                .iter()
                .map(|(name, property)| Ok((name.clone(), Self::read(property)?)))
                .collect::<Result<_, String>>()?;
        }
        node.additional = match fields.get("additionalProperties") {
            Some(Value::Bool(allowed)) => Some(Additional::Allowed(*allowed)),
            Some(schema @ Value::Object(_)) => Some(Additional::Schema(Box::new(Self::read(schema)?))),
            _ => None,
        };
        node.look_below();
        Ok(node)
    }

    /// Notes what occurs here and below.
    pub(crate) fn look_below(&mut self) {
        let mut below = Below {
            defaults: self.default.is_some(),
            embedded: self.embedded,
            keyed_lists: matches!(self.list_type, Some(ListType::Set | ListType::Map)),
            rules: !self.rules.is_empty(),
        };
        for child in self.children() {
            below.defaults |= child.below.defaults;
            below.embedded |= child.below.embedded;
            below.keyed_lists |= child.below.keyed_lists;
            below.rules |= child.below.rules;
        }
        self.below = below;
    }

    /// The schemas right below: fields, further fields and items.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Schema> {
        self.properties
            .iter()
            .map(|(_, property)| property)
            .chain(self.additional_schema())
            .chain(self.items.as_deref())
    }

    /// The named field.
    pub(crate) fn property(&self, name: &str) -> Option<&Schema> {
        let place = self.properties.binary_search_by(|(key, _)| key.as_str().cmp(name)).ok()?;
        Some(&self.properties[place].1)
    }

    /// The schema of fields without a name of their own.
    pub(crate) fn additional_schema(&self) -> Option<&Schema> {
        match &self.additional {
            Some(Additional::Schema(schema)) => Some(schema),
            _ => None,
        }
    }

    /// The schema of a field, whether it has a name of its own or not.
    pub(crate) fn field(&self, name: &str) -> Option<&Schema> {
        self.property(name).or_else(|| self.additional_schema())
    }
}

impl Kind {
    pub(crate) fn read(name: &str) -> Self {
        match name {
            "" => Self::Any,
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The word as written.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Any => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Other(name) => name,
        }
    }
}

impl Checks {
    fn read(fields: &Map<String, Value>, node: &Schema) -> Result<Self, String> {
        let schemas =
            |key: &str| list(fields, key).iter().map(Schema::read).collect::<Result<Vec<_>, String>>();
        let format_name = text(fields, "format").to_owned();
        let pattern = text(fields, "pattern");
        Ok(Self {
            format: formats::checked(&format_name, &node.kind, node.int_or_string)
                .map(|format| FormatCheck { name: format_name.clone(), format }),
            format_name,
            maximum: float(fields, "maximum"),
            exclusive_maximum: flag(fields, "exclusiveMaximum"),
            minimum: float(fields, "minimum"),
            exclusive_minimum: flag(fields, "exclusiveMinimum"),
            multiple_of: float(fields, "multipleOf"),
            max_length: whole(fields, "maxLength"),
            min_length: whole(fields, "minLength"),
            pattern: (!pattern.is_empty())
                .then(|| Pattern { text: pattern.to_owned(), regex: GoRegex::new(pattern) }),
            max_items: whole(fields, "maxItems"),
            min_items: whole(fields, "minItems"),
            max_properties: whole(fields, "maxProperties"),
            min_properties: whole(fields, "minProperties"),
            required: texts(fields, "required"),
            choices: list(fields, "enum").to_vec(),
            all_of: schemas("allOf")?,
            any_of: schemas("anyOf")?,
            one_of: schemas("oneOf")?,
            not: match fields.get("not") {
                Some(schema @ Value::Object(_)) => Some(Box::new(Schema::read(schema)?)),
                _ => None,
            },
        })
    }
}

impl Rule {
    pub(crate) fn read(rule: &Value) -> Self {
        let word = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        Self {
            rule: word("rule"),
            message: word("message"),
            message_expression: word("messageExpression"),
            reason: rule.get("reason").and_then(Value::as_str).map(str::to_owned),
            field_path: word("fieldPath"),
            optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
        }
    }
}

/// What no structural schema can have.
fn refuse_unsupported(fields: &Map<String, Value>) -> Result<(), String> {
    for (key, shown) in [("id", "id"), ("$schema", "schema"), ("$ref", "$ref")] {
        if !text(fields, key).is_empty() {
            return Err(format!("OpenAPIV3Schema '{shown}' is not supported"));
        }
    }
    for key in ["patternProperties", "dependencies", "additionalItems", "definitions"] {
        let there = match fields.get(key) {
            None | Some(Value::Null) => false,
            Some(Value::Object(map)) => key == "additionalItems" || !map.is_empty(),
            Some(_) => true,
        };
        if there {
            return Err(format!("OpenAPIV3Schema '{key}' is not supported"));
        }
    }
    Ok(())
}

pub(crate) fn text<'v>(fields: &'v Map<String, Value>, key: &str) -> &'v str {
    fields.get(key).and_then(Value::as_str).unwrap_or("")
}

pub(crate) fn flag(fields: &Map<String, Value>, key: &str) -> bool {
    fields.get(key).and_then(Value::as_bool).unwrap_or(false)
}

pub(crate) fn list<'v>(fields: &'v Map<String, Value>, key: &str) -> &'v [Value] {
    fields.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn texts(fields: &Map<String, Value>, key: &str) -> Vec<String> {
    list(fields, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn float(fields: &Map<String, Value>, key: &str) -> Option<f64> {
    fields.get(key).and_then(Value::as_f64)
}

fn whole(fields: &Map<String, Value>, key: &str) -> Option<i64> {
    fields.get(key).and_then(Value::as_number).and_then(whole_number)
}

/// A number as the server reads whole numbers.
#[expect(clippy::cast_possible_truncation, reason = "checked to be whole")]
pub(crate) fn whole_number(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| number.as_f64().filter(|float| float.fract() == 0.0).map(|float| float as i64))
}
