//! Custom resources: their definitions, and what is done with their objects.

mod columns;
pub(crate) mod correlate;
pub(crate) mod defaults;
pub mod definition;
pub mod formats;
mod kind;
pub(crate) mod lists;
pub(crate) mod metadata;
pub mod names;
pub(crate) mod path;
pub(crate) mod rule_tree;
mod rule_types;
pub(crate) mod rules;
mod scale;
pub mod schema;
mod selectable;
pub(crate) mod shape;
mod strategy;
mod types;
pub(crate) mod validate;

pub use columns::{Columns, PrinterColumn};
pub use kind::{Conversion, CustomKind, CustomVersion, Names, Stability, VersionOrder};
pub use scale::{ScalePaths, apply_scale, scale_for_update, scale_of, scale_seen};
pub use selectable::SelectableField;
pub use shape::canonical_numbers;
pub use strategy::Checked;
pub use types::CustomTypes;

#[cfg(test)]
mod real_tests;
#[cfg(test)]
mod rule_tests;
