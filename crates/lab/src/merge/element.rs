//! One step of a path into an object, and its text forms.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::go;

/// A step from a value to a value inside it.
///
/// Elements borrow from the objects, schemas and managed fields they were read from: sets of them are built for
/// every write, and copying their texts would be most of the work.
#[derive(Debug, Clone)]
pub(crate) enum Element<'a> {
    /// A field of an object or an entry of a map.
    Field(&'a str),
    /// The item of a list whose fields have these values, sorted by name.
    Key(Vec<(Cow<'a, str>, Scalar<'a>)>),
    /// The item of a list that has this value.
    Value(Scalar<'a>),
    /// The item at this place of a list.
    Index(i64),
}

/// A value that tells items of a list apart.
#[derive(Debug, Clone)]
pub(crate) enum Scalar<'a> {
    /// A whole number.
    Int(i64),
    /// A number with a fraction; also every number that was read from managed fields.
    Float(f64),
    /// A text.
    Text(Cow<'a, str>),
    /// A truth value.
    Bool(bool),
    /// Anything else: nothing the API writes itself, but clients may send it.
    Other(Cow<'a, Value>),
}

impl<'a> Scalar<'a> {
    /// The value of a field.
    pub(crate) fn of(value: &'a Value) -> Self {
        match value {
            Value::String(text) => Self::Text(Cow::Borrowed(text)),
            Value::Bool(yes) => Self::Bool(*yes),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => Self::Int(whole),
                (None, fraction) => Self::Float(fraction.unwrap_or_default()),
            },
            Value::Null | Value::Array(_) | Value::Object(_) => Self::Other(Cow::Borrowed(value)),
        }
    }

    fn push_json(&self, out: &mut String) {
        match self {
            Self::Int(whole) => out.push_str(&whole.to_string()),
            Self::Float(fraction) => out.push_str(&go::json_float(*fraction)),
            Self::Text(text) => go::push_json_text(out, text, true),
            Self::Bool(yes) => out.push_str(if *yes { "true" } else { "false" }),
            Self::Other(value) => out.push_str(&crate::gotext::json(value)),
        }
    }
}

impl Ord for Scalar<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => left.cmp(right),
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
            (Self::Bool(left), Self::Bool(right)) => left.cmp(right),
            (Self::Other(left), Self::Other(right)) => compare_values(left, right),
            _ => match (self.number(), other.number()) {
                (Some(left), Some(right)) => left.partial_cmp(&right).unwrap_or(Ordering::Equal),
                _ => self.rank().cmp(&other.rank()),
            },
        }
    }
}

impl Scalar<'_> {
    #[expect(clippy::cast_precision_loss, reason = "the real server compares through 64-bit floats as well")]
    fn number(&self) -> Option<f64> {
        match self {
            Self::Int(whole) => Some(*whole as f64),
            Self::Float(fraction) => Some(*fraction),
            _ => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Int(_) | Self::Float(_) => 0,
            Self::Text(_) => 1,
            Self::Bool(_) => 2,
            Self::Other(value) => rank(value),
        }
    }
}

impl PartialOrd for Scalar<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar<'_> {}

/// The order of kinds of values.
fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// The order of two values of any kind.
fn compare_values(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            let differing = left.iter().zip(right).map(|(left, right)| compare_values(left, right));
            differing.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => compare_maps(left, right),
        (Value::Null, Value::Null) => Ordering::Equal,
        _ if rank(left) == rank(right) => Scalar::of(left).cmp(&Scalar::of(right)),
        _ => rank(left).cmp(&rank(right)),
    }
}

fn compare_maps(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    for ((left_name, left_value), (right_name, right_value)) in left.iter().zip(right) {
        let order = match left_name.cmp(right_name) {
            Ordering::Equal => compare_values(left_value, right_value),
            // The map that has the smaller key comes first.
            different => different,
        };
        if order.is_ne() {
            return order;
        }
    }
    left.len().cmp(&right.len())
}

/// True for values that server-side apply holds for the same: `1` and `1.0` are.
pub(crate) fn equal_values(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(_), Value::Number(_)) => Scalar::of(left) == Scalar::of(right),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal_values(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|((name, left), (other, right))| name == other && equal_values(left, right))
        }
        _ => left == right,
    }
}

impl Ord for Element<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => left.cmp(right),
            (Self::Value(left), Self::Value(right)) => left.cmp(right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element<'_> {}

impl<'a> Element<'a> {
    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }

    /// Reads the form of managed fields, such as `f:spec` or `k:{"name":"x"}`. Kinds of elements that are not
    /// known are no error, but nothing either: a later version may know them.
    pub(crate) fn parse(text: &'a str) -> Result<Option<Self>, String> {
        let Some((kind, rest)) = text.split_at_checked(2) else {
            return Err("key must be 2 characters long:".to_owned());
        };
        Ok(Some(match kind {
            "f:" => Self::Field(rest),
            "k:" => Self::Key(serde_json::from_str::<KeyFields<'a>>(rest).map_err(|why| why.to_string())?.0),
            "v:" => Self::Value(serde_json::from_str(rest).map_err(|why| why.to_string())?),
            "i:" => Self::Index(
                rest.parse()
                    .map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", go::quote(rest)))?,
            ),
            _ if kind.ends_with(':') => return Ok(None),
            _ => return Err(format!("missing colon: {text}")),
        }))
    }

    /// The form of managed fields.
    pub(crate) fn to_key(&self) -> String {
        match self {
            Self::Field(name) => {
                let mut out = String::with_capacity(name.len() + 2);
                out.push_str("f:");
                out.push_str(name);
                out
            }
            Self::Key(fields) => {
                let mut out = String::from("k:{");
                for (place, (name, value)) in fields.iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    go::push_json_text(&mut out, name, false);
                    out.push(':');
                    value.push_json(&mut out);
                }
                out.push('}');
                out
            }
            Self::Value(value) => {
                let mut out = String::from("v:");
                value.push_json(&mut out);
                out
            }
            Self::Index(place) => format!("i:{place}"),
        }
    }
}

/// The form of messages, such as `.spec` or `[name="x"]`.
impl fmt::Display for Element<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(out, ".{name}"),
            Self::Key(fields) => {
                out.write_str("[")?;
                for (place, (name, value)) in fields.iter().enumerate() {
                    write!(out, "{}{name}={value}", if place > 0 { "," } else { "" })?;
                }
                out.write_str("]")
            }
            Self::Value(value) => write!(out, "[={value}]"),
            Self::Index(place) => write!(out, "[{place}]"),
        }
    }
}

impl fmt::Display for Scalar<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(whole) => write!(out, "{whole}"),
            Self::Float(fraction) => out.write_str(&go::float(*fraction)),
            Self::Text(text) => out.write_str(&go::quote(text)),
            Self::Bool(yes) => write!(out, "{yes}"),
            Self::Other(value) => out.write_str(&shown(value)),
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
            fields.concat()
        }
        scalar => Scalar::of(scalar).to_string(),
    }
}

/// The fields of a key; read without copying the texts where they have no escapes.
struct KeyFields<'a>(Vec<(Cow<'a, str>, Scalar<'a>)>);

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = KeyFields<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(KeyFields(Vec::new()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields: Vec<(Cow<'de, str>, Scalar<'de>)> = Vec::with_capacity(1);
        while let Some(name) = map.next_key::<Scalar<'de>>()? {
            let value = map.next_value()?;
            if let Scalar::Text(name) = name {
                fields.push((name, value));
            }
        }
        fields.sort_by(|left, right| left.0.cmp(&right.0));
        Ok(KeyFields(fields))
    }
}

impl<'de> Deserialize<'de> for KeyFields<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(KeyVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Self::Value, E> {
        Ok(Scalar::Bool(yes))
    }

    // Managed fields are read without whole numbers, so that large ones lose digits as they do there.
    #[expect(clippy::cast_precision_loss, reason = "as in the real server")]
    fn visit_i64<E>(self, whole: i64) -> Result<Self::Value, E> {
        Ok(Scalar::Float(whole as f64))
    }

    #[expect(clippy::cast_precision_loss, reason = "as in the real server")]
    fn visit_u64<E>(self, whole: u64) -> Result<Self::Value, E> {
        Ok(Scalar::Float(whole as f64))
    }

    fn visit_f64<E>(self, fraction: f64) -> Result<Self::Value, E> {
        Ok(Scalar::Float(fraction))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Scalar::Other(Cow::Owned(Value::Null)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Value>()? {
            list.push(item);
        }
        Ok(Scalar::Other(Cow::Owned(list.into())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut map = Map::new();
        while let Some((name, value)) = fields.next_entry::<String, Value>()? {
            map.insert(name, value);
        }
        Ok(Scalar::Other(Cow::Owned(map.into())))
    }
}

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ScalarVisitor)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_survive_their_text_form() {
        for text in [
            "f:spec",
            "f:a.b/c",
            r#"k:{"containerPort":80,"protocol":"TCP"}"#,
            r#"v:"a\u003cb\"\\""#,
            "v:1.5",
            "v:true",
            "v:null",
            "i:3",
            "i:-1",
        ] {
            assert_eq!(Element::parse(text).unwrap().unwrap().to_key(), text);
        }
        assert!(Element::parse("x:new").unwrap().is_none());
        for bad in ["f", "", "fspec", "i:x", "k:[]", "k:{", "v:", "v:1 2", "ä"] {
            assert!(Element::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn elements_are_sorted_by_kind_then_value() {
        let values = json!([443, 80.0, "a", "b", false, true]);
        let mut elements = vec![Element::Index(0), Element::Field("b"), Element::Field("a")];
        elements.extend(values.as_array().unwrap().iter().map(|value| Element::Value(Scalar::of(value))));
        elements.push(Element::parse(r#"k:{"a":1}"#).unwrap().unwrap());
        elements.sort();
        let keys: Vec<String> = elements.iter().map(Element::to_key).collect();
        assert_eq!(
            keys,
            [
                "f:a",
                "f:b",
                r#"k:{"a":1}"#,
                "v:80",
                "v:443",
                r#"v:"a""#,
                r#"v:"b""#,
                "v:false",
                "v:true",
                "i:0"
            ]
        );
        assert_eq!(Element::Value(Scalar::Int(80)), Element::Value(Scalar::Float(80.0)));
        assert!(equal_values(&json!({"a": [1, {"b": 2.0}]}), &json!({"a": [1.0, {"b": 2}]})));
    }

    #[test]
    fn elements_have_a_form_for_messages() {
        let key = Element::parse(r#"k:{"port":8080,"protocol":"TCP"}"#).unwrap().unwrap();
        assert_eq!(key.to_string(), r#"[port=8080,protocol="TCP"]"#);
        assert_eq!(Element::parse(r#"v:"x""#).unwrap().unwrap().to_string(), r#"[="x"]"#);
    }
}
