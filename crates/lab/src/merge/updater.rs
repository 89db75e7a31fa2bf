//! How ownership moves when an object changes, and what goes when somebody no longer applies it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::combine::combine;
use super::compare::{Changes, compare};
use super::context::Context;
use super::element::{Element, equal_values};
use super::field_set::{to_field_set, with_named_fields};
use super::fields::touches;
use super::managed::{Manager, Operation};
use super::reconcile::{reconcile, stored_fits};
use super::remove::remove_items;
use super::set::Set;
use crate::schema::TypeRef;

/// A field that somebody else owns and that would get another value.
#[derive(Debug)]
pub(super) struct Conflict<'a> {
    /// The owner, by its text in the order of which conflicts are told.
    pub(super) identifier: String,
    /// The owner as messages name it.
    pub(super) shown: String,
    pub(super) path: Vec<Element<'a>>,
}

/// What became of an object that was applied.
pub(super) struct Outcome<'a> {
    /// The object; none when nothing is different.
    pub(super) object: Option<Value>,
    pub(super) managers: Vec<Manager<'a>>,
    /// The place of whoever applied.
    pub(super) writer: usize,
}

/// Drops managers of versions that are gone, and brings the paths of the others in line with the schema. Custom
/// resources cannot be tracked any more when a version is gone, or the live object cannot be had in it.
pub(super) fn current<'a>(
    context: &Context<'_>,
    live: &Value,
    mut managers: Vec<Manager<'a>>,
) -> Result<Vec<Manager<'a>>, String> {
    let mut wrong = None;
    managers.retain_mut(|manager| {
        let Some(of) = context.versions.type_of(&manager.api_version) else {
            wrong.get_or_insert_with(|| manager.api_version.to_string());
            return false;
        };
        if context.custom {
            context.versions.convert(live, &manager.api_version);
        }
        // The types of built-in kinds never change.
        if manager.unread.is_some_and(|unread| context.custom && !stored_fits(unread, of)) {
            manager.read();
        }
        if let Some(set) = reconcile(&manager.set, of) {
            manager.set_to(set);
        }
        true
    });
    match wrong {
        Some(version) if version.matches('/').count() > 1 => {
            Err(format!("unexpected GroupVersion string: {version}"))
        }
        Some(version) if context.custom => {
            Err(format!("request to convert CR to an invalid group/version: {version}"))
        }
        _ => Ok(managers),
    }
}

/// The changes of an object in the version of the write, as far as they count.
pub(super) fn own_changes<'a>(
    context: &Context<'_>,
    of: TypeRef<'a>,
    old: &'a Value,
    new: &'a Value,
) -> Changes<'a> {
    compare(of, old, new).filter(|set| context.reset.filter(set, true))
}

/// Takes from the managers, but the one at `writer`, what was changed or removed. Gives the conflicts instead, if
/// they count and there are any: whatever was changed is one.
pub(super) fn settle<'a>(
    context: &Context<'_>,
    managers: &mut [Manager<'a>],
    writer: Option<usize>,
    (old, new): (&Value, &Value),
    own: &Changes<'_>,
    force: bool,
) -> Result<(), Vec<Conflict<'a>>> {
    let mut versions: Vec<String> = Vec::new();
    for manager in managers.iter() {
        if !versions.iter().any(|known| **known == *manager.api_version) {
            versions.push(manager.api_version.to_string());
        }
    }
    let mut conflicts = Vec::new();
    let mut losses: Vec<Option<Set<'a>>> = managers.iter().map(|_| None).collect();
    for version in versions {
        if version == context.api_version {
            take(managers, writer, &version, own, force, (&mut losses, &mut conflicts));
            continue;
        }
        let Some(of) = context.versions.type_of(&version) else { continue };
        let (old, new) = (context.versions.convert(old, &version), context.versions.convert(new, &version));
        let changes = compare(of, &old, &new).filter(|set| context.reset.filter(set, false));
        take(managers, writer, &version, &changes, force, (&mut losses, &mut conflicts));
    }
    if !conflicts.is_empty() {
        conflicts.sort_by(|left: &Conflict<'a>, right| left.identifier.cmp(&right.identifier));
        return Err(conflicts);
    }
    for (manager, lost) in managers.iter_mut().zip(losses) {
        if let Some(lost) = lost {
            let set = std::mem::take(&mut manager.set).difference(&lost);
            manager.set_to(set);
        }
    }
    Ok(())
}

/// Finds what the managers of a version lose, and what of it are conflicts.
fn take<'a>(
    managers: &mut [Manager<'a>],
    writer: Option<usize>,
    version: &str,
    changes: &Changes<'_>,
    force: bool,
    (losses, conflicts): (&mut [Option<Set<'a>>], &mut Vec<Conflict<'a>>),
) {
    if changes.is_empty() {
        return;
    }
    for (place, manager) in managers.iter_mut().enumerate() {
        if Some(place) == writer || manager.api_version != version {
            continue;
        }
        if let Some(unread) = manager.unread {
            if ![&changes.modified, &changes.added, &changes.removed].iter().any(|set| touches(unread, set)) {
                continue;
            }
            manager.read();
        }
        let taken =
            manager.set.intersection(&changes.modified).union(manager.set.intersection(&changes.added));
        if !force && !taken.is_empty() {
            let identifier = manager.identifier();
            conflicts.extend(taken.paths().into_iter().map(|path| Conflict {
                identifier: identifier.clone(),
                shown: manager.shown(),
                path,
            }));
        }
        let lost = taken.union(manager.set.intersection(&changes.removed));
        if !lost.is_empty() {
            losses[place] = Some(lost);
        }
    }
}

/// Merges what is applied into the live object.
pub(super) fn apply<'a>(
    context: &Context<'_>,
    of: TypeRef<'a>,
    live: &'a Value,
    applied: &'a Value,
    mut managers: Vec<Manager<'a>>,
    force: bool,
) -> Result<Outcome<'a>, Vec<Conflict<'a>>> {
    let merged = combine(of, live, applied);
    let writer = Manager {
        name: if context.manager.is_empty() { "unknown".into() } else { context.manager.to_owned().into() },
        operation: Operation::Apply,
        api_version: context.api_version.to_owned().into(),
        subresource: context.subresource.to_owned().into(),
        time: None,
        set: context.reset.filter(to_field_set(of, applied), true),
        unread: None,
        entry: None,
    };
    let mut last = None;
    let place = if let Some(place) = managers.iter().position(|manager| manager.is(&writer)) {
        let before = std::mem::replace(&mut managers[place], writer);
        managers[place].time = before.time;
        last = Some((before.set, before.api_version));
        place
    } else {
        managers.push(writer);
        managers.len() - 1
    };
    let object = match last {
        // What is applied contains all that leads to its paths: when all is still applied, nothing can go.
        Some((set, version)) if version == context.api_version && managers[place].set.covers(&set) => merged,
        Some((set, version)) if !set.is_empty() => prune(context, merged, &managers, set, &version),
        _ => merged,
    };
    {
        let own = own_changes(context, of, live, &object);
        settle(context, &mut managers, Some(place), (live, &object), &own, force)?;
    }
    let writer = managers.remove(place);
    managers.retain(|manager| !manager.owns_nothing());
    managers.push(writer);
    let object = (!equal_values(live, &object)).then_some(object);
    Ok(Outcome { object, writer: managers.len() - 1, managers })
}

/// Removes what was applied before and is not applied any more, unless somebody else owns it.
fn prune(
    context: &Context<'_>,
    merged: Value,
    managers: &[Manager<'_>],
    last: Set<'_>,
    version: &str,
) -> Value {
    let Some(of) = context.versions.type_of(version) else { return merged };
    let merged = context.versions.convert(&merged, version).into_owned();
    let last = with_named_fields(last, of);
    let pruned = remove_items(of, &merged, &last);
    let pruned = add_back_owned(context, &merged, pruned, managers, version);
    let pruned = add_back_dangling(context, of, &merged, &pruned, &last, version);
    context.versions.convert(&pruned, context.api_version).into_owned()
}

/// Brings back what some manager still owns, version by version.
fn add_back_owned(
    context: &Context<'_>,
    merged: &Value,
    pruned: Value,
    managers: &[Manager<'_>],
    first: &str,
) -> Value {
    let mut owned: BTreeMap<(bool, &str), Set<'_>> = BTreeMap::new();
    for manager in managers {
        let set = owned.entry((*manager.api_version != *first, &manager.api_version)).or_default();
        *set = std::mem::take(set).union(manager.set.clone());
    }
    let mut pruned = pruned;
    for ((_, version), owned) in owned {
        let Some(of) = context.versions.type_of(version) else { continue };
        let merged = context.versions.convert(merged, version);
        let converted = context.versions.convert(&pruned, version).into_owned();
        let all = with_named_fields(to_field_set(of, &merged), of);
        let kept = with_named_fields(to_field_set(of, &converted), of).union(with_named_fields(owned, of));
        pruned = remove_items(of, &merged, &all.difference(&kept));
    }
    pruned
}

/// Brings back what was removed although it was never applied.
fn add_back_dangling(
    context: &Context<'_>,
    of: TypeRef<'_>,
    merged: &Value,
    pruned: &Value,
    last: &Set<'_>,
    version: &str,
) -> Value {
    let pruned = context.versions.convert(pruned, version);
    let left = with_named_fields(to_field_set(of, &pruned), of);
    let all = with_named_fields(to_field_set(of, merged), of);
    remove_items(of, merged, &all.difference(&left).intersection(last))
}
