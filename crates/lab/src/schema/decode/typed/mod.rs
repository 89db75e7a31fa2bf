//! Decoding a JSON text into the form of a type, the way a typed server does.
//!
//! Fields that are not known are dropped and remembered; a value of the wrong type fails the whole, with the first
//! one told; a field that comes twice is merged into what the first one said. What comes out has the form a typed
//! server writes: see [`super::normal`].

mod leaves;

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::cursor::{Cursor, Token, any_number, raw_number};
use super::normal;
use super::words::{go_struct, go_type, quoted};
use crate::schema::{Field, Omit, Shape, TypeId, TypeRef, Width};

/// How many strict problems are told.
const MOST_PROBLEMS: usize = 100;

/// A text that is being decoded.
pub(super) struct Decoder<'t, 'a> {
    cursor: Cursor<'a>,
    /// Where we are in the object.
    trail: Vec<Step<'t>>,
    /// Unknown and repeated fields, in the order of the text.
    pub(super) problems: Vec<String>,
    /// False inside values that are decoded on their own terms.
    strict: bool,
    /// True inside values that are kept as they are written.
    raw: bool,
    /// The first value of a wrong type.
    saved: Option<String>,
    /// The first failure that ends decoding, and goes before all others.
    fatal: Option<String>,
}

#[derive(Clone, Copy)]
enum Step<'t> {
    Field(TypeRef<'t>, &'t Field),
    /// The key of a map, by its place in the text.
    Key(usize),
    Index(usize),
}

impl<'t, 'a> Decoder<'t, 'a> {
    /// The text must be JSON.
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            cursor: Cursor::new(text),
            trail: Vec::new(),
            problems: Vec::new(),
            strict: true,
            raw: false,
            saved: None,
            fatal: None,
        }
    }

    /// The whole as a value of this type.
    pub(super) fn typed(&mut self, of: TypeRef<'t>) -> Result<Value, String> {
        let value = self.value(of, false, None).unwrap_or_else(|| normal::zero(of));
        self.finish(value)
    }

    /// The whole as it is.
    pub(super) fn untyped(&mut self) -> Result<Value, String> {
        let value = self.any();
        self.finish(value)
    }

    fn finish(&mut self, value: Value) -> Result<Value, String> {
        match self.fatal.take().or_else(|| self.saved.take()) {
            Some(message) => Err(message),
            None => Ok(value),
        }
    }

    /// Decodes what follows on top of what was there. None means nothing is there: `null` for whatever can be
    /// missing.
    fn value(&mut self, of: TypeRef<'t>, pointer: bool, old: Option<Value>) -> Option<Value> {
        let token = self.cursor.token();
        if token == Token::Null && pointer {
            self.cursor.skip();
            return None;
        }
        match of.shape() {
            Shape::Object { fields, .. } => self.object(of, fields, token, old),
            Shape::List { items, .. } => self.list(of, *items, token, old),
            Shape::Map { values, .. } => self.map(of, *values, token, old),
            Shape::Bytes => self.bytes(of, token, old),
            Shape::Any(_) if token == Token::Null => {
                self.cursor.skip();
                old
            }
            Shape::Any(_) => {
                let before = std::mem::replace(&mut self.raw, true);
                let value = self.leniently(Self::any);
                self.raw = before;
                Some(value)
            }
            Shape::SchemaOr { schema, instead } => Some(self.schema_or(of.at(*schema), *instead, token)),
            Shape::IntOrString => self.int_or_string(token, old),
            Shape::Quantity => self.quantity(token),
            Shape::Time => self.moment(token, false),
            Shape::MicroTime => self.moment(token, true),
            Shape::Duration | Shape::String => match token {
                Token::Text => Some(Value::String(self.cursor.text_value().into_owned())),
                _ => self.mismatch(of, token, old),
            },
            Shape::Boolean => match token {
                Token::Boolean => Some(Value::Bool(self.cursor.skip() == "true")),
                _ => self.mismatch(of, token, old),
            },
            Shape::Integer(width) => match token {
                Token::Number => {
                    let text = self.cursor.skip();
                    whole(text, *width).or_else(|| self.wrong(&format!("number {text}"), &go_type(of), old))
                }
                _ => self.mismatch(of, token, old),
            },
            Shape::Number => match token {
                Token::Number => {
                    let text = self.cursor.skip();
                    any_number(text).or_else(|| self.wrong(&format!("number {text}"), &go_type(of), old))
                }
                _ => self.mismatch(of, token, old),
            },
        }
    }

    /// A value that does not fit. `null` fits everything, and changes nothing.
    fn mismatch(&mut self, of: TypeRef<'t>, token: Token, old: Option<Value>) -> Option<Value> {
        self.cursor.skip();
        if token == Token::Null { old } else { self.wrong(token.name(), &go_type(of), old) }
    }

    fn wrong(&mut self, what: &str, go_type: &str, old: Option<Value>) -> Option<Value> {
        if self.saved.is_none() {
            self.saved = Some(self.type_message(what, go_type));
        }
        old
    }

    fn fail(&mut self, message: String) -> Option<Value> {
        self.fatal.get_or_insert(message);
        None
    }

    /// `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32`.
    fn type_message(&self, what: &str, go_type: &str) -> String {
        let mut path = String::new();
        let mut structure = "";
        for step in &self.trail {
            let Step::Field(of, field) = step else { continue };
            structure = go_struct(*of);
            let embedded = of.facts().map(|facts| facts.embedded.as_slice()).unwrap_or_default();
            for name in embedded.iter().filter(|(name, _)| *name == field.name).map(|(_, around)| around) {
                path.push('.');
                path.push_str(name);
            }
            path.push('.');
            path.push_str(&field.name);
        }
        if path.is_empty() {
            format!("json: cannot unmarshal {what} into Go value of type {go_type}")
        } else {
            format!("json: cannot unmarshal {what} into Go struct field {structure}{path} of type {go_type}")
        }
    }

    /// Remembers a problem that only matters to strict validation.
    fn report(&mut self, what: &str, name: &str) {
        if !self.strict || self.problems.len() >= MOST_PROBLEMS {
            return;
        }
        let mut path = String::new();
        for step in &self.trail {
            match step {
                Step::Index(index) => {
                    let _ = write!(path, "[{index}]");
                    continue;
                }
                _ if !path.is_empty() => path.push('.'),
                _ => {}
            }
            match step {
                Step::Field(_, field) => path.push_str(&field.name),
                Step::Key(at) => path.push_str(&self.cursor.back_at(*at).text_value()),
                Step::Index(_) => {}
            }
        }
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        let problem = format!("{what} {}", quoted(&path));
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    fn object(
        &mut self,
        of: TypeRef<'t>,
        fields: &'t [Field],
        token: Token,
        old: Option<Value>,
    ) -> Option<Value> {
        if token != Token::Object {
            return self.mismatch(of, token, old);
        }
        let mut object = as_object(old);
        let mut seen = Seen::default();
        self.cursor.open();
        while self.cursor.more() {
            let key = self.cursor.key();
            let Ok(place) = fields.binary_search_by(|field| field.name.as_str().cmp(&key)) else {
                self.report("unknown field", &key);
                self.cursor.skip();
                continue;
            };
            let field = &fields[place];
            if seen.again(place) {
                self.report("duplicate field", &key);
            }
            self.trail.push(Step::Field(of, field));
            let pointer = matches!(field.omit, Omit::Missing | Omit::Null);
            let before = object.remove(&field.name);
            if let Some(value) = self.value(of.at(field.of), pointer, before)
                && !(field.omit == Omit::Zero && normal::is_zero(&value))
            {
                object.insert(field.name.clone(), value);
            }
            self.trail.pop();
        }
        normal::fill(of, fields, &mut object);
        Some(Value::Object(object))
    }

    fn list(&mut self, of: TypeRef<'t>, items: TypeId, token: Token, old: Option<Value>) -> Option<Value> {
        match token {
            Token::List => {}
            Token::Null => {
                self.cursor.skip();
                return None;
            }
            _ => return self.mismatch(of, token, old),
        }
        let item = of.at(items);
        let mut before = match old {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        }
        .into_iter();
        let mut list = Vec::new();
        self.cursor.open();
        while self.cursor.more() {
            self.trail.push(Step::Index(list.len()));
            let value = self.value(item, false, before.next());
            self.trail.pop();
            list.push(value.unwrap_or_else(|| normal::zero(item)));
        }
        Some(Value::Array(list))
    }

    fn map(&mut self, of: TypeRef<'t>, values: TypeId, token: Token, old: Option<Value>) -> Option<Value> {
        match token {
            Token::Object => {}
            Token::Null => {
                self.cursor.skip();
                return None;
            }
            _ => return self.mismatch(of, token, old),
        }
        let of_value = of.at(values);
        let mut map = as_object(old);
        let mut seen: Vec<String> = Vec::new();
        let merging = !map.is_empty();
        self.cursor.open();
        while self.cursor.more() {
            let place = self.cursor.place();
            let key = self.cursor.key().into_owned();
            let again = if merging { seen.contains(&key) } else { map.contains_key(&key) };
            if again {
                self.report("duplicate field", &key);
            } else if merging {
                seen.push(key.clone());
            }
            self.trail.push(Step::Key(place));
            let value = self.value(of_value, false, None);
            self.trail.pop();
            map.insert(key, value.unwrap_or_else(|| normal::zero_in_map(of_value)));
        }
        Some(Value::Object(map))
    }

    /// Decodes a part whose type does so itself: nothing strict, and whatever is wrong inside ends it all.
    fn on_its_own<T>(&mut self, decode: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.saved.take();
        let value = self.leniently(decode);
        if let Some(message) = self.saved.take() {
            self.fatal.get_or_insert(message);
        }
        self.saved = before;
        value
    }

    fn leniently<T>(&mut self, decode: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.strict, false);
        let value = decode(self);
        self.strict = before;
        value
    }

    /// Any JSON. Of fields that come twice the last one counts.
    fn any(&mut self) -> Value {
        match self.cursor.token() {
            Token::Object => {
                let mut object = Map::new();
                self.cursor.open();
                while self.cursor.more() {
                    let place = self.cursor.place();
                    let key = self.cursor.key().into_owned();
                    if self.strict && object.contains_key(&key) {
                        self.report("duplicate field", &key);
                    }
                    self.trail.push(Step::Key(place));
                    let value = self.any();
                    self.trail.pop();
                    object.insert(key, value);
                }
                Value::Object(object)
            }
            Token::List => {
                let mut list = Vec::new();
                self.cursor.open();
                while self.cursor.more() {
                    self.trail.push(Step::Index(list.len()));
                    list.push(self.any());
                    self.trail.pop();
                }
                Value::Array(list)
            }
            Token::Text => Value::String(self.cursor.text_value().into_owned()),
            Token::Boolean => Value::Bool(self.cursor.skip() == "true"),
            Token::Number => {
                let text = self.cursor.skip();
                if self.raw { raw_number(text) } else { any_number(text) }
                    .or_else(|| self.wrong(&format!("number {text}"), "float64", None))
                    .unwrap_or(Value::Null)
            }
            Token::Null => {
                self.cursor.skip();
                Value::Null
            }
        }
    }
}

/// The fields of an object that came already, by their place in the type.
#[derive(Default)]
struct Seen {
    first: u128,
    /// No type has that many fields; should one, it is told right all the same.
    rest: Vec<usize>,
}

impl Seen {
    /// True when the field was there before.
    fn again(&mut self, place: usize) -> bool {
        if place >= 128 {
            let again = self.rest.contains(&place);
            self.rest.push(place);
            return again;
        }
        let bit = 1_u128 << place;
        let again = self.first & bit != 0;
        self.first |= bit;
        again
    }
}

fn as_object(old: Option<Value>) -> Map<String, Value> {
    match old {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

fn whole(text: &str, width: Width) -> Option<Value> {
    match width {
        Width::W32 => text.parse::<i32>().ok().map(Value::from),
        Width::W64 => text.parse::<i64>().ok().map(Value::from),
    }
}
