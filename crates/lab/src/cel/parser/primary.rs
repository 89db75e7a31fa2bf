//! What an expression is made of: literals, names, calls, lists, maps and records.

use super::super::{
    ast::{Entry, Expr, Item, Kind, Literal, RecordField},
    escapes::unescape,
    lexer::Token,
    macros,
    types::is_reserved,
};
use super::{Lost, Parser, Read, STARTS, starts_expression};

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Read<Expr> {
        let at = self.at();
        match self.token() {
            Token::Symbol("(") => self.bracketed(|parser| {
                parser.step();
                let inner = parser.expression()?;
                parser.expect(")", |token| token == Token::End)?;
                Ok(inner)
            }),
            Token::Symbol("[") => self.bracketed(Self::list),
            Token::Symbol("{") => self.bracketed(Self::map),
            Token::Symbol(".") => {
                self.step();
                if self.token() == Token::Ident {
                    return self.named(at, true);
                }
                self.no_alternative(1);
                Err(Lost)
            }
            Token::Ident => self.named(at, false),
            Token::Symbol("true") => Ok(self.literal(at, Literal::Bool(true))),
            Token::Symbol("false") => Ok(self.literal(at, Literal::Bool(false))),
            Token::Symbol("null") => Ok(self.literal(at, Literal::Null)),
            Token::Symbol("-") => {
                self.step();
                Ok(self.number(at, true))
            }
            Token::Int | Token::Uint | Token::Float => Ok(self.number(at, false)),
            Token::String | Token::Bytes => Ok(self.text(at)),
            _ => self.mismatched(&format!("{{'[', '{{', '(', '.', '-', '!', {STARTS}")),
        }
    }

    pub(super) fn bracketed<T>(&mut self, inside: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.open += 1;
        let result = inside(self);
        self.open -= 1;
        result
    }

    pub(super) fn literal(&mut self, at: u32, literal: Literal) -> Expr {
        self.step();
        self.node(at, Kind::Literal(literal))
    }

    pub(super) fn number(&mut self, at: u32, negative: bool) -> Expr {
        let (token, text) = (self.token(), self.word().text.clone());
        self.step();
        let sign = if negative { "-" } else { "" };
        let (digits, radix) = match text.strip_prefix("0x") {
            Some(digits) => (digits, 16),
            None => (text.as_str(), 10),
        };
        let (literal, what) = match token {
            Token::Int => {
                (i64::from_str_radix(&format!("{sign}{digits}"), radix).ok().map(Literal::Int), "int")
            }
            Token::Uint => (
                u64::from_str_radix(digits.trim_end_matches(['u', 'U']), radix).ok().map(Literal::Uint),
                "uint",
            ),
            _ => {
                let number = format!("{sign}{text}").parse::<f64>().ok().filter(|number| number.is_finite());
                (number.map(Literal::Double), "double")
            }
        };
        match literal {
            Some(literal) => self.node(at, Kind::Literal(literal)),
            None => self.broken(at, format!("invalid {what} literal")),
        }
    }

    pub(super) fn text(&mut self, at: u32) -> Expr {
        let (token, text) = (self.token(), self.word().text.clone());
        self.step();
        let literal = if token == Token::Bytes {
            unescape(&text[1..], true).map(|bytes| Literal::Bytes(bytes.into()))
        } else {
            unescape(&text, false).and_then(|bytes| {
                String::from_utf8(bytes)
                    .map(|text| Literal::String(text.into()))
                    .map_err(|_| "invalid unicode code point")
            })
        };
        match literal {
            Ok(literal) => self.node(at, Kind::Literal(literal)),
            Err(problem) => self.broken(at, problem),
        }
    }

    /// A place where something is wrong that does not keep the rest from being read.
    pub(crate) fn broken(&mut self, at: u32, problem: impl Into<String>) -> Expr {
        self.complaints.add(at, problem);
        self.node(at, Kind::Broken)
    }

    /// A name: a variable, a call or the start of a record.
    pub(super) fn named(&mut self, start: u32, rooted: bool) -> Read<Expr> {
        let name_at = self.at();
        let name = self.word().text.clone();
        self.step();
        if let Some(end) = self.record_ahead() {
            return self.bracketed(|parser| parser.record(name, rooted, end));
        }
        let full = if rooted { format!(".{name}") } else { name.clone() };
        let reserved = is_reserved(&name);
        if self.is("(") {
            let at = self.step();
            let args = self.bracketed(Self::arguments)?;
            if reserved {
                return Ok(self.broken(start, format!("reserved identifier: {name}")));
            }
            return Ok(self.global_call(at, full, args));
        }
        if reserved {
            return Ok(self.broken(start, format!("reserved identifier: {name}")));
        }
        Ok(self.node(name_at, Kind::Ident(full)))
    }

    /// The place of the brace, when names joined by dots lead up to one.
    pub(super) fn record_ahead(&self) -> Option<usize> {
        let mut place = self.place;
        loop {
            match self.words.get(place)?.token {
                Token::Symbol("{") => return Some(place),
                Token::Symbol(".") if self.words.get(place + 1)?.token == Token::Ident => place += 2,
                _ => return None,
            }
        }
    }

    pub(super) fn record(&mut self, first: String, rooted: bool, end: usize) -> Read<Expr> {
        let mut name = if rooted { format!(".{first}") } else { first };
        while self.place < end {
            self.step();
            name.push('.');
            name.push_str(&self.word().text);
            self.step();
        }
        let at = self.step();
        let mut fields = Vec::new();
        if !self.is("}") && !self.is(",") {
            if !matches!(self.token(), Token::Ident | Token::EscapedIdent | Token::Symbol("?")) {
                return self.mismatched("{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}");
            }
            loop {
                let optional = self.is("?");
                if optional {
                    self.step();
                }
                let field = match self.token() {
                    Token::Ident | Token::EscapedIdent => self.word().text.trim_matches('`').to_owned(),
                    _ => return self.mismatched("{IDENTIFIER, ESC_IDENTIFIER}"),
                };
                self.step();
                let at = self.expect(":", starts_expression)?;
                let value = self.expression()?;
                fields.push(RecordField { at, name: field, value, optional });
                if !(self.is(",")
                    && matches!(self.next_token(), Token::Ident | Token::EscapedIdent | Token::Symbol("?")))
                {
                    break;
                }
                self.step();
            }
        }
        self.close("}")?;
        Ok(self.node(at, Kind::Record { name, fields }))
    }

    /// The end of a list or map, behind a comma or not.
    pub(super) fn close(&mut self, symbol: &'static str) -> Read<()> {
        if self.is(",") {
            self.step();
            return self.expect(symbol, |token| token == Token::End).map(|_| ());
        }
        if self.is(symbol) {
            self.step();
            return Ok(());
        }
        let expected = format!("{{'{symbol}', ','}}");
        if matches!(self.next_token(), Token::Symbol(next) if next == symbol || next == ",") {
            self.extraneous(&expected);
            return self.close(symbol);
        }
        self.mismatched(&expected)
    }

    pub(super) fn list(&mut self) -> Read<Expr> {
        let at = self.step();
        let mut items = Vec::new();
        if !self.is("]") && !self.is(",") {
            if !self.is("?") {
                self.primary_ahead(&format!("{{'[', ']', '{{', '(', '.', ',', '-', '!', '?', {STARTS}"))?;
            }
            loop {
                let optional = self.is("?");
                if optional {
                    self.step();
                }
                items.push(Item { value: self.expression()?, optional });
                let another = starts_expression(self.next_token()) || self.next_token() == Token::Symbol("?");
                if !(self.is(",") && another) {
                    break;
                }
                self.step();
            }
        }
        self.close("]")?;
        Ok(self.node(at, Kind::List { items }))
    }

    pub(super) fn map(&mut self) -> Read<Expr> {
        let at = self.step();
        let mut entries = Vec::new();
        if !self.is("}") && !self.is(",") {
            if !self.is("?") {
                self.primary_ahead(&format!("{{'[', '{{', '}}', '(', '.', ',', '-', '!', '?', {STARTS}"))?;
            }
            loop {
                let optional = self.is("?");
                if optional {
                    self.step();
                }
                let key = self.expression()?;
                self.expect(":", starts_expression)?;
                let value = self.expression()?;
                entries.push(Entry { key, value, optional });
                let another = starts_expression(self.next_token()) || self.next_token() == Token::Symbol("?");
                if !(self.is(",") && another) {
                    break;
                }
                self.step();
            }
        }
        self.close("}")?;
        Ok(self.node(at, Kind::Map { entries }))
    }

    /// A call of a function by its name.
    pub(crate) fn call(&mut self, at: u32, function: &str, args: Vec<Expr>) -> Expr {
        self.node(at, Kind::Call { function: function.to_owned(), target: None, args })
    }

    pub(super) fn global_call(&mut self, at: u32, function: String, args: Vec<Expr>) -> Expr {
        match macros::expand_global(self, at, &function, args) {
            Ok(expanded) => expanded,
            Err(args) => self.node(at, Kind::Call { function, target: None, args }),
        }
    }

    pub(super) fn member_call(&mut self, at: u32, function: String, target: Expr, args: Vec<Expr>) -> Expr {
        match macros::expand_member(self, at, &function, target, args) {
            Ok(expanded) => expanded,
            Err((target, args)) => {
                self.node(at, Kind::Call { function, target: Some(Box::new(target)), args })
            }
        }
    }
}
