//! Label and field selectors: parsing and matching.

/// A parsed label selector: all requirements must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

/// A parsed field selector: all terms must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    /// Field, wanted value, and whether it must be equal.
    pub terms: Vec<(String, String, bool)>,
}

impl LabelSelector {
    /// Parses the text of a query, such as `app=web,tier in (a, b),!old`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = Tokens::of(text);
        let mut requirements = Vec::new();
        if tokens.peek() == &Token::End {
            return Ok(Self::default());
        }
        loop {
            if !matches!(tokens.peek(), Token::Word(_) | Token::Not) {
                let found = tokens.peek().text();
                return Err(format!("found '{found}', expected: !, identifier, or 'end of string'"));
            }
            let requirement = tokens.requirement();
            requirements.push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
            match tokens.next() {
                Token::End => break,
                Token::Comma if !matches!(tokens.peek(), Token::Word(_) | Token::Not) => {
                    let found = tokens.peek().text();
                    return Err(format!("found '{found}', expected: identifier after ','"));
                }
                Token::Comma => {}
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
        // The real server keeps them sorted by key; matching does not care.
        Ok(Self { requirements })
    }

    /// The selector of a `LabelSelector` object (`matchLabels`, `matchExpressions`).
    pub(crate) fn from_object(selector: &serde_json::Value) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement { key: key.clone(), operator: Operator::In(vec![value]) });
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let key = expression["key"].as_str().unwrap_or_default().to_owned();
            let values: Vec<String> = expression["values"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|value| value.as_str().unwrap_or_default().to_owned())
                .collect();
            let operator = match expression["operator"].as_str().unwrap_or_default() {
                "In" => Operator::In(values),
                "NotIn" => Operator::NotIn(values),
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::Absent,
                other => return Err(format!("\"{other}\" is not a valid label selector operator")),
            };
            requirements.push(Requirement { key, operator });
        }
        Ok(Self { requirements })
    }

    /// True when it asks for nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// True when the labels fulfil it.
    pub(crate) fn matches(&self, labels: &[(String, String)]) -> bool {
        self.matches_by(|key| labels.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str()))
    }

    /// True when the labels of an object (a JSON map, or null) fulfil it.
    pub(crate) fn matches_object(&self, labels: &serde_json::Value) -> bool {
        self.matches_by(|key| labels.get(key).and_then(serde_json::Value::as_str))
    }

    fn matches_by<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = value_of(&requirement.key);
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match &requirement.operator {
                Operator::In(values) => {
                    value.is_some_and(|value| values.iter().any(|wanted| wanted == value))
                }
                Operator::NotIn(values) => {
                    value.is_none_or(|value| values.iter().all(|unwanted| unwanted != value))
                }
                Operator::Exists => value.is_some(),
                Operator::Absent => value.is_none(),
                Operator::Above(limit) => number().is_some_and(|number| number > *limit),
                Operator::Below(limit) => number().is_some_and(|number| number < *limit),
            }
        })
    }
}

impl FieldSelector {
    /// Parses the text of a query, such as `metadata.name=a,status.phase!=Running`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in split_unescaped(text) {
            if part.is_empty() {
                continue;
            }
            let (field, value, equal) = if let Some((field, value)) = split_term(&part, "!=") {
                (field, value, false)
            } else if let Some((field, value)) = split_term(&part, "==").or_else(|| split_term(&part, "=")) {
                (field, value, true)
            } else {
                return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
            };
            terms.push((field.to_owned(), unescape(value)?, equal));
        }
        Ok(Self { terms })
    }

    /// True when it asks for nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The value a field must have, when the selector says so.
    pub(crate) fn required(&self, field: &str) -> Option<&str> {
        let found = self.terms.iter().find(|(name, _, equal)| *equal && name == field);
        found.map(|(_, value, _)| value.as_str())
    }

    /// True when the fields fulfil it; `value_of` gives a field's value, empty when it is not set.
    pub(crate) fn matches<'a>(&self, value_of: impl Fn(&str) -> &'a str) -> bool {
        self.terms.iter().all(|(field, value, equal)| (value_of(field) == value) == *equal)
    }
}

/// Splits at commas that are not escaped.
fn split_unescaped(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for character in text.chars() {
        if character == ',' && !escaped {
            parts.push(String::new());
            continue;
        }
        escaped = character == '\\' && !escaped;
        if let Some(last) = parts.last_mut() {
            last.push(character);
        }
    }
    parts
}

/// Splits at the first operator, if it is the first of all operators in the text.
fn split_term<'a>(part: &'a str, operator: &str) -> Option<(&'a str, &'a str)> {
    let first = part.find(['=', '!'])?;
    part[first..].starts_with(operator).then(|| (&part[..first], &part[first + operator.len()..]))
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                Some(other) => {
                    return Err(format!("invalid field selector: invalid escape sequence: \\{other}"));
                }
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            '=' => return Err(format!("invalid field selector: unescaped character in value: {value}")),
            other => plain.push(other),
        }
    }
    Ok(plain)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Comma,
    Open,
    Close,
    Not,
    Equal,
    NotEqual,
    Above,
    Below,
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Comma => ",",
            Self::Open => "(",
            Self::Close => ")",
            Self::Not => "!",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Above => ">",
            Self::Below => "<",
            Self::End => "",
        }
    }
}

struct Tokens {
    tokens: Vec<Token>,
    place: usize,
}

impl Tokens {
    fn of(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let token = match character {
                ' ' | '\t' | '\r' | '\n' => continue,
                ',' => Token::Comma,
                '(' => Token::Open,
                ')' => Token::Close,
                '>' => Token::Above,
                '<' => Token::Below,
                '!' if characters.next_if_eq(&'=').is_some() => Token::NotEqual,
                '!' => Token::Not,
                '=' => {
                    characters.next_if_eq(&'=');
                    Token::Equal
                }
                first => {
                    let mut word = String::from(first);
                    while let Some(next) = characters.next_if(|next| !" \t\r\n,()><!=".contains(*next)) {
                        word.push(next);
                    }
                    Token::Word(word)
                }
            };
            tokens.push(token);
        }
        tokens.push(Token::End);
        Self { tokens, place: 0 }
    }

    fn peek(&self) -> &Token {
        self.tokens.get(self.place).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.place += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.peek() == &Token::Not;
        if absent {
            self.next();
        }
        let key = match self.next() {
            Token::Word(word) => word,
            other => {
                return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text()));
            }
        };
        check_key(&key)?;
        if absent {
            return Ok(Requirement { key, operator: Operator::Absent });
        }
        let operator = match self.peek().clone() {
            Token::End | Token::Comma => Operator::Exists,
            Token::Equal => Operator::In(vec![self.value()?]),
            Token::NotEqual => Operator::NotIn(vec![self.value()?]),
            Token::Above => Operator::Above(self.number(&key)?),
            Token::Below => Operator::Below(self.number(&key)?),
            Token::Word(word) if word == "in" => Operator::In(self.values()?),
            Token::Word(word) if word == "notin" => Operator::NotIn(self.values()?),
            other => {
                return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text()));
            }
        };
        for value in match &operator {
            Operator::In(values) | Operator::NotIn(values) => values.as_slice(),
            _ => &[],
        } {
            check_value(&key, value)?;
        }
        Ok(Requirement { key, operator })
    }

    /// The value behind a comparison; none is the empty text.
    fn value(&mut self) -> Result<String, String> {
        self.next();
        match self.peek().clone() {
            Token::Word(word) => {
                self.next();
                Ok(word)
            }
            Token::Comma | Token::End => Ok(String::new()),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn number(&mut self, key: &str) -> Result<i64, String> {
        let text = self.value()?;
        text.parse().map_err(|_| {
            format!("values[0][{key}]: Invalid value: {text:?}: for 'Gt', 'Lt' operators, the value must be an integer")
        })
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        self.next();
        match self.next() {
            Token::Open => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(word) => {
                    values.push(word);
                    match self.next() {
                        Token::Comma => {
                            if self.peek() == &Token::Close {
                                values.push(String::new());
                            }
                        }
                        Token::Close => break,
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                Token::Comma => values.push(String::new()),
                Token::Close => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    break;
                }
                other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }
}

/// A label key: an optional DNS prefix and a name.
fn check_key(key: &str) -> Result<(), String> {
    let name = match key.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            return Err(format!(
                "key: Invalid value: {key:?}: a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
        }
        Some((prefix, name)) if !prefix.is_empty() && prefix.len() <= 253 => name,
        Some(_) => return Err(format!("key: Invalid value: {key:?}: prefix part must be non-empty")),
        None => key,
    };
    if name.is_empty() || name.len() > 63 || !is_name(name) {
        return Err(format!(
            "key: Invalid value: {key:?}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ));
    }
    Ok(())
}

fn check_value(key: &str, value: &str) -> Result<(), String> {
    if value.len() > 63 {
        return Err(format!("values[0][{key}]: Invalid value: {value:?}: must be no more than 63 bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        return Err(format!(
            "values[0][{key}]: Invalid value: {value:?}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        ));
    }
    Ok(())
}

/// Letters, digits, dots, dashes and underscores, with a letter or digit at both ends.
fn is_name(text: &str) -> bool {
    let ends = |character: Option<char>| character.is_some_and(|character| character.is_ascii_alphanumeric());
    ends(text.chars().next())
        && ends(text.chars().next_back())
        && text.chars().all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels: Vec<_> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        LabelSelector::parse(selector).unwrap().matches(&labels)
    }

    #[test]
    fn every_operator_of_a_label_selector() {
        let web = [("app", "web"), ("tier", "a"), ("size", "5")];
        for (selector, expected) in [
            ("app=web", true),
            ("app==web", true),
            ("app!=web", false),
            ("other!=x", true),
            ("app in (web, db)", true),
            ("app notin (web)", false),
            ("none notin (web)", true),
            ("app", true),
            ("!app", false),
            ("!none", true),
            ("none", false),
            ("size>4", true),
            ("size<5", false),
            ("app=web,tier=b", false),
            ("app=web,tier in (a,),!x", true),
            ("app=", false),
            ("", true),
            ("in=x", false),
            ("notin", false),
        ] {
            assert_eq!(matches(selector, &web), expected, "{selector}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for selector in [
            "app=web,", "=x", "a b", "a in b", "a in (b", "!", "a=b=c", "app in", "size>x", "-a=b", "a=-b",
            "a/b/c=d",
        ] {
            assert!(LabelSelector::parse(selector).is_err(), "{selector}");
        }
    }

    #[test]
    fn field_selectors_know_equal_and_unequal_and_escapes() {
        let selector = FieldSelector::parse(r"metadata.name=a,status.phase!=Running,x==b\,c\=d").unwrap();
        assert_eq!(selector.required("metadata.name"), Some("a"));
        assert_eq!(selector.required("x"), Some("b,c=d"));
        let value = |phase: &'static str| {
            move |field: &str| match field {
                "metadata.name" => "a",
                "x" => "b,c=d",
                _ => phase,
            }
        };
        assert!(selector.matches(value("Pending")));
        assert!(!selector.matches(value("Running")));
        assert!(FieldSelector::parse("nonsense").is_err());
        assert!(FieldSelector::parse(r"a=b\x").is_err());
        assert!(FieldSelector::parse("").unwrap().is_empty());
    }
}
