//! From the text of an expression to its tree.

mod primary;

use super::{
    ast::{Expr, Kind, Literal, op},
    errors::Complaints,
    lexer::{Token, Word, words},
};

/// How deep expressions may nest.
const DEPTH_LIMIT: usize = 250;
/// How many characters an expression may have.
const SIZE_LIMIT: usize = 100_000;

/// What an expression can start with, as complaints list it.
const STARTS: &str = "'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// A parsed expression and how many nodes it has.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) expr: Expr,
    pub(crate) nodes: usize,
}

/// Parses an expression; the error is all that is wrong with it.
pub(crate) fn parse(source: &[char]) -> Result<Parsed, Complaints> {
    let mut parser = Parser::new(source);
    if source.len() > SIZE_LIMIT {
        let problem =
            format!("expression code point size exceeds limit: size: {}, limit {SIZE_LIMIT}", source.len());
        parser.complaints.about_whole(problem);
        return Err(parser.complaints);
    }
    let (words, unreadable) = words(source);
    for (at, text) in unreadable {
        parser.complaints.add(at, format!("Syntax error: token recognition error at: '{text}'"));
    }
    parser.words = words;
    let expr = parser.expression().and_then(|expr| parser.expect_end().map(|()| expr));
    match expr {
        Ok(expr) if parser.complaints.is_empty() => Ok(Parsed { expr, nodes: parser.nodes }),
        _ => Err(parser.complaints),
    }
}

/// Nothing more can be read; the complaint is noted.
pub(crate) struct Lost;

type Read<T> = Result<T, Lost>;

pub(crate) struct Parser<'s> {
    source: &'s [char],
    words: Vec<Word>,
    place: usize,
    depth: usize,
    nodes: usize,
    /// How deep the tree below each node is.
    depths: Vec<usize>,
    too_deep: bool,
    /// How deep comparisons and calculations nest where they are read.
    nested: usize,
    /// How many brackets are open.
    open: usize,
    /// No more complaints until a word fits again.
    recovering: bool,
    pub(crate) complaints: Complaints,
}

impl<'s> Parser<'s> {
    fn new(source: &'s [char]) -> Self {
        Self {
            source,
            words: Vec::new(),
            place: 0,
            depth: 0,
            nodes: 0,
            depths: Vec::new(),
            too_deep: false,
            nested: 0,
            open: 0,
            recovering: false,
            complaints: Complaints::default(),
        }
    }

    /// A new node.
    pub(crate) fn node(&mut self, at: u32, kind: Kind) -> Expr {
        let id = self.nodes;
        self.nodes += 1;
        let depth = self.depth_of(&kind);
        self.depths.push(depth);
        if depth > DEPTH_LIMIT && !self.too_deep {
            self.too_deep = true;
            self.complaints.about_whole("max recursion depth exceeded");
        }
        Expr { id, at, kind }
    }

    /// How many operators, calls and members are nested in a node.
    fn depth_of(&self, kind: &Kind) -> usize {
        let of = |expr: &Expr| self.depths.get(expr.id).copied().unwrap_or(0);
        match kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Broken => 0,
            Kind::Select { operand, .. } => 1 + of(operand),
            Kind::Call { function, target, args } => {
                let inside = target.as_deref().into_iter().chain(args).map(of).max().unwrap_or(0);
                let counts =
                    target.is_some() || (function.contains('_') && function != op::AND && function != op::OR);
                inside + usize::from(counts)
            }
            Kind::List { items } => items.iter().map(|item| of(&item.value)).max().unwrap_or(0),
            Kind::Map { entries } => {
                entries.iter().map(|entry| of(&entry.key).max(of(&entry.value))).max().unwrap_or(0)
            }
            Kind::Record { fields, .. } => fields.iter().map(|field| of(&field.value)).max().unwrap_or(0),
            Kind::Fold(fold) => {
                of(&fold.range).max(of(&fold.start)).max(of(&fold.step)).max(of(&fold.result))
            }
        }
    }

    /// The same tree again, with nodes of its own.
    pub(crate) fn copy(&mut self, expr: &Expr) -> Expr {
        let mut copy = expr.clone();
        self.renumber(&mut copy);
        copy
    }

    fn renumber(&mut self, expr: &mut Expr) {
        let depth = self.depths.get(expr.id).copied().unwrap_or(0);
        expr.id = self.nodes;
        self.nodes += 1;
        self.depths.push(depth);
        match &mut expr.kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Broken => {}
            Kind::Select { operand, .. } => self.renumber(operand),
            Kind::Call { target, args, .. } => {
                for target in target.iter_mut() {
                    self.renumber(target);
                }
                for arg in args.iter_mut() {
                    self.renumber(arg);
                }
            }
            Kind::List { items } => items.iter_mut().for_each(|item| self.renumber(&mut item.value)),
            Kind::Map { entries } => entries.iter_mut().for_each(|entry| {
                self.renumber(&mut entry.key);
                self.renumber(&mut entry.value);
            }),
            Kind::Record { fields, .. } => {
                for field in fields.iter_mut() {
                    self.renumber(&mut field.value);
                }
            }
            Kind::Fold(fold) => {
                let parts =
                    [&mut fold.range, &mut fold.start, &mut fold.condition, &mut fold.step, &mut fold.result];
                for part in parts {
                    self.renumber(part);
                }
            }
        }
    }

    fn word(&self) -> &Word {
        // The last word is the end, and nobody goes past it.
        &self.words[self.place.min(self.words.len() - 1)]
    }

    fn token(&self) -> Token {
        self.word().token
    }

    fn next_token(&self) -> Token {
        self.words[(self.place + 1).min(self.words.len() - 1)].token
    }

    fn at(&self) -> u32 {
        self.word().at
    }

    fn is(&self, symbol: &'static str) -> bool {
        self.token() == Token::Symbol(symbol)
    }

    fn step(&mut self) -> u32 {
        self.recovering = false;
        let at = self.at();
        if self.place < self.words.len() - 1 {
            self.place += 1;
        }
        at
    }

    fn complain(&mut self, message: &str) {
        if self.recovering {
            return;
        }
        let at = self.at();
        self.complaints.add(at, format!("Syntax error: {message}"));
    }

    fn mismatched<T>(&mut self, expected: &str) -> Read<T> {
        let message = format!("mismatched input '{}' expecting {expected}", self.word().text);
        self.complain(&message);
        Err(Lost)
    }

    fn extraneous(&mut self, expected: &str) {
        let message = format!("extraneous input '{}' expecting {expected}", self.word().text);
        self.complain(&message);
        self.step();
    }

    fn expect_end(&mut self) -> Read<()> {
        if self.token() == Token::End {
            return Ok(());
        }
        if self.next_token() == Token::End {
            self.extraneous("<EOF>");
            return Ok(());
        }
        self.mismatched("<EOF>")
    }

    /// One particular symbol. A word too many or the symbol missing is reported, and reading goes on.
    fn expect(&mut self, symbol: &'static str, may_follow: impl Fn(Token) -> bool) -> Read<u32> {
        if self.is(symbol) {
            return Ok(self.step());
        }
        if self.next_token() == Token::Symbol(symbol) {
            self.extraneous(&format!("'{symbol}'"));
            return Ok(self.step());
        }
        if may_follow(self.token()) {
            let message = format!("missing '{symbol}' at '{}'", self.word().text);
            self.complain(&message);
            return Ok(self.at());
        }
        self.mismatched(&format!("'{symbol}'"))
    }

    fn enter(&mut self) -> Read<()> {
        self.depth += 1;
        self.not_deeper(self.depth)
    }

    fn not_deeper(&mut self, depth: usize) -> Read<()> {
        if depth > DEPTH_LIMIT {
            self.complaints.about_whole(format!("expression recursion limit exceeded: {DEPTH_LIMIT}"));
            return Err(Lost);
        }
        if self.too_deep { Err(Lost) } else { Ok(()) }
    }

    /// An operand of comparisons or calculations, which counts as one more level.
    fn level(&mut self, operand: fn(&mut Self) -> Read<Expr>) -> Read<Expr> {
        self.nested += 1;
        self.not_deeper(self.nested)?;
        let result = operand(self)?;
        self.nested -= 1;
        Ok(result)
    }

    fn expression(&mut self) -> Read<Expr> {
        self.enter()?;
        let condition = self.logical(op::OR)?;
        let result = if self.is("?") {
            let at = self.step();
            let yes = self.logical(op::OR)?;
            self.expect(":", starts_expression)?;
            let no = self.expression()?;
            self.call(at, op::CONDITIONAL, vec![condition, yes, no])
        } else {
            condition
        };
        self.depth -= 1;
        Ok(result)
    }

    /// Terms joined by `||`, or by `&&`.
    fn logical(&mut self, function: &'static str) -> Read<Expr> {
        let (symbol, is_or) = if function == op::OR { ("||", true) } else { ("&&", false) };
        let term = |parser: &mut Self| if is_or { parser.logical(op::AND) } else { parser.relation() };
        let first = term(self)?;
        if !self.is(symbol) {
            return Ok(first);
        }
        let mut at = self.at();
        let mut terms = vec![first];
        while self.is(symbol) {
            at = self.step();
            terms.push(term(self)?);
        }
        Ok(self.call(at, function, terms))
    }

    fn relation(&mut self) -> Read<Expr> {
        let mut left = self.level(Self::sum)?;
        loop {
            let function = match self.token() {
                Token::Symbol("<") => op::LESS,
                Token::Symbol("<=") => op::LESS_EQUALS,
                Token::Symbol(">") => op::GREATER,
                Token::Symbol(">=") => op::GREATER_EQUALS,
                Token::Symbol("==") => op::EQUALS,
                Token::Symbol("!=") => op::NOT_EQUALS,
                Token::Symbol("in") => op::IN,
                _ => return Ok(left),
            };
            let at = self.step();
            let right = self.level(Self::sum)?;
            left = self.call(at, function, vec![left, right]);
        }
    }

    fn sum(&mut self) -> Read<Expr> {
        let mut left = self.product()?;
        loop {
            let function = match self.token() {
                Token::Symbol("+") => op::ADD,
                Token::Symbol("-") => op::SUBTRACT,
                _ => return Ok(left),
            };
            let at = self.step();
            let right = self.level(Self::product)?;
            left = self.call(at, function, vec![left, right]);
        }
    }

    fn product(&mut self) -> Read<Expr> {
        let mut left = self.unary()?;
        loop {
            let function = match self.token() {
                Token::Symbol("*") => op::MULTIPLY,
                Token::Symbol("/") => op::DIVIDE,
                Token::Symbol("%") => op::MODULO,
                _ => return Ok(left),
            };
            let at = self.step();
            let right = self.level(Self::unary)?;
            left = self.call(at, function, vec![left, right]);
        }
    }

    fn unary(&mut self) -> Read<Expr> {
        self.primary_ahead(&format!("{{'[', '{{', '(', '.', '-', '!', {STARTS}"))?;
        if self.is("-") && matches!(self.next_token(), Token::Int | Token::Float) {
            return self.member();
        }
        for (symbol, function) in [("!", op::NOT), ("-", op::NEGATE)] {
            if self.is(symbol) {
                let at = self.at();
                let mut count = 0;
                while self.is(symbol) {
                    self.step();
                    count += 1;
                }
                let operand = self.operand(symbol)?;
                return Ok(if count % 2 == 0 { operand } else { self.call(at, function, vec![operand]) });
            }
        }
        self.member()
    }

    /// What follows `!` or `-`.
    fn operand(&mut self, operator: &str) -> Read<Expr> {
        let expected = format!("{{'[', '{{', '(', '.', '-', '!', {STARTS}");
        let starts = starts_expression(self.token()) && !self.is("!") && !self.is("-");
        if starts {
            return self.member();
        }
        if operator == "!" && !self.is("-") {
            let (at, text) = (self.at(), self.word().text.clone());
            self.complain(&format!("extraneous input '{text}' expecting {expected}"));
            self.recovering = true;
            return Ok(self.node(at, Kind::Broken));
        }
        if operator == "!" {
            return self.member();
        }
        self.no_alternative(1);
        if self.is("!") {
            return Err(Lost);
        }
        self.primary_ahead(&expected)?;
        self.member()
    }

    /// Nothing fits what is written from some words back up to here.
    fn no_alternative(&mut self, back: usize) {
        let start = self.words[self.place.saturating_sub(back)].at as usize;
        let word = self.word();
        let end =
            if word.token == Token::End { start + 1 } else { word.at as usize + word.text.chars().count() };
        let text: String = self.source[start..end].iter().collect();
        self.complain(&format!("no viable alternative at input '{text}'"));
    }

    /// Goes on behind something unreadable, with the next word that can follow it.
    fn recover(&mut self) -> Expr {
        let at = self.at();
        let open = self.open > 0;
        while !match self.token() {
            Token::End => true,
            Token::Symbol(symbol) => match symbol {
                ")" | "]" | "}" | "," | ":" => open,
                "(" | "{" | "!" | "true" | "false" | "null" => false,
                _ => true,
            },
            _ => false,
        } {
            self.step();
        }
        self.recovering = true;
        self.node(at, Kind::Broken)
    }

    /// Makes sure that an expression starts here; one word too many is skipped.
    fn primary_ahead(&mut self, expected: &str) -> Read<()> {
        if starts_expression(self.token()) {
            return Ok(());
        }
        if self.token() != Token::End && starts_expression(self.next_token()) {
            self.extraneous(expected);
            return Ok(());
        }
        self.mismatched(expected)
    }

    fn member(&mut self) -> Read<Expr> {
        let mut operand = self.primary()?;
        while !self.too_deep {
            if self.is(".") {
                operand = self.select(operand)?;
            } else if self.is("[") {
                operand = self.index(operand)?;
            } else {
                return Ok(operand);
            }
        }
        Err(Lost)
    }

    fn select(&mut self, operand: Expr) -> Read<Expr> {
        let at = self.step();
        let optional = self.is("?");
        if optional {
            self.step();
        }
        let name_at = self.at();
        let field = match self.token() {
            Token::Ident => self.word().text.clone(),
            Token::EscapedIdent => self.word().text.trim_matches('`').to_owned(),
            Token::Symbol(word @ ("true" | "false" | "null")) if !optional => {
                self.complain(&format!("mismatched input '{word}' expecting IDENTIFIER"));
                return Err(Lost);
            }
            _ if optional => {
                let lost = self.mismatched("{IDENTIFIER, ESC_IDENTIFIER}");
                self.complaints.add(name_at, "unsupported ident kind");
                return lost;
            }
            _ => {
                self.no_alternative(1);
                return Ok(self.recover());
            }
        };
        let simple = self.token() == Token::Ident;
        self.step();
        if optional {
            let name = self.node(name_at, Kind::Literal(Literal::String(field.into())));
            return Ok(self.call(at, op::OPTIONAL_SELECT, vec![operand, name]));
        }
        if simple && self.is("(") {
            let at = self.step();
            let args = self.bracketed(Self::arguments)?;
            return Ok(self.member_call(at, field, operand, args));
        }
        Ok(self.node(at, Kind::Select { operand: Box::new(operand), field, test: false }))
    }

    fn index(&mut self, operand: Expr) -> Read<Expr> {
        let at = self.step();
        let optional = self.is("?");
        if optional {
            self.step();
        }
        let also = if optional { "" } else { "'?', " };
        self.primary_ahead(&format!("{{'[', '{{', '(', '.', '-', '!', {also}{STARTS}"))?;
        let place = self.bracketed(Self::expression)?;
        self.expect("]", |token| token == Token::End)?;
        let function = if optional { op::OPTIONAL_INDEX } else { op::INDEX };
        Ok(self.call(at, function, vec![operand, place]))
    }

    /// Arguments up to the closing parenthesis.
    fn arguments(&mut self) -> Read<Vec<Expr>> {
        let mut args = Vec::new();
        if self.is(")") {
            self.step();
            return Ok(args);
        }
        self.primary_ahead(&format!("{{'[', '{{', '(', ')', '.', '-', '!', {STARTS}"))?;
        loop {
            args.push(self.expression()?);
            if !self.is(",") {
                break;
            }
            self.step();
        }
        self.expect(")", |token| token == Token::End)?;
        Ok(args)
    }
}

fn starts_expression(token: Token) -> bool {
    match token {
        Token::Symbol(symbol) => {
            matches!(symbol, "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null")
        }
        Token::Float | Token::Int | Token::Uint | Token::String | Token::Bytes | Token::Ident => true,
        Token::EscapedIdent | Token::End => false,
    }
}
