//! The values of expressions.

use std::{collections::BTreeMap, fmt, net::IpAddr, ops::Deref, sync::Arc};

use serde_json::Value;

use crate::{
    crd::formats,
    gotext,
    gotime::{self, Layout, Moment},
    gourl::Url,
};

use super::{
    amount::Amount,
    named_formats::NamedFormat,
    semver::Semver,
    shape::{ListKind, Shape, ShapeKind, escape, unescape},
    types::Type,
};

/// A value.
#[derive(Debug, Clone)]
pub(crate) enum Val<'a> {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// A text.
    Text(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A length of time in nanoseconds.
    Duration(i64),
    /// A moment.
    Timestamp(Timestamp),
    /// A list.
    List(List<'a>),
    /// A map.
    Map(Map<'a>),
    /// A value that may be missing.
    Optional(Option<Arc<Val<'a>>>),
    /// A type.
    Type(Arc<str>),
    /// An address.
    Ip(IpAddr),
    /// A network.
    Cidr(IpAddr, u8),
    /// A URL.
    Url(Arc<Url>),
    /// An amount of a resource.
    Quantity(Arc<Amount>),
    /// A version.
    Semver(Arc<Semver>),
    /// A format by its name.
    Format(&'static NamedFormat),
    /// A record made by the program: the name of its type, and its fields.
    Record(Arc<str>, Arc<BTreeMap<Arc<str>, Val<'a>>>),
    /// Something of whoever evaluates the expression.
    Host(Arc<dyn Host>),
    /// JSON that can be compared but not looked into.
    Preserved(&'a Value),
}

/// A value that is known to those who evaluate expressions only, such as the authorizer of policies.
pub(crate) trait Host: fmt::Debug + Send + Sync {
    /// The name of its type.
    fn type_name(&self) -> &str;

    /// The result of a function it is the receiver of; none when it has no such function.
    fn call<'a>(&self, function: &str, args: &[Val<'a>]) -> Option<Result<'a>>;

    /// The value of a field, none when it has no such field.
    fn field(&self, name: &str) -> Option<Result<'static>>;
}

/// A moment and its zone, in seconds east of Greenwich.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timestamp {
    /// The moment.
    pub moment: Moment,
    /// The zone it is shown in.
    pub offset: i64,
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    /// The sentence about it.
    pub message: String,
    /// True when evaluation was given up because it took too long.
    pub cancelled: bool,
}

impl Failure {
    /// A failure with a sentence.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), cancelled: false }
    }

    pub(crate) fn no_overload() -> Self {
        Self::new("no such overload")
    }
}

/// A text, of the program or of the values it looks at.
#[derive(Clone)]
pub(crate) enum Text<'a> {
    /// Part of a value.
    Borrowed(&'a str),
    /// Made by the program.
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, formatter)
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

/// A list: of JSON, or made.
#[derive(Debug, Clone)]
pub(crate) enum List<'a> {
    /// Items of JSON, how to read each, and how they are told apart.
    Json(&'a [Value], &'a Shape, &'a ListKind),
    /// Items made by the program.
    Made(Arc<Vec<Val<'a>>>),
}

/// A map: of JSON, or made.
#[derive(Debug, Clone)]
pub(crate) enum Map<'a> {
    /// Fields of JSON, and how to read them.
    Json(&'a serde_json::Map<String, Value>, &'a Shape),
    /// Entries made by the program.
    Made(Arc<BTreeMap<Key<'a>, (Val<'a>, Val<'a>)>>),
}

/// A key of a map; numbers of different types are the same key.
#[derive(Debug, Clone)]
pub(crate) enum Key<'a> {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Number(i128),
    /// A text.
    Text(Text<'a>),
}

impl Key<'_> {
    fn order(&self) -> (u8, i128, &str) {
        match self {
            Self::Bool(flag) => (0, i128::from(*flag), ""),
            Self::Number(number) => (1, *number, ""),
            Self::Text(text) => (2, 0, text),
        }
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Key<'_> {}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

static ATOMIC: ListKind = ListKind::Atomic;

/// A value, or why there is none.
pub(crate) type Result<'a, T = Val<'a>> = std::result::Result<T, Failure>;

impl<'a> Val<'a> {
    /// A text.
    pub(crate) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(Text::Shared(text.into()))
    }

    /// A list of these items.
    pub(crate) fn list(items: Vec<Val<'a>>) -> Self {
        Self::List(List::Made(Arc::new(items)))
    }

    /// A list of texts.
    pub(crate) fn texts(items: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Self {
        Self::list(items.into_iter().map(Self::text).collect())
    }

    pub(crate) fn some(value: Val<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// JSON as a value of some shape.
    pub(crate) fn of_json(value: &'a Value, shape: &'a Shape) -> Result<'a> {
        let wrong = |expected: &str| {
            Err(Failure::new(format!("invalid data, expected {expected}, got {}", go_type(value))))
        };
        if value.is_null() && !matches!(shape.kind, ShapeKind::Dynamic) {
            return if shape.nullable {
                Ok(Self::Null)
            } else {
                Err(Failure::new("invalid data, got null for schema with nullable=false"))
            };
        }
        match (&shape.kind, value) {
            (ShapeKind::Dynamic, _) => Ok(Self::dynamic(value)),
            (ShapeKind::IntOrString | ShapeKind::Text, Value::String(text)) => {
                Ok(Self::Text(Text::Borrowed(text)))
            }
            (ShapeKind::IntOrString, _) => value.as_i64().map(Self::Int).ok_or_else(|| {
                Failure::new("invalid data, expected XIntOrString value to be either a string or integer")
            }),
            (ShapeKind::Record(_) | ShapeKind::Map(_) | ShapeKind::Closed, Value::Object(fields)) => {
                Ok(Self::Map(Map::Json(fields, shape)))
            }
            (ShapeKind::Record(_) | ShapeKind::Map(_) | ShapeKind::Closed, _) => {
                Err(Failure::new("invalid data, expected a map for the provided schema with type=object"))
            }
            (ShapeKind::List(items, kind), Value::Array(values)) => {
                Ok(Self::List(List::Json(values, items, kind)))
            }
            (ShapeKind::BadList, Value::Array(_)) => {
                Err(Failure::new("invalid array type, expected Items with a non-empty Schema"))
            }
            (ShapeKind::List(..) | ShapeKind::BadList, _) => {
                Err(Failure::new("invalid data, expected an array for the provided schema with type=array"))
            }
            (ShapeKind::Duration, Value::String(text)) => formats::parse_duration(text)
                .map(Self::Duration)
                .map_err(|why| Failure::new(format!("Invalid duration {text}: {why}"))),
            (ShapeKind::Date, Value::String(text)) => gotime::parse_time(text, Layout::Date)
                .map(|moment| Self::Timestamp(Timestamp { moment, offset: 0 }))
                .map_err(|why| Failure::new(format!("Invalid date formatted string {text}: {why}"))),
            (ShapeKind::DateTime, Value::String(text)) => date_time(text)
                .map(Self::Timestamp)
                .map_err(|why| Failure::new(format!("Invalid date-time formatted string {text}: {why}"))),
            (ShapeKind::Bytes, Value::String(text)) => super::base64::decode_url(text)
                .map(|bytes| Self::Bytes(bytes.into()))
                .map_err(|why| Failure::new(format!("Invalid byte formatted string {text}: {why}"))),
            (
                ShapeKind::Text
                | ShapeKind::Duration
                | ShapeKind::Date
                | ShapeKind::DateTime
                | ShapeKind::Bytes,
                _,
            ) => wrong("string"),
            (ShapeKind::Number, _) => value.as_f64().map(Self::Double).map_or_else(|| wrong("float"), Ok),
            (ShapeKind::Integer, _) => value.as_i64().map(Self::Int).map_or_else(|| wrong("int"), Ok),
            (ShapeKind::Boolean, _) => value.as_bool().map(Self::Bool).map_or_else(|| wrong("bool"), Ok),
            (ShapeKind::Preserved, _) => Ok(Self::Preserved(value)),
            (ShapeKind::Unknown(kind), _) => Err(Failure::new(format!(
                "invalid type, expected object, array, number, integer, boolean or string, or no type with \
                 x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got {kind}"
            ))),
        }
    }

    /// JSON as what it looks like.
    pub(crate) fn dynamic(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Number(number) => {
                number.as_i64().map_or_else(|| Self::Double(number.as_f64().unwrap_or(f64::NAN)), Self::Int)
            }
            Value::String(text) => Self::Text(Text::Borrowed(text)),
            Value::Array(items) => Self::List(List::Json(items, &super::shape::DYNAMIC, &ATOMIC)),
            Value::Object(fields) => Self::Map(Map::Json(fields, &super::shape::DYNAMIC)),
        }
    }

    /// The name of the type at run time.
    pub(crate) fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Record(name, _) => name,
            Self::Host(host) => host.type_name(),
            Self::Preserved(_) => "unknown",
        }
    }

    /// As a key of a map, if it can be one.
    pub(crate) fn key(&self) -> Option<Key<'a>> {
        match self {
            Self::Bool(flag) => Some(Key::Bool(*flag)),
            Self::Int(number) => Some(Key::Number(i128::from(*number))),
            Self::Uint(number) => Some(Key::Number(i128::from(*number))),
            Self::Double(number) => whole(*number).map(Key::Number),
            Self::Text(text) => Some(Key::Text(text.clone())),
            _ => None,
        }
    }

    /// How large it is, as costs are counted: characters, bytes, items or entries, and 1 for all else.
    pub(crate) fn size(&self) -> u64 {
        let count = match self {
            Self::Text(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 16,
            Self::Cidr(_, bits) => usize::from(bits.div_ceil(8)),
            _ => 1,
        };
        count as u64
    }
}

/// A whole number that is written as a floating point number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::float_cmp,
    reason = "whole numbers of 64 bits, compared exactly"
)]
pub(crate) fn whole(number: f64) -> Option<i128> {
    (number.trunc() == number && number.abs() < 18_446_744_073_709_551_616.0).then_some(number as i128)
}

/// What a piece of JSON is called where messages show it.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn date_time(text: &str) -> std::result::Result<Timestamp, String> {
    if text.is_empty() {
        return Ok(Timestamp { moment: Moment { seconds: 0, nanos: 0 }, offset: 0 });
    }
    gotime::parse_zoned(text, Layout::Rfc3339)
        .or_else(|_| gotime::parse_zoned(text, Layout::Local))
        .map(|(moment, offset)| Timestamp { moment, offset })
}

impl<'a> List<'a> {
    /// How many items there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(items, ..) => items.len(),
            Self::Made(items) => items.len(),
        }
    }

    /// True when there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One item, if there is one.
    pub(crate) fn get(&self, place: usize) -> Option<Result<'a>> {
        match self {
            Self::Json(items, shape, _) => items.get(place).map(|item| Val::of_json(item, shape)),
            Self::Made(items) => items.get(place).cloned().map(Ok),
        }
    }

    /// All items; an item that cannot be read is a failure.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<'a>> + '_ {
        (0..self.len()).filter_map(|place| self.get(place))
    }

    /// All items, or the first failure.
    pub(crate) fn to_vec(&self) -> Result<'a, Vec<Val<'a>>> {
        self.iter().collect()
    }

    /// True for JSON that has a shape.
    pub(crate) fn is_typed(&self) -> bool {
        matches!(self, Self::Json(_, shape, _) if !matches!(shape.kind, ShapeKind::Dynamic))
    }
}

impl<'a> Map<'a> {
    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(fields, _) => fields.len(),
            Self::Made(entries) => entries.len(),
        }
    }

    /// True when there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key, if there is one.
    pub(crate) fn find(&self, key: &Val<'a>) -> Option<Result<'a>> {
        match (self, key) {
            (Self::Json(..), Val::Text(name)) => self.field(name, None),
            (Self::Json(_, shape), _) => {
                (!matches!(shape.kind, ShapeKind::Dynamic)).then(|| Err(Failure::no_overload()))
            }
            (Self::Made(entries), key) => entries.get(&key.key()?).map(|(_, value)| Ok(value.clone())),
        }
    }

    /// The value of a field; `real` is its name in JSON when that is known to be another.
    pub(crate) fn field(&self, name: &str, real: Option<&str>) -> Option<Result<'a>> {
        match self {
            Self::Json(fields, shape) => match &shape.kind {
                ShapeKind::Record(known) => {
                    let unescaped;
                    let name = match real {
                        Some(real) => real,
                        None if name.contains("__") => {
                            unescaped = unescape(name)?;
                            &unescaped
                        }
                        None => name,
                    };
                    // A field that is null is no different from one that is not there.
                    let value = fields.get(name).filter(|value| !value.is_null())?;
                    known.get(name).map(|shape| Val::of_json(value, shape))
                }
                ShapeKind::Map(values) => fields.get(name).map(|value| Val::of_json(value, values)),
                ShapeKind::Dynamic => fields.get(name).map(|value| Ok(Val::dynamic(value))),
                _ => None,
            },
            Self::Made(entries) => {
                entries.get(&Key::Text(Text::Shared(name.into()))).map(|(_, value)| Ok(value.clone()))
            }
        }
    }

    /// All keys.
    pub(crate) fn keys(&self) -> Vec<Val<'a>> {
        match self {
            Self::Json(fields, shape) => match &shape.kind {
                ShapeKind::Record(known) => fields
                    .keys()
                    .filter(|key| known.contains_key(*key))
                    .map(|key| match escape(key) {
                        Some(escaped) if escaped != *key => Val::text(escaped),
                        _ => Val::Text(Text::Borrowed(key)),
                    })
                    .collect(),
                ShapeKind::Map(_) | ShapeKind::Dynamic => {
                    fields.keys().map(|key| Val::Text(Text::Borrowed(key))).collect()
                }
                _ => Vec::new(),
            },
            Self::Made(entries) => entries.values().map(|(key, _)| key.clone()).collect(),
        }
    }

    pub(crate) fn is_typed(&self) -> bool {
        matches!(self, Self::Json(_, shape) if !matches!(shape.kind, ShapeKind::Dynamic))
    }
}

/// Values as messages show them: texts as they are.
impl fmt::Display for Val<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => formatter.write_str(text),
            Self::Int(number) => write!(formatter, "{number}"),
            Self::Uint(number) => write!(formatter, "{number}"),
            Self::Double(number) => formatter.write_str(&gotext::float(*number)),
            Self::Bool(flag) => write!(formatter, "{flag}"),
            Self::Null => formatter.write_str("null"),
            Self::Type(name) => formatter.write_str(name),
            other => formatter.write_str(&other.literal()),
        }
    }
}

impl Val<'_> {
    /// Written as in an expression.
    pub(crate) fn literal(&self) -> String {
        match self {
            Self::Text(text) => gotext::quote(text),
            Self::Uint(number) => format!("{number}u"),
            Self::Double(number) if number.is_nan() => "double(\"NaN\")".to_owned(),
            Self::Double(number) if number.is_infinite() => {
                format!("double(\"{}Infinity\")", if *number < 0.0 { "-" } else { "" })
            }
            Self::Double(number) => {
                let text = number.to_string();
                if text.contains('.') { text } else { format!("{text}.0") }
            }
            Self::Bytes(bytes) => {
                let octets = bytes.iter().fold(String::new(), |mut text, byte| {
                    text.push('\\');
                    text.extend([6, 3, 0].map(|shift| char::from(b'0' + (byte >> shift & 7))));
                    text
                });
                format!("b\"{octets}\"")
            }
            Self::Duration(nanos) => format!("duration(\"{}\")", super::timestamps::seconds_text(*nanos)),
            Self::Timestamp(at) => format!("timestamp(\"{}\")", at.moment.text()),
            Self::List(list) => {
                let items: Vec<String> = list.iter().map(|item| shown(&item)).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Map(map) => {
                let mut entries: Vec<String> = map
                    .keys()
                    .iter()
                    .map(|key| {
                        let value = map.find(key).unwrap_or_else(|| Err(Failure::new("no such key")));
                        format!("{}: {}", key.literal(), shown(&value))
                    })
                    .collect();
                entries.sort();
                format!("{{{}}}", entries.join(", "))
            }
            Self::Optional(Some(value)) => format!("optional.of({})", value.literal()),
            Self::Optional(None) => "optional.none()".to_owned(),
            Self::Ip(address) => address.to_string(),
            Self::Cidr(address, bits) => format!("{address}/{bits}"),
            Self::Preserved(value) => value.to_string(),
            Self::Url(url) => url.text.clone(),
            Self::Quantity(amount) => amount.to_string(),
            other => {
                let plain = matches!(other, Self::Null | Self::Bool(_) | Self::Int(_) | Self::Type(_));
                if plain { other.to_string() } else { other.type_name().to_owned() }
            }
        }
    }
}

fn shown(value: &Result<'_>) -> String {
    match value {
        Ok(value) => value.literal(),
        Err(failure) => failure.message.clone(),
    }
}

/// The name of a type as a value.
pub(crate) fn type_value(of: &Type) -> Val<'static> {
    let name = match of {
        Type::List(_) => "list",
        Type::Map(..) => "map",
        Type::Null => "null_type",
        Type::Duration => "google.protobuf.Duration",
        Type::Timestamp => "google.protobuf.Timestamp",
        Type::Type(_) => "type",
        Type::Opaque(name, _) => return Val::Type(name.clone()),
        Type::Record(record) => return Val::Type(record.name.as_str().into()),
        Type::Bool => "bool",
        Type::Int => "int",
        Type::Uint => "uint",
        Type::Double => "double",
        Type::String => "string",
        Type::Bytes => "bytes",
        Type::Dyn | Type::Error | Type::Param(_) => "dyn",
    };
    Val::Type(name.into())
}
