//! The life of managed fields: what a write of any kind makes of them.

use std::borrow::Cow;

use serde_json::Value;

use super::check::{check, fits};
use super::context::Context;
use super::element::Element;
use super::fields::{covers, touches};
use super::last_applied;
use super::managed::{self, Manager, Operation};
use super::set::{Set, path_text};
use super::updater::{self, Conflict, Outcome};
use crate::clock;
use crate::schema::TypeRef;
use crate::status::{Cause, Status};

/// Who owns what was there before anybody applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Brings the managed fields of a new object up to date, for every write that is not an apply: creation (without
/// an old object), replacement and patches.
///
/// The new object is complete, with defaults, but before admission and before what the write cannot change is
/// put back. It still has the managed fields that were sent: an empty list must not have been dropped, because it
/// means that they are to be forgotten.
pub(crate) fn update(context: &Context<'_>, old: Option<&Value>, new: &mut Value) {
    let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let sent = metadata.remove("managedFields").filter(|sent| !sent.is_null());
    let stored = old.map(|old| &old["metadata"]["managedFields"]).filter(|stored| !stored.is_null());
    // Who reads an object, changes it and writes it back sends the entries that are stored.
    let (mut spare, sent) = if sent.as_ref() == stored { (sent, None) } else { (None, sent) };
    let entries = match follow(context, old, new, (stored, sent.as_ref()), &mut spare) {
        None => spare.or_else(|| stored.cloned()),
        Some(entries) if entries.is_empty() => None,
        Some(entries) => Some(Value::Array(entries)),
    };
    if let (Some(entries), Some(metadata)) = (entries, new.get_mut("metadata").and_then(Value::as_object_mut))
    {
        metadata.insert("managedFields".to_owned(), entries);
    }
}

/// The entries after a write; none when those that are stored stay, also because the objects do not fit their
/// schema. A copy of the stored entries may be used up.
fn follow(
    context: &Context<'_>,
    old: Option<&Value>,
    new: &Value,
    (stored, sent): (Option<&Value>, Option<&Value>),
    spare: &mut Option<Value>,
) -> Option<Vec<Value>> {
    let of = context.own_type()?;
    let (managers, from_stored) = managers_of(context, stored, sent);
    if managers.is_empty() && old.is_some() {
        return Some(Vec::new());
    }
    let empty = if old.is_some() { Value::Null } else { context.empty_object(of) };
    let live = old.unwrap_or(&empty);
    // Objects of built-in kinds fit, or they would not have been decoded.
    if context.custom && !(fits(of, new) && fits(of, live)) {
        return None;
    }
    let before = managers.len();
    let managers = updater::current(context, live, managers).ok()?;
    let mut managers = track(context, of, live, new, managers, context.manager);
    if from_stored && managers.len() == before && managers.iter().all(Manager::is_same) {
        return None;
    }
    managed::cap(&mut managers);
    let spare = if let Some(Value::Array(spare)) = spare.take() { spare } else { Vec::new() };
    Some(managed::encode(managers, spare))
}

/// The managers that count: those that were sent, unless there are none or they make no sense. True with those
/// of the stored object, as far as each of its entries is one of them.
fn managers_of<'a>(
    context: &Context<'_>,
    stored: Option<&'a Value>,
    sent: Option<&'a Value>,
) -> (Vec<Manager<'a>>, bool) {
    if let (true, Some(sent)) = (context.subresource.is_empty(), sent.and_then(Value::as_array)) {
        if managed::is_reset(sent, context.custom) {
            return (Vec::new(), false);
        }
        if let Ok(managers) = managed::decode(sent)
            && !managers.is_empty()
        {
            return (managers.into_iter().map(|manager| Manager { entry: None, ..manager }).collect(), false);
        }
    }
    let stored = stored.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let managers = managed::decode_stored(stored).unwrap_or_default();
    // Two entries of one manager, as writes to a scale leave them, become one.
    let as_stored = managers.len() == stored.len();
    (managers, as_stored)
}

/// The managers after a change by somebody who did not apply.
fn track<'a>(
    context: &Context<'_>,
    of: TypeRef<'a>,
    old: &'a Value,
    new: &'a Value,
    mut managers: Vec<Manager<'a>>,
    name: &str,
) -> Vec<Manager<'a>> {
    let mut changes = updater::own_changes(context, of, old, new);
    changes.removed = without_entries(changes.removed);
    if changes.is_empty() && managers.iter().all(|manager| manager.api_version == context.api_version) {
        managers.retain(|manager| !manager.owns_nothing());
        return managers;
    }
    let set = changes.modified.clone().union(changes.added.clone());
    let set = managed::without_identity(context.reset.filter(set, true));
    let mut writer = Manager {
        name: Cow::Owned(if name.is_empty() { "unknown".to_owned() } else { name.to_owned() }),
        operation: Operation::Update,
        api_version: Cow::Owned(context.api_version.to_owned()),
        subresource: Cow::Owned(context.subresource.to_owned()),
        time: Some(clock::seconds(context.now).into()),
        set,
        unread: None,
        entry: None,
    };
    // Mostly somebody changes what belongs to them anyway: just the time is different then.
    let owner = managers.iter().position(|manager| {
        manager.is(&writer)
            && manager
                .unread
                .is_some_and(|stored| covers(stored, &writer.set) && !touches(stored, &changes.removed))
    });
    // Nobody is asked when somebody just writes, so that there are no conflicts.
    let _ = updater::settle(context, &mut managers, owner, (old, new), &changes, true);
    managers.retain(|manager| !manager.owns_nothing());
    if writer.set.is_empty() {
        return managers;
    }
    match managers.iter_mut().find(|manager| manager.is(&writer)) {
        Some(before) if owner.is_some() => before.time = writer.time,
        Some(before) => {
            before.read();
            writer.set = writer.set.union(std::mem::take(&mut before.set));
            *before = writer;
        }
        None => managers.push(writer),
    }
    managers
}

/// The paths without the entries themselves, which are taken out of the new object only.
fn without_entries(removed: Set<'_>) -> Set<'_> {
    removed.map_nodes(|node| {
        if let Element::Field("metadata") = node.element {
            node.children = std::mem::take(&mut node.children).map_nodes(|field| {
                if let Element::Field("managedFields") = field.element {
                    field.member = false;
                    field.children = Set::new();
                }
            });
        }
    })
}

/// Merges what somebody applies into the live object, or into nothing to create it.
///
/// The result is not complete: it goes through decoding and defaults like an object that was sent. An error is a
/// conflict with other managers, or something wrong with what was applied.
pub(crate) fn apply(
    context: &Context<'_>,
    force: bool,
    live: Option<&Value>,
    applied: &Value,
) -> Result<Value, Status> {
    let kind = last_applied::group_version_kind(applied);
    if kind != last_applied::kind_text(context.api_version, context.kind) {
        return Err(Status::bad_request(format!("invalid object type: {kind}")));
    }
    let Some(of) = context.own_type() else {
        return Err(failure(format!("no corresponding type for {kind}")));
    };
    let stored = live.map(|live| &live["metadata"]["managedFields"]).and_then(Value::as_array);
    let mut managers = match stored {
        Some(stored) => managed::decode(stored)
            .map_err(|why| failure(format!("failed to decode managed fields: {why}")))?,
        None => Vec::new(),
    };
    let is_first = live.is_none() || managers.is_empty();
    let empty = if is_first { context.empty_object(of) } else { Value::Null };
    let live_or_empty = live.unwrap_or(&empty);
    if managers.is_empty() && live.is_some() {
        managers = track(context, of, &empty, live_or_empty, managers, BEFORE_FIRST_APPLY);
        managed::cap(&mut managers);
    }
    if applied["metadata"]["managedFields"].is_array() {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    check(of, applied, false).map_err(|why| {
        failure(format!("failed to create typed patch object ({}): {why}", last_applied::named(applied)))
    })?;
    if context.custom {
        check(of, live_or_empty, true).map_err(|why| {
            let named = last_applied::named(live_or_empty);
            failure(format!("failed to create typed live object ({named}): {why}"))
        })?;
    }
    let managers = updater::current(context, live_or_empty, managers).map_err(failure)?;
    let outcome = merge(context, of, live_or_empty, applied, managers, force)?;
    Ok(finish(context, live_or_empty, applied, outcome))
}

/// Applies; without force conflicts may still be settled by what client-side apply left behind.
fn merge<'a>(
    context: &Context<'_>,
    of: TypeRef<'a>,
    live: &'a Value,
    applied: &'a Value,
    managers: Vec<Manager<'a>>,
    force: bool,
) -> Result<Outcome<'a>, Status> {
    let migrates = context.manager == last_applied::KUBECTL && !force;
    let again = migrates.then(|| managers.clone());
    let mut conflicts = match updater::apply(context, of, live, applied, managers, force) {
        Ok(outcome) => return Ok(outcome),
        Err(conflicts) => conflicts,
    };
    let settled =
        again.filter(|_| last_applied::other_conflicts(context, of, live, &mut conflicts).is_some());
    match settled {
        Some(managers) if conflicts.is_empty() => updater::apply(context, of, live, applied, managers, true)
            .map_err(|conflicts| conflict(&conflicts)),
        _ => Err(conflict(&conflicts)),
    }
}

/// Puts the managed fields, and the annotation of client-side apply, into the result.
fn finish(context: &Context<'_>, live: &Value, applied: &Value, outcome: Outcome<'_>) -> Value {
    let Outcome { object, mut managers, writer } = outcome;
    if let Some(manager) = managers.get_mut(writer) {
        manager.set = managed::without_identity(std::mem::take(&mut manager.set));
        if object.is_some() {
            manager.time = Some(clock::seconds(context.now).into());
        }
        if manager.set.is_empty() {
            managers.remove(writer);
        }
    }
    let mut object = object.unwrap_or_else(|| live.clone());
    let entries = managed::encode(managers, Vec::new());
    let fields = object
        .as_object_mut()
        .map(|fields| fields.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new())));
    if let Some(Value::Object(metadata)) = fields {
        metadata.remove("managedFields");
        if !entries.is_empty() {
            metadata.insert("managedFields".to_owned(), entries.into());
        }
    }
    if context.manager == last_applied::KUBECTL {
        last_applied::refresh(&mut object, applied);
    }
    object
}

/// A failure nobody foresaw: the real server has no reason for these either.
pub(super) fn failure(message: String) -> Status {
    Status::new(500, "", message)
}

fn conflict(conflicts: &[Conflict<'_>]) -> Status {
    let causes = conflicts
        .iter()
        .map(|conflict| Cause {
            reason: "FieldManagerConflict",
            message: format!("conflict with {}", conflict.shown),
            field: path_text(&conflict.path),
        })
        .collect();
    let message = match conflicts {
        [one] => {
            format!("Apply failed with 1 conflict: conflict with {}: {}", one.shown, path_text(&one.path))
        }
        many => {
            let mut lines = Vec::new();
            for group in many.chunk_by(|one, other| one.identifier == other.identifier) {
                lines.extend(group.first().map(|first| format!("conflicts with {}:", first.shown)));
                lines.extend(group.iter().map(|conflict| format!("- {}", path_text(&conflict.path))));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    let mut status = Status::new(409, "Conflict", message);
    status.details.causes = causes;
    status
}

/// Gives the managed fields of an object their old times back when nothing but these times is different, so that
/// a write without effect is none.
///
/// This comes after everything that changes the object, and with the resource version of the old one.
pub(crate) fn ignore_times(old: &Value, new: &mut Value) {
    if only_times_differ(old, new) {
        new["metadata"]["managedFields"] = old["metadata"]["managedFields"].clone();
    }
}

fn only_times_differ(old: &Value, new: &Value) -> bool {
    let (before, after) = (entries(old), entries(new));
    !before.is_empty()
        && before.len() == after.len()
        && before.iter().zip(after).all(|(before, after)| equal_but(before, after, "time"))
        && before != after
        && equal_but(&old["metadata"], &new["metadata"], "managedFields")
        && equal_but(old, new, "metadata")
}

fn entries(object: &Value) -> &[Value] {
    object["metadata"]["managedFields"].as_array().map_or(&[], Vec::as_slice)
}

/// True for objects that have the same fields, apart from one.
fn equal_but(left: &Value, right: &Value, name: &str) -> bool {
    let (Some(left), Some(right)) = (left.as_object(), right.as_object()) else { return left == right };
    left.iter().filter(|(other, _)| *other != name).eq(right.iter().filter(|(other, _)| *other != name))
}
