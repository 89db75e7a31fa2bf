//! From protobuf to JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value, json};

use super::wire::{Piece, Pieces};
use super::{DEPTH_LIMIT, DecodeError, MAGIC, Problem, time};
use crate::names::Gvk;
use crate::schema::{Embedding, Field, Instead, Omit, Shape, TypeRef, Width};

/// Reads a body: the envelope, and in it an object of the kind it names, or of the `default` kind as far as it
/// names none.
///
/// The object has the fields that were sent. Those a typed server omits at their zero value are left out, as
/// they are always sent; `apiVersion` and `kind` are those of the envelope.
pub(crate) fn decode<'t>(
    bytes: &[u8],
    default: &Gvk,
    lookup: &dyn Fn(&Gvk) -> Option<TypeRef<'t>>,
) -> Result<Value, DecodeError> {
    decode_at(bytes, default, lookup, 0)
}

fn decode_at<'t>(
    bytes: &[u8],
    default: &Gvk,
    lookup: &dyn Fn(&Gvk) -> Option<TypeRef<'t>>,
    depth: usize,
) -> Result<Value, DecodeError> {
    let unknown = |problem| DecodeError { kind: None, problem };
    if bytes.is_empty() {
        return Err(unknown(Problem::EmptyData));
    }
    let envelope = bytes.strip_prefix(&MAGIC).ok_or_else(|| unknown(Problem::NoMagic))?;
    if envelope.is_empty() {
        return Err(unknown(Problem::EmptyBody));
    }
    let Envelope { api_version, mut kind, raw } = Envelope::read(envelope).map_err(unknown)?;
    if kind.is_empty() {
        kind.clone_from(&default.kind);
    }
    let named = match api_version.split_once('/') {
        _ if api_version.is_empty() => Gvk { kind, ..default.clone() },
        Some((group, version)) => Gvk { group: group.to_owned(), version: version.to_owned(), kind },
        None => Gvk { group: String::new(), version: api_version, kind },
    };
    let failed = |problem| DecodeError { kind: Some(named.clone()), problem };
    let Some(of) = lookup(&named) else {
        return Err(failed(Problem::NoSuchKind { kind: named.kind.clone(), version: named.api_version() }));
    };
    let decoder = Decoder { lookup };
    let mut fields = Map::new();
    decoder.object(raw, of, [0, 0], &mut fields, depth).map_err(failed)?;
    fields.insert("apiVersion".to_owned(), named.api_version().into());
    fields.insert("kind".to_owned(), named.kind.clone().into());
    Ok(fields.into())
}

/// `runtime.Unknown`.
#[derive(Debug, Default)]
struct Envelope<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Problem> {
        let mut envelope = Self::default();
        let mut pieces = Pieces::new(bytes);
        while let Some((number, piece)) = pieces.next()? {
            match number {
                1 => {
                    let mut inner = Pieces::new(delimited(piece, "TypeMeta")?);
                    while let Some((number, piece)) = inner.next()? {
                        match number {
                            1 => envelope.api_version = text(piece, "APIVersion")?,
                            2 => envelope.kind = text(piece, "Kind")?,
                            _ => {}
                        }
                    }
                }
                2 => envelope.raw = delimited(piece, "Raw")?,
                _ => {}
            }
        }
        Ok(envelope)
    }
}

/// Walks bytes along a type.
struct Decoder<'l, 't> {
    lookup: &'l dyn Fn(&Gvk) -> Option<TypeRef<'t>>,
}

impl<'t> Decoder<'_, 't> {
    /// Reads the fields of a message into an object. `within` is where in the message of the object the bytes
    /// are: structures that JSON has inline are messages of their own.
    fn object(
        &self,
        bytes: &[u8],
        of: TypeRef<'t>,
        within: [u32; 2],
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), Problem> {
        if depth >= DEPTH_LIMIT {
            return Err(Problem::TooDeep);
        }
        let Shape::Object { fields, .. } = of.shape() else { return Ok(()) };
        let mut pieces = Pieces::new(bytes);
        while let Some((number, piece)) = pieces.next()? {
            let place = |field: &&Field| {
                field.proto.is_some_and(|proto| proto.number == number && proto.within == within)
            };
            if let Some(field) = fields.iter().find(place) {
                self.field(piece, field, of.at(field.of), into, depth)?;
                continue;
            }
            let Some(deeper) = deeper(within, number) else { continue };
            let inside = |field: &Field| {
                field.proto.is_some_and(|proto| {
                    proto.within == deeper || (within == [0, 0] && proto.within[0] == number)
                })
            };
            if fields.iter().any(inside) {
                self.object(delimited(piece, "embedded message")?, of, deeper, into, depth)?;
            }
        }
        Ok(())
    }

    /// Reads one occurrence of a field; lists and maps get one more entry, messages are merged.
    fn field(
        &self,
        piece: Piece<'_>,
        field: &Field,
        of: TypeRef<'t>,
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), Problem> {
        let name = field.name.as_str();
        match of.shape() {
            Shape::List { items, .. } if !is_message(of) => {
                let items = of.at(*items);
                let slot = into.entry(name).or_insert_with(|| json!([]));
                let Value::Array(list) = slot else { return Ok(()) };
                match (piece, items.shape()) {
                    (Piece::Bytes(packed), Shape::Integer(_) | Shape::Boolean | Shape::Number) => {
                        let mut numbers = Pieces::new(packed);
                        while !numbers.is_empty() {
                            let piece = if matches!(items.shape(), Shape::Number) {
                                Piece::Fixed64(numbers.fixed64()?)
                            } else {
                                Piece::Varint(numbers.varint()?)
                            };
                            list.push(self.value(piece, name, items, None, depth + 1)?);
                        }
                    }
                    _ => list.push(self.value(piece, name, items, None, depth + 1)?),
                }
            }
            Shape::Map { values, .. } => {
                let (key, value) = self.entry(piece, name, of.at(*values), depth + 1)?;
                let slot = into.entry(name).or_insert_with(|| json!({}));
                if let Value::Object(map) = slot {
                    map.insert(key, value);
                }
            }
            _ => {
                let value = self.value(piece, name, of, into.remove(name), depth + 1)?;
                if !left_out(&value, of.shape(), field.omit) {
                    into.insert(name.to_owned(), value);
                }
            }
        }
        Ok(())
    }

    /// An entry of a map: key in field 1, value in field 2, both with a zero value when missing.
    fn entry(
        &self,
        piece: Piece<'_>,
        name: &str,
        values: TypeRef<'t>,
        depth: usize,
    ) -> Result<(String, Value), Problem> {
        let (mut key, mut value) = (String::new(), None);
        let mut pieces = Pieces::new(delimited(piece, name)?);
        while let Some((number, piece)) = pieces.next()? {
            match number {
                1 => key = text(piece, name)?,
                2 => value = Some(self.value(piece, name, values, None, depth)?),
                _ => {}
            }
        }
        let value = match (value, values.shape()) {
            (Some(value), _) => value,
            (None, Shape::String | Shape::Bytes) => json!(""),
            (None, Shape::Integer(_) | Shape::Number) => json!(0),
            (None, Shape::Boolean) => json!(false),
            (None, _) => self.value(Piece::Bytes(&[]), name, values, None, depth)?,
        };
        Ok((key, value))
    }

    /// Reads a single value; `before` is what an earlier occurrence of the same field said.
    fn value(
        &self,
        piece: Piece<'_>,
        name: &str,
        of: TypeRef<'t>,
        before: Option<Value>,
        depth: usize,
    ) -> Result<Value, Problem> {
        Ok(match of.shape() {
            Shape::String => text(piece, name)?.into(),
            Shape::Boolean => (varint(piece, name)? != 0).into(),
            Shape::Integer(width) => integer(varint(piece, name)?, *width).into(),
            Shape::Number => match piece {
                Piece::Fixed64(bits) => floating(f64::from_bits(bits)),
                other => return Err(wrong(other, name)),
            },
            Shape::Bytes => STANDARD.encode(delimited(piece, name)?).into(),
            Shape::IntOrString => int_or_string(delimited(piece, name)?)?,
            Shape::Quantity => {
                let quantity = first_text(delimited(piece, name)?)?;
                quantity.unwrap_or_else(|| "0".to_owned()).into()
            }
            Shape::Time | Shape::MicroTime => moment(delimited(piece, name)?, of.shape())?,
            Shape::Duration => {
                let mut nanos = 0;
                let mut pieces = Pieces::new(delimited(piece, name)?);
                while let Some((number, piece)) = pieces.next()? {
                    if number == 1 {
                        nanos = varint(piece, name)?.cast_signed();
                    }
                }
                time::duration_text(nanos).into()
            }
            Shape::Any(Embedding::None) => Value::Null,
            Shape::Any(_) => self.embedded(delimited(piece, name)?, depth)?,
            Shape::SchemaOr { schema, instead } => {
                self.schema_or(delimited(piece, name)?, of.at(*schema), *instead, depth)?
            }
            Shape::Object { .. } => {
                let mut fields = match before {
                    Some(Value::Object(fields)) => fields,
                    _ => Map::new(),
                };
                self.object(delimited(piece, name)?, of, [0, 0], &mut fields, depth)?;
                fields.into()
            }
            // A list in a list or a map is a message with the items in field 1.
            Shape::List { items, .. } => {
                let mut list = Vec::new();
                let mut pieces = Pieces::new(delimited(piece, name)?);
                while let Some((number, piece)) = pieces.next()? {
                    if number == 1 {
                        list.push(self.value(piece, name, of.at(*items), None, deeper_than(depth)?)?);
                    }
                }
                list.into()
            }
            Shape::Map { values, .. } => {
                let mut map = Map::new();
                let mut pieces = Pieces::new(delimited(piece, name)?);
                while let Some((number, piece)) = pieces.next()? {
                    if number == 1 {
                        let (key, value) = self.entry(piece, name, of.at(*values), deeper_than(depth)?)?;
                        map.insert(key, value);
                    }
                }
                map.into()
            }
        })
    }

    /// `RawExtension` and its like: JSON as bytes in field 1, or a whole object in protobuf.
    fn embedded(&self, bytes: &[u8], depth: usize) -> Result<Value, Problem> {
        let mut raw: &[u8] = &[];
        let mut pieces = Pieces::new(bytes);
        while let Some((number, piece)) = pieces.next()? {
            if number == 1 {
                raw = delimited(piece, "Raw")?;
            }
        }
        if raw.is_empty() {
            return Ok(Value::Null);
        }
        if raw.starts_with(&MAGIC) {
            let nothing = Gvk::new("", "", "");
            return decode_at(raw, &nothing, self.lookup, deeper_than(depth)?).map_err(|error| error.problem);
        }
        let value: Value = serde_json::from_slice(raw).map_err(|error| {
            Problem::Value(format!("failed to parse RawExtension bytes as JSON: {error}"))
        })?;
        if depth + height(&value) > DEPTH_LIMIT { Err(Problem::TooDeep) } else { Ok(value) }
    }

    /// The odd fields of a JSON schema.
    fn schema_or(
        &self,
        bytes: &[u8],
        schema: TypeRef<'t>,
        instead: Instead,
        depth: usize,
    ) -> Result<Value, Problem> {
        let (mut found, mut flag, mut list) = (None, false, Vec::new());
        let schema_number = if instead == Instead::Boolean { 2 } else { 1 };
        let mut pieces = Pieces::new(bytes);
        while let Some((number, piece)) = pieces.next()? {
            if number == schema_number {
                found = Some(self.value(piece, "Schema", schema, found.take(), deeper_than(depth)?)?);
            } else if number <= 2 {
                match instead {
                    Instead::Boolean => flag = varint(piece, "Allows")? != 0,
                    Instead::List => {
                        list.push(self.value(piece, "JSONSchemas", schema, None, deeper_than(depth)?)?);
                    }
                    Instead::Texts => list.push(text(piece, "Property")?.into()),
                }
            }
        }
        Ok(match (instead, found) {
            (Instead::Boolean, Some(schema)) => schema,
            (Instead::Boolean, None) => flag.into(),
            (_, _) if !list.is_empty() => list.into(),
            (_, found) => found.unwrap_or(Value::Null),
        })
    }
}

/// True for a list that is a message of its own.
pub(super) fn is_message(of: TypeRef<'_>) -> bool {
    of.facts().is_some_and(|facts| facts.message)
}

/// One level further down, if that is allowed.
fn deeper_than(depth: usize) -> Result<usize, Problem> {
    if depth >= DEPTH_LIMIT { Err(Problem::TooDeep) } else { Ok(depth + 1) }
}

/// How many levels of nesting a value has.
fn height(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(height).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(height).max().unwrap_or(0),
        _ => 0,
    }
}

/// The place of a message inside the message at `within`.
fn deeper(within: [u32; 2], number: u32) -> Option<[u32; 2]> {
    match within {
        [0, _] => Some([number, 0]),
        [outer, 0] => Some([outer, number]),
        _ => None,
    }
}

/// True when a typed server would not write this value.
fn left_out(value: &Value, shape: &Shape, omit: Omit) -> bool {
    let zero = match shape {
        // Moments and embedded JSON that were not set.
        _ if value.is_null() => return true,
        Shape::Boolean => value == false,
        Shape::Integer(_) | Shape::Number => value.as_f64() == Some(0.0),
        Shape::String | Shape::Bytes => value == "",
        _ => false,
    };
    zero && omit == Omit::Zero
}

/// A number as Go writes it: without a fraction where there is none.
fn floating(number: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "whole numbers of this size are exact")]
    if number.fract() == 0.0 && number.abs() < 9e15 {
        return (number as i64).into();
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// The error for a field of another type; Go names its fields with a capital.
fn wrong(piece: Piece<'_>, name: &str) -> Problem {
    let mut letters = name.chars();
    let name = letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default();
    Problem::WrongWireType(piece.wire_type(), name)
}

fn delimited<'a>(piece: Piece<'a>, name: &str) -> Result<&'a [u8], Problem> {
    if let Piece::Bytes(bytes) = piece { Ok(bytes) } else { Err(wrong(piece, name)) }
}

fn varint(piece: Piece<'_>, name: &str) -> Result<u64, Problem> {
    if let Piece::Varint(value) = piece { Ok(value) } else { Err(wrong(piece, name)) }
}

/// Text that is not UTF-8 becomes what writing it as JSON would make of it.
fn text(piece: Piece<'_>, name: &str) -> Result<String, Problem> {
    Ok(String::from_utf8_lossy(delimited(piece, name)?).into_owned())
}

/// Negative numbers are sent as ten bytes whatever their width; what is too large is cut off.
fn integer(value: u64, width: Width) -> i64 {
    match width {
        #[expect(clippy::cast_possible_truncation, reason = "the reference implementation truncates too")]
        Width::W32 => i64::from(value as i32),
        Width::W64 => value.cast_signed(),
    }
}

/// The text in field 1.
fn first_text(bytes: &[u8]) -> Result<Option<String>, Problem> {
    let mut found = None;
    let mut pieces = Pieces::new(bytes);
    while let Some((number, piece)) = pieces.next()? {
        if number == 1 {
            found = Some(text(piece, "String_")?);
        }
    }
    Ok(found)
}

fn int_or_string(bytes: &[u8]) -> Result<Value, Problem> {
    let (mut is_text, mut number, mut words) = (false, 0, String::new());
    let mut pieces = Pieces::new(bytes);
    while let Some((place, piece)) = pieces.next()? {
        match place {
            1 => is_text = varint(piece, "Type")? == 1,
            2 => number = integer(varint(piece, "IntVal")?, Width::W32),
            3 => words = text(piece, "StrVal")?,
            _ => {}
        }
    }
    Ok(if is_text { words.into() } else { number.into() })
}

/// No bytes at all are no moment.
fn moment(bytes: &[u8], shape: &Shape) -> Result<Value, Problem> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut pieces = Pieces::new(bytes);
    while let Some((number, piece)) = pieces.next()? {
        match number {
            1 => seconds = varint(piece, "Seconds")?.cast_signed(),
            2 => nanos = integer(varint(piece, "Nanos")?, Width::W32),
            _ => {}
        }
    }
    let written = match shape {
        Shape::MicroTime => i32::try_from(nanos).ok().and_then(|nanos| time::micro_text(seconds, nanos)),
        _ => time::second_text(seconds),
    };
    written
        .map(Value::String)
        .ok_or_else(|| Problem::Value("Time.MarshalJSON: year outside of range [0,9999]".to_owned()))
}
