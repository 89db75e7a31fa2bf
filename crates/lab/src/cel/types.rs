//! The types of expressions.

use std::{collections::BTreeMap, fmt, sync::Arc};

/// The type of an expression.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::enum_variant_names, reason = "a type has a type, too")]
pub(crate) enum Type {
    /// Anything; found out when it is evaluated.
    Dyn,
    /// The type of what is wrong.
    Error,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A signed number of 64 bits.
    Int,
    /// An unsigned number of 64 bits.
    Uint,
    /// A floating point number of 64 bits.
    Double,
    /// A text.
    String,
    /// Bytes.
    Bytes,
    /// A length of time.
    Duration,
    /// A moment.
    Timestamp,
    /// A list.
    List(Arc<Type>),
    /// A map.
    Map(Arc<Type>, Arc<Type>),
    /// A record with named fields.
    Record(Arc<Record>),
    /// A type with a name and parameters, such as `optional_type(int)`.
    Opaque(Arc<str>, Vec<Type>),
    /// The type of a type.
    Type(Option<Arc<Type>>),
    /// A type to be found out.
    Param(Arc<str>),
}

/// A record: its name and its fields.
#[derive(Debug)]
pub(crate) struct Record {
    /// The name, unique among the records of an environment.
    pub name: String,
    /// The fields by the names they have in expressions.
    pub fields: BTreeMap<String, Type>,
}

impl Record {
    /// The name of the field that stands for all others, of records that can have any field.
    pub(crate) const ANY: &'static str = "*";

    /// The field of this name. Names that mean something else in expressions can be written as they are.
    pub(crate) fn field(&self, name: &str) -> Option<&Type> {
        self.fields
            .get(name)
            .or_else(|| self.fields.get(&format!("__{name}__")).filter(|_| is_reserved(name)))
            .or_else(|| self.fields.get(Self::ANY))
    }
}

/// Words of the language, and words it may have one day.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// True for words that cannot be names.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Type {
    /// A list of this type.
    pub(crate) fn list(item: Type) -> Self {
        Self::List(Arc::new(item))
    }

    /// A map with these keys and values.
    pub(crate) fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    /// A value that may be missing.
    pub(crate) fn optional(inner: Type) -> Self {
        Self::Opaque("optional_type".into(), vec![inner])
    }

    /// A type known by its name alone.
    pub(crate) fn named(name: &str) -> Self {
        Self::Record(Arc::new(Record { name: name.to_owned(), fields: BTreeMap::new() }))
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn)
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// What an optional holds, and whether it was one.
    pub(crate) fn unwrap_optional(&self) -> (&Type, bool) {
        match self {
            Self::Opaque(name, params) if &**name == "optional_type" => {
                (params.first().unwrap_or(&Self::Dyn), true)
            }
            other => (other, false),
        }
    }

    /// Reads a type as the table of functions writes it; single capital letters are parameters.
    pub(crate) fn read(text: &str) -> Self {
        let text = text.trim();
        if let Some((name, rest)) = text.split_once('(') {
            let params: Vec<Type> =
                split_params(rest.strip_suffix(')').unwrap_or(rest)).into_iter().map(Self::read).collect();
            return match (name, params.as_slice()) {
                ("list", [item]) => Self::list(item.clone()),
                ("map", [key, value]) => Self::map(key.clone(), value.clone()),
                ("type", [inner]) => Self::Type(Some(Arc::new(inner.clone()))),
                _ => Self::Opaque(name.into(), params),
            };
        }
        match text {
            "dyn" => Self::Dyn,
            "null" => Self::Null,
            "bool" => Self::Bool,
            "int" => Self::Int,
            "uint" => Self::Uint,
            "double" => Self::Double,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "duration" => Self::Duration,
            "timestamp" => Self::Timestamp,
            "net.IP" | "net.CIDR" => Self::Opaque(text.into(), Vec::new()),
            one if one.len() == 1 => Self::Param(one.into()),
            name => Self::named(name),
        }
    }
}

/// Parameters between commas that are not inside of parentheses.
fn split_params(text: &str) -> Vec<&str> {
    let (mut depth, mut start) = (0_usize, 0);
    let mut parts = Vec::new();
    for (place, one) in text.char_indices() {
        match one {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        parts.push(&text[start..]);
    }
    parts
}

pub(crate) fn read_params(text: &str) -> Vec<Type> {
    split_params(text).into_iter().map(Type::read).collect()
}

impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => formatter.write_str("dyn"),
            Self::Error => formatter.write_str("!error!"),
            Self::Null => formatter.write_str("null"),
            Self::Bool => formatter.write_str("bool"),
            Self::Int => formatter.write_str("int"),
            Self::Uint => formatter.write_str("uint"),
            Self::Double => formatter.write_str("double"),
            Self::String => formatter.write_str("string"),
            Self::Bytes => formatter.write_str("bytes"),
            Self::Duration => formatter.write_str("duration"),
            Self::Timestamp => formatter.write_str("timestamp"),
            Self::List(item) => write!(formatter, "list({item})"),
            Self::Map(key, value) => write!(formatter, "map({key}, {value})"),
            Self::Record(record) => formatter.write_str(&record.name),
            Self::Opaque(name, params) if params.is_empty() => formatter.write_str(name),
            Self::Opaque(name, params) => write!(formatter, "{name}({})", list(params)),
            Self::Type(None) => formatter.write_str("type"),
            Self::Type(Some(inner)) => write!(formatter, "type({inner})"),
            Self::Param(name) => formatter.write_str(name),
        }
    }
}

/// Types between commas.
pub(crate) fn list(types: &[Type]) -> String {
    types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What parameters have been found to be.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mapping(BTreeMap<Arc<str>, Type>);

impl Mapping {
    pub(crate) fn add(&mut self, param: &Arc<str>, to: Type) {
        self.0.insert(param.clone(), to);
    }

    fn find(&self, of: &Type) -> Option<&Type> {
        match of {
            Type::Param(name) => self.0.get(name),
            _ => None,
        }
    }

    /// The type with its parameters replaced; those that are not known become `dyn` when `all` is set.
    pub(crate) fn substitute(&self, of: &Type, all: bool) -> Type {
        if let Some(known) = self.find(of) {
            return self.substitute(&known.clone(), all);
        }
        match of {
            Type::Param(_) if all => Type::Dyn,
            Type::List(item) => Type::list(self.substitute(item, all)),
            Type::Map(key, value) => Type::map(self.substitute(key, all), self.substitute(value, all)),
            Type::Opaque(name, params) => {
                Type::Opaque(name.clone(), params.iter().map(|param| self.substitute(param, all)).collect())
            }
            Type::Type(Some(inner)) => Type::Type(Some(Arc::new(self.substitute(inner, all)))),
            other => other.clone(),
        }
    }

    /// True when a value of one type fits the other; what is found out about parameters is kept only then.
    pub(crate) fn assignable(&mut self, one: &Type, other: &Type) -> bool {
        let mut trial = self.clone();
        let fits = trial.fits(one, other);
        if fits {
            *self = trial;
        }
        fits
    }

    pub(crate) fn all_assignable(&mut self, these: &[Type], those: &[Type]) -> bool {
        let mut trial = self.clone();
        let fits = trial.all_fit(these, those);
        if fits {
            *self = trial;
        }
        fits
    }

    fn all_fit(&mut self, these: &[Type], those: &[Type]) -> bool {
        these.len() == those.len() && these.iter().zip(those).all(|(one, other)| self.fits(one, other))
    }

    fn fits(&mut self, one: &Type, other: &Type) -> bool {
        if let Type::Param(_) = other {
            match self.valid_substitution(one, other) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Param(_) = one {
            return self.valid_substitution(other, one).0;
        }
        if one.is_dyn_or_error() || other.is_dyn_or_error() {
            return true;
        }
        match (one, other) {
            (Type::Null, Type::Null) | (Type::Type(_), Type::Type(_)) => true,
            (Type::Null, nullable) | (nullable, Type::Null) => {
                matches!(nullable, Type::Opaque(..) | Type::Record(_) | Type::Duration | Type::Timestamp)
            }
            (Type::List(one), Type::List(other)) => self.fits(one, other),
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                self.fits(key, other_key) && self.fits(value, other_value)
            }
            (Type::Opaque(name, params), Type::Opaque(other_name, other_params)) => {
                name == other_name && self.all_fit(&params.clone(), &other_params.clone())
            }
            _ => one == other,
        }
    }

    /// Whether a type can stand for a parameter, and whether something stood for it already.
    fn valid_substitution(&mut self, of: &Type, param: &Type) -> (bool, bool) {
        if of == param {
            return (true, true);
        }
        let Type::Param(name) = param else { return (false, false) };
        if let Some(known) = self.find(param).cloned() {
            if *of == known {
                return (true, true);
            }
            if self.fits(of, &known) {
                let general = most_general(of, &known).clone();
                if self.not_referenced(param, &general) {
                    self.add(name, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.not_referenced(param, of) {
            self.add(name, of.clone());
            return (true, false);
        }
        (false, false)
    }

    /// True when a type does not occur within another.
    fn not_referenced(&self, of: &Type, within: &Type) -> bool {
        if of == within {
            return false;
        }
        match within {
            Type::Param(_) => self.find(within).is_none_or(|known| self.not_referenced(of, known)),
            Type::List(item) => self.not_referenced(of, item),
            Type::Map(key, value) => self.not_referenced(of, key) && self.not_referenced(of, value),
            Type::Opaque(_, params) => params.iter().all(|param| self.not_referenced(of, param)),
            Type::Type(Some(inner)) => self.not_referenced(of, inner),
            _ => true,
        }
    }
}

/// The one of two types that covers more.
pub(crate) fn most_general<'t>(one: &'t Type, other: &'t Type) -> &'t Type {
    if is_equal_or_less_specific(one, other) { one } else { other }
}

fn is_equal_or_less_specific(one: &Type, other: &Type) -> bool {
    if matches!(one, Type::Dyn | Type::Param(_)) {
        return true;
    }
    if matches!(other, Type::Dyn | Type::Param(_)) {
        return false;
    }
    match (one, other) {
        (Type::Opaque(name, params), Type::Opaque(other_name, other_params)) => {
            name == other_name
                && params.len() == other_params.len()
                && params.iter().zip(other_params).all(|(one, other)| is_equal_or_less_specific(one, other))
        }
        (Type::List(one), Type::List(other)) => is_equal_or_less_specific(one, other),
        (Type::Map(key, value), Type::Map(other_key, other_value)) => {
            is_equal_or_less_specific(key, other_key) && is_equal_or_less_specific(value, other_value)
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => one == other,
    }
}
