//! Custom resources: their definitions, and what is done with their objects.

mod columns;
pub(crate) mod correlate;
pub(crate) mod defaults;
pub(crate) mod definition;
pub(crate) mod formats;
mod kind;
pub(crate) mod lists;
pub(crate) mod metadata;
pub(crate) mod names;
pub(crate) mod path;
pub(crate) mod rule_tree;
mod rule_types;
pub(crate) mod rules;
mod scale;
pub(crate) mod schema;
mod selectable;
pub(crate) mod shape;
mod strategy;
mod types;
pub(crate) mod validate;

pub(crate) use kind::{Conversion, CustomKind, CustomVersion};
pub(crate) use scale::{apply_scale, scale_for_update, scale_of, scale_seen};
pub(crate) use strategy::Checked;

#[cfg(test)]
mod real_tests;
#[cfg(test)]
mod rule_tests;
