//! All ways to change an object: server-side apply with managed fields, strategic merge, JSON merge and JSON
//! patches.

mod atom;
mod check;
mod combine;
mod compare;
mod context;
mod element;
mod empty;
mod field_set;
pub mod fields;
mod go;
mod json;
mod last_applied;
mod managed;
mod manager;
mod reconcile;
mod remove;
mod reset;
mod scale;
mod set;
mod strategic;
#[cfg(test)]
mod tests;
mod track;
mod updater;

pub use check::{Misfits, check};
pub use combine::combine;
pub use compare::{Changes, compare};
pub use context::{Context, Versions};
pub use element::{Element, Scalar, equal_values};
pub use field_set::to_field_set;
pub(crate) use json::json_kind;
pub use json::{json_merge, json_patch, json_patch_unknown_fields};
pub use last_applied::{kind_text, named};
pub use managed::check_entries;
pub use manager::{MANAGER_LENGTH, check_manager, check_patch_options, manager_name};
pub use remove::{extract_items, remove_items};
pub use reset::Reset;
pub use scale::{ReplicasPath, apply_to_custom_scale, from_scale, to_scale};
pub use set::{Set, Step, path_text};
pub use strategic::strategic_merge;
pub use track::{apply, ignore_times, update};

/// A value the way Go prints it, for messages that show one: `map[a:1]`.
pub fn go_text(value: &serde_json::Value) -> String {
    go::verb(value)
}
