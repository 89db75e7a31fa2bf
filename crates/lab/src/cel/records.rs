//! The records that expressions can make: objects and operations of patches.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    calls::Call,
    types::{Record, Type},
    value::{Failure, Val},
};

/// The name of an operation of a JSON patch.
pub(crate) const OPERATION: &str = "JSONPatch";
/// The function that makes a text part of a JSON pointer.
pub(crate) const ESCAPE_KEY: &str = "jsonpatch.escapeKey";

/// The record of a name, for expressions that make patches.
///
/// Objects are called by where they are, such as `Object.metadata.labels`, and can have any field.
pub(crate) fn of_patches(name: &str) -> Option<Arc<Record>> {
    let fields = if name == OPERATION {
        let text = ["op", "path", "from"].map(|field| (field.to_owned(), Type::String));
        text.into_iter().chain([("value".to_owned(), Type::Dyn)]).collect()
    } else if name == "Object" || name.starts_with("Object.") {
        BTreeMap::from([(Record::ANY.to_owned(), Type::Dyn)])
    } else {
        return None;
    };
    Some(Arc::new(Record { name: name.to_owned(), fields }))
}

/// The functions for patches.
pub(crate) fn find(name: &str) -> Option<Call> {
    (name == ESCAPE_KEY).then_some(|args| match args {
        [Val::Text(key)] => Ok(Val::text(key.replace('~', "~0").replace('/', "~1"))),
        _ => Err(Failure::no_overload()),
    })
}
