//! Types with a notation of their own.

use serde_json::Value;

use super::super::cursor::Token;
use super::super::{bytes, moment, normal};
use super::{Decoder, whole};
use crate::quantity::Quantity;
use crate::schema::{Instead, TypeRef, Width};

impl<'t> Decoder<'t, '_> {
    pub(super) fn bytes(&mut self, of: TypeRef<'t>, token: Token, old: Option<Value>) -> Option<Value> {
        match token {
            Token::Null => {
                self.cursor.skip();
                None
            }
            Token::Text => {
                let text = self.cursor.text_value();
                match bytes::decode(&text) {
                    Ok(decoded) => Some(Value::String(bytes::encode(&decoded))),
                    Err(message) => {
                        self.saved.get_or_insert(message);
                        old
                    }
                }
            }
            Token::List => {
                let mut decoded = Vec::new();
                self.cursor.open();
                while self.cursor.more() {
                    let token = self.cursor.token();
                    let text = self.cursor.skip();
                    match (token, text.parse::<u8>()) {
                        (Token::Number, Ok(byte)) => decoded.push(byte),
                        (Token::Null, _) => decoded.push(0),
                        (Token::Number, Err(_)) => {
                            self.wrong(&format!("number {text}"), "uint8", None);
                        }
                        _ => {
                            self.wrong(token.name(), "uint8", None);
                        }
                    }
                }
                Some(Value::String(bytes::encode(&decoded)))
            }
            _ => self.mismatch(of, token, old),
        }
    }

    pub(super) fn int_or_string(&mut self, token: Token, old: Option<Value>) -> Option<Value> {
        match token {
            Token::Text => Some(Value::String(self.cursor.text_value().into_owned())),
            Token::Null => {
                self.cursor.skip();
                // Becomes a number, and the one there was stays.
                Some(old.filter(Value::is_number).unwrap_or_else(|| 0.into()))
            }
            Token::Number => {
                let text = self.cursor.skip();
                whole(text, Width::W32).or_else(|| {
                    let message = self.type_message(&format!("number {text}"), "int32");
                    self.fail(message)
                })
            }
            _ => {
                self.cursor.skip();
                let message = self.type_message(token.name(), "int32");
                self.fail(message)
            }
        }
    }

    pub(super) fn quantity(&mut self, token: Token) -> Option<Value> {
        let raw = self.cursor.skip();
        if token == Token::Null {
            return None;
        }
        let text = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')).unwrap_or(raw);
        match text.trim().parse::<Quantity>() {
            Ok(quantity) => Some(Value::String(quantity.to_string())),
            Err(problem) => self.fail(problem.to_string()),
        }
    }

    pub(super) fn moment(&mut self, token: Token, micro: bool) -> Option<Value> {
        match token {
            Token::Null => {
                self.cursor.skip();
                None
            }
            Token::Text => {
                let text = self.cursor.text_value();
                match moment::normal(&text, micro) {
                    // A pointer to the zero moment is not the same as no pointer, and written as `null`.
                    Ok(moment) => Some(moment.map_or(Value::Null, Value::String)),
                    Err(message) => self.fail(message),
                }
            }
            _ => {
                self.cursor.skip();
                let message = self.type_message(token.name(), "string");
                self.fail(message)
            }
        }
    }

    pub(super) fn schema_or(&mut self, schema: TypeRef<'t>, instead: Instead, token: Token) -> Value {
        match (token, instead) {
            (Token::Object, _) => {
                self.on_its_own(|decoder| decoder.value(schema, false, None)).unwrap_or(Value::Null)
            }
            (Token::Boolean, Instead::Boolean) => Value::Bool(self.cursor.skip() == "true"),
            (_, Instead::Boolean) => {
                self.cursor.skip();
                self.fail("boolean or JSON schema expected".to_owned());
                Value::Bool(false)
            }
            (Token::List, Instead::List) => self
                .items(|decoder| decoder.value(schema, false, None).unwrap_or_else(|| normal::zero(schema))),
            (Token::List, Instead::Texts) => self.items(|decoder| match decoder.cursor.token() {
                Token::Text => Value::String(decoder.cursor.text_value().into_owned()),
                token => {
                    decoder.cursor.skip();
                    if token != Token::Null {
                        decoder.wrong(token.name(), "string", None);
                    }
                    Value::String(String::new())
                }
            }),
            _ => {
                // Anything else is taken for nothing.
                self.cursor.skip();
                Value::Null
            }
        }
    }

    /// The items of a list of schemas or texts; an empty one is nothing.
    fn items(&mut self, mut item: impl FnMut(&mut Self) -> Value) -> Value {
        let list = self.on_its_own(|decoder| {
            let mut list = Vec::new();
            decoder.cursor.open();
            while decoder.cursor.more() {
                list.push(item(decoder));
            }
            list
        });
        if list.is_empty() { Value::Null } else { Value::Array(list) }
    }
}
