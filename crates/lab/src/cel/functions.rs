//! The functions there are, and the types they take.

use std::{collections::HashMap, sync::LazyLock};

use super::types::{Type, read_params};

/// One form of a function.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    pub(crate) member: bool,
    pub(crate) params: Vec<Type>,
    pub(crate) result: Type,
    /// Not for new expressions yet: an older server could not read them.
    pub(crate) later: bool,
}

/// A function and all its forms.
#[derive(Debug, Default)]
pub(crate) struct Function {
    pub(crate) overloads: Vec<Overload>,
}

static FUNCTIONS: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(|| {
    let mut functions: HashMap<&'static str, Function> = HashMap::new();
    for line in include_str!("functions.tsv").lines().filter(|line| !line.starts_with('#')) {
        let mut columns = line.split('\t');
        let (Some(name), Some(id), Some(style)) = (columns.next(), columns.next(), columns.next()) else {
            continue;
        };
        functions.entry(name).or_default().overloads.push(Overload {
            id,
            member: style == "member",
            params: read_params(columns.next().unwrap_or("")),
            result: Type::read(columns.next().unwrap_or("dyn")),
            later: columns.next() == Some("later"),
        });
    }
    functions
});

/// The function of this name.
pub(crate) fn function(name: &str, stored: bool) -> Option<&'static Function> {
    FUNCTIONS.get(name).filter(|function| stored || function.overloads.iter().any(|overload| !overload.later))
}
