//! Expressions as trees.

use std::sync::Arc;

/// A node of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expr {
    /// The place of what is known about it: types, overloads.
    pub(crate) id: usize,
    /// The character in the source it is reported at.
    pub(crate) at: u32,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(String),
    Select {
        operand: Box<Expr>,
        field: String,
        test: bool,
    },
    Call {
        function: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List {
        items: Vec<Item>,
    },
    Map {
        entries: Vec<Entry>,
    },
    Record {
        name: String,
        fields: Vec<RecordField>,
    },
    Fold(Box<Fold>),
    /// Stands where an error was reported.
    Broken,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// An item of a list; an optional one is left out when it has no value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item {
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecordField {
    pub(crate) at: u32,
    pub(crate) name: String,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A loop over a list or map: what all macros with a variable become.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fold {
    pub(crate) range: Expr,
    pub(crate) variable: String,
    /// The second variable, of loops with two.
    pub(crate) second: Option<String>,
    pub(crate) accumulator: String,
    pub(crate) start: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

/// The accumulator of loops; no name anybody can write.
pub(crate) const ACCUMULATOR: &str = "@result";
/// The name accumulators had once, which is still kept from being used.
pub(crate) const OLD_ACCUMULATOR: &str = "__result__";

/// The names of operators as functions.
pub(crate) mod op {
    pub(crate) const CONDITIONAL: &str = "_?_:_";
    pub(crate) const AND: &str = "_&&_";
    pub(crate) const OR: &str = "_||_";
    pub(crate) const NOT: &str = "!_";
    pub(crate) const NEGATE: &str = "-_";
    pub(crate) const EQUALS: &str = "_==_";
    pub(crate) const NOT_EQUALS: &str = "_!=_";
    pub(crate) const LESS: &str = "_<_";
    pub(crate) const LESS_EQUALS: &str = "_<=_";
    pub(crate) const GREATER: &str = "_>_";
    pub(crate) const GREATER_EQUALS: &str = "_>=_";
    pub(crate) const IN: &str = "@in";
    pub(crate) const ADD: &str = "_+_";
    pub(crate) const SUBTRACT: &str = "_-_";
    pub(crate) const MULTIPLY: &str = "_*_";
    pub(crate) const DIVIDE: &str = "_/_";
    pub(crate) const MODULO: &str = "_%_";
    pub(crate) const INDEX: &str = "_[_]";
    pub(crate) const OPTIONAL_INDEX: &str = "_[?_]";
    pub(crate) const OPTIONAL_SELECT: &str = "_?._";
    pub(crate) const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
    pub(crate) const MAP_INSERT: &str = "cel.@mapInsert";
    pub(crate) const SORT_BY: &str = "@sortByAssociatedKeys";
}
