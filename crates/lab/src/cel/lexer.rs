//! Expressions as words.

/// The kinds of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// An operator, a bracket or a reserved word, by its text.
    Symbol(&'static str),
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Ident,
    EscapedIdent,
    End,
}

/// A word and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) token: Token,
    pub(crate) text: String,
    /// The character it starts at.
    pub(crate) at: u32,
}

/// Characters that are no word, and where they are.
pub(crate) type Unreadable = (u32, String);

const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%",
];

/// Splits an expression into words; what cannot be read is reported apart.
pub(crate) fn words(source: &[char]) -> (Vec<Word>, Vec<Unreadable>) {
    let mut lexer = Lexer { source, place: 0, words: Vec::new(), unreadable: Vec::new() };
    lexer.run();
    (lexer.words, lexer.unreadable)
}

struct Lexer<'s> {
    source: &'s [char],
    place: usize,
    words: Vec<Word>,
    unreadable: Vec<Unreadable>,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.source.get(self.place + ahead).copied()
    }

    fn run(&mut self) {
        while let Some(one) = self.peek(0) {
            match one {
                ' ' | '\t' | '\r' | '\n' | '\x0c' => self.place += 1,
                '/' if self.peek(1) == Some('/') => {
                    while self.peek(0).is_some_and(|one| one != '\n') {
                        self.place += 1;
                    }
                }
                '0'..='9' => self.number(),
                '.' if self.peek(1).is_some_and(|one| one.is_ascii_digit()) => self.number(),
                '"' | '\'' => self.string(0, Token::String),
                '`' => self.escaped(),
                'a'..='z' | 'A'..='Z' | '_' => self.name(),
                _ => self.symbol(),
            }
        }
        let end = self.source.len();
        self.words.push(Word { token: Token::End, text: "<EOF>".to_owned(), at: offset(end) });
    }

    fn push(&mut self, token: Token, length: usize) {
        let text = self.source[self.place..self.place + length].iter().collect();
        self.words.push(Word { token, text, at: offset(self.place) });
        self.place += length;
    }

    fn refuse(&mut self, length: usize) {
        let end = (self.place + length.max(1)).min(self.source.len());
        let text = self.source[self.place..end].iter().collect();
        self.unreadable.push((offset(self.place), text));
        self.place = end;
    }

    fn count(&self, from: usize, test: impl Fn(char) -> bool) -> usize {
        self.source[self.place.min(self.source.len())..]
            .iter()
            .skip(from)
            .take_while(|one| test(**one))
            .count()
    }

    fn number(&mut self) {
        let digit = |one: char| one.is_ascii_digit();
        if self.peek(0) == Some('0') && self.peek(1) == Some('x') {
            let digits = self.count(2, |one| one.is_ascii_hexdigit());
            if digits > 0 {
                let unsigned = matches!(self.peek(2 + digits), Some('u' | 'U'));
                self.push(
                    if unsigned { Token::Uint } else { Token::Int },
                    2 + digits + usize::from(unsigned),
                );
                return;
            }
        }
        let whole = self.count(0, digit);
        let fraction = if self.peek(whole) == Some('.') { self.count(whole + 1, digit) } else { 0 };
        let mut length = if fraction > 0 { whole + 1 + fraction } else { whole };
        let mut float = fraction > 0;
        if matches!(self.peek(length), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.peek(length + 1), Some('+' | '-')));
            let digits = self.count(length + 1 + sign, digit);
            if digits > 0 {
                length += 1 + sign + digits;
                float = true;
            }
        }
        if float {
            self.push(Token::Float, length);
        } else if matches!(self.peek(length), Some('u' | 'U')) {
            self.push(Token::Uint, length + 1);
        } else {
            self.push(Token::Int, length);
        }
    }

    fn name(&mut self) {
        let lower = |ahead: usize| self.peek(ahead).map(|one| one.to_ascii_lowercase());
        let quote = |ahead: usize| matches!(self.peek(ahead), Some('"' | '\''));
        match (lower(0), lower(1)) {
            (Some('r'), _) if quote(1) && self.string_length(1, true).is_ok() => {
                return self.string(1, Token::String);
            }
            (Some('b'), _) if quote(1) && self.string_length(1, false).is_ok() => {
                return self.string(1, Token::Bytes);
            }
            (Some('b'), Some('r')) if quote(2) && self.string_length(2, true).is_ok() => {
                return self.string(2, Token::Bytes);
            }
            _ => {}
        }
        let length = self.count(0, |one| one.is_ascii_alphanumeric() || one == '_');
        let text: String = self.source[self.place..self.place + length].iter().collect();
        let token = match text.as_str() {
            "in" => Token::Symbol("in"),
            "true" => Token::Symbol("true"),
            "false" => Token::Symbol("false"),
            "null" => Token::Symbol("null"),
            _ => Token::Ident,
        };
        self.push(token, length);
    }

    fn string(&mut self, prefix: usize, token: Token) {
        let raw = prefix > 0 && matches!(self.peek(prefix - 1), Some('r' | 'R'));
        match self.string_length(prefix, raw) {
            Ok(length) => self.push(token, length),
            Err(length) => self.refuse(length),
        }
    }

    /// The length of a string with its prefix and quotes, or of what is read before it turns out to be none.
    fn string_length(&self, prefix: usize, raw: bool) -> Result<usize, usize> {
        let quote = self.peek(prefix);
        let triple = self.peek(prefix + 1) == quote && self.peek(prefix + 2) == quote;
        // Two quotes next to each other are an empty string after all, when the three are never closed.
        let none = |length: usize| if triple { Ok(prefix + 2) } else { Err(length) };
        let mut at = prefix + if triple { 3 } else { 1 };
        loop {
            let one = self.peek(at);
            if one == quote && (!triple || (self.peek(at + 1) == quote && self.peek(at + 2) == quote)) {
                return Ok(at + if triple { 3 } else { 1 });
            }
            match one {
                None => return none(at),
                Some('\n' | '\r') if !triple => return none(at + 1),
                Some('\\') if !raw => {
                    match escape_length(self.source.get(self.place + at + 1..).unwrap_or(&[])) {
                        Ok(length) => at += 1 + length,
                        Err(length) => return none(at + 1 + length),
                    }
                }
                Some(_) => at += 1,
            }
        }
    }

    fn escaped(&mut self) {
        let inner = self.count(1, |one| one.is_ascii_alphanumeric() || "_.-/ ".contains(one));
        if inner > 0 && self.peek(1 + inner) == Some('`') {
            self.push(Token::EscapedIdent, inner + 2);
        } else {
            self.refuse(2 + inner);
        }
    }

    fn symbol(&mut self) {
        for symbol in SYMBOLS {
            if symbol.chars().enumerate().all(|(ahead, one)| self.peek(ahead) == Some(one)) {
                self.push(Token::Symbol(symbol), symbol.len());
                return;
            }
        }
        let half = matches!(self.peek(0), Some('=' | '&' | '|')) && self.peek(1).is_some();
        self.refuse(1 + usize::from(half));
    }
}

/// The length of what follows a backslash, or of what is read of it before it turns out to be wrong.
fn escape_length(rest: &[char]) -> Result<usize, usize> {
    let digits = |first: usize, count: usize, is_digit: fn(&char) -> bool| {
        let good = rest.iter().skip(first).take(count).take_while(|one| is_digit(one)).count();
        if good == count { Ok(first + count) } else { Err((first + good + 1).min(rest.len())) }
    };
    match rest.first() {
        Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => Ok(1),
        Some('x' | 'X') => digits(1, 2, char::is_ascii_hexdigit),
        Some('u') => digits(1, 4, char::is_ascii_hexdigit),
        Some('U') => digits(1, 8, char::is_ascii_hexdigit),
        Some('0'..='3') => digits(1, 2, |one| ('0'..='7').contains(one)),
        Some(_) => Err(1),
        None => Err(0),
    }
}

fn offset(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
