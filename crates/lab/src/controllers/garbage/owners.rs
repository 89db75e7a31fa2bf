//! What is known about the owners an object names.

use std::sync::Arc;

use super::{FOREGROUND, waits};
use crate::names::Gvk;
use crate::registry::Served;
use crate::server::Server;
use crate::store::{Key, Owner};

/// What is known about an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerState {
    /// It is there, and its deletion does not wait for dependents.
    Solid,
    /// It is being deleted and waits for its dependents.
    Waiting,
    /// It is gone.
    Gone,
    /// Its kind is not served, at least not now.
    Unknown,
    /// An object of the cluster cannot be owned by one of a namespace.
    Impossible,
}

/// What a new reference looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference {
    /// The owner is there, and is what the reference says.
    Fits,
    /// There is no such owner, or it goes by other names.
    Doubtful,
    /// The owner is in another namespace.
    OtherNamespace,
}

fn served(server: &Server, owner: &Owner) -> Option<Arc<Served>> {
    let (group, version) = owner.api_version.rsplit_once('/').unwrap_or(("", &owner.api_version));
    server.registry().by_kind(&Gvk::new(group, version, &owner.kind))
}

/// Looks for an owner where the reference of a dependent says it is.
pub(super) fn state(server: &Server, dependent: &Key, owner: &Owner) -> OwnerState {
    let Some(served) = served(server, owner) else { return OwnerState::Unknown };
    if served.namespaced && dependent.namespace.is_empty() {
        return OwnerState::Impossible;
    }
    let namespace = if served.namespaced { dependent.namespace.as_str() } else { "" };
    match server.store().get(&served.stored_as, &Key::new(namespace, owner.name.as_str())) {
        Some(record) if record.index.uid == owner.uid => {
            if waits(&record, FOREGROUND) {
                OwnerState::Waiting
            } else {
                OwnerState::Solid
            }
        }
        _ => OwnerState::Gone,
    }
}

/// Compares a reference with the object of its uid.
pub(super) fn compare(server: &Server, dependent: &Key, owner: &Owner) -> Reference {
    let Some((of, key)) = server.store().by_uid(&owner.uid) else { return Reference::Doubtful };
    if !key.namespace.is_empty() && key.namespace != dependent.namespace {
        return Reference::OtherNamespace;
    }
    let fits = key.name == owner.name && served(server, owner).is_some_and(|served| served.stored_as == of);
    if fits { Reference::Fits } else { Reference::Doubtful }
}

/// The references that blocked an owner and do so no longer.
pub(super) fn drops_blocker<'a>(old: &'a [Owner], new: &'a [Owner]) -> impl Iterator<Item = &'a Owner> {
    let still = |old: &Owner| new.iter().any(|new| new.uid == old.uid && new.blocks);
    old.iter().filter(move |owner| owner.blocks && !still(owner))
}

/// A reference as the real collector writes it down.
pub(super) fn describe(owner: &Owner, namespace: &str) -> String {
    let Owner { api_version, kind, name, uid, .. } = owner;
    format!("[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]")
}
