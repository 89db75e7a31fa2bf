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
pub(crate) mod fields;
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

pub(crate) use check::check;
pub(crate) use combine::combine;
pub(crate) use context::{Context, Versions};
pub(crate) use json::json_kind;
pub(crate) use json::{json_merge, json_patch, json_patch_unknown_fields, too_deep_at};
pub(crate) use last_applied::{kind_text, named};
pub(crate) use managed::check_entries;
pub(crate) use manager::{check_manager, check_patch_options, manager_name};
pub(crate) use reset::Reset;
pub(crate) use scale::{ReplicasPath, apply_to_custom_scale, from_scale, to_scale};
pub(crate) use strategic::strategic_merge_with;
pub(crate) use track::{apply, ignore_times, update};

/// A value the way Go prints it, for messages that show one: `map[a:1]`.
pub(crate) fn go_text(value: &serde_json::Value) -> String {
    go::verb(value)
}
