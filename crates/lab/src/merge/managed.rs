//! The entries of `metadata.managedFields`.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::element::Element;
use super::set::Set;
use super::{fields, go};
use crate::clock;

/// How many entries of updates there may be before the oldest become one.
const MOST_UPDATERS: usize = 10;

/// The name of the entry for the oldest updates.
const ANCIENT: &str = "ancient-changes";

/// What nobody owns, although somebody wrote it.
const NOT_OWNED: [&str; 2] = ["apiVersion", "kind"];

/// What nobody owns of the metadata, sorted.
const NOT_OWNED_METADATA: [&str; 9] = [
    "clusterName",
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// How a manager wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// Who somebody is to whom fields belong. Somebody who applies is the same in all versions.
#[derive(Debug, Clone)]
pub(super) struct Manager<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) operation: Operation,
    pub(super) api_version: Cow<'a, str>,
    pub(super) subresource: Cow<'a, str>,
    pub(super) time: Option<Cow<'a, str>>,
    /// The paths; see [`Manager::unread`].
    pub(super) set: Set<'a>,
    /// The paths in their stored form, as long as nobody needed them: most writes concern few managers.
    pub(super) unread: Option<&'a Value>,
    /// The entry this was read from and its place, as long as it says the same, apart from the time.
    pub(super) entry: Option<(usize, &'a Value)>,
}

impl<'a> Manager<'a> {
    pub(super) fn is(&self, other: &Manager<'_>) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Replaces the paths by others.
    pub(super) fn set_to(&mut self, set: Set<'a>) {
        self.set = set;
        self.unread = None;
        self.entry = None;
    }

    /// Makes sure that the paths are read.
    pub(super) fn read(&mut self) {
        if let Some(unread) = self.unread.take() {
            // Stored entries were written here, so that they can be read.
            self.set = fields::decode(unread).unwrap_or_default();
        }
    }

    /// True when the entry this was read from can stay as it is.
    pub(super) fn is_same(&self) -> bool {
        self.entry.is_some_and(|(_, entry)| entry["time"].as_str() == self.time.as_deref())
    }

    /// True when nothing is owned.
    pub(super) fn owns_nothing(&self) -> bool {
        self.unread.is_none() && self.set.is_empty()
    }

    /// The text by which managers are sorted where their order is seen.
    pub(super) fn identifier(&self) -> String {
        let mut out = String::from("{");
        let api_version = if self.operation == Operation::Update { &*self.api_version } else { "" };
        let fields = [
            ("manager", &*self.name),
            ("operation", self.operation.text()),
            ("apiVersion", api_version),
            ("subresource", &*self.subresource),
        ];
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            if out.len() > 1 {
                out.push(',');
            }
            go::push_json_text(&mut out, name, true);
            out.push(':');
            go::push_json_text(&mut out, value, true);
        }
        out.push('}');
        out
    }

    /// The manager as conflicts name it.
    pub(super) fn shown(&self) -> String {
        let mut text = go::quote(&self.name);
        if !self.subresource.is_empty() {
            text.push_str(" with subresource ");
            text.push_str(&go::quote(&self.subresource));
        }
        if self.operation == Operation::Update {
            text.push_str(" using ");
            text.push_str(&self.api_version);
        }
        text
    }

    /// The entry. The stored entries may be given away for it.
    fn encode(&self, spare: &mut [Value]) -> Value {
        if let Some((place, entry)) = self.entry {
            let mut entry = spare.get_mut(place).map_or_else(|| entry.clone(), Value::take);
            if let (Some(time), Value::Object(fields)) = (&self.time, &mut entry)
                && fields.get("time").and_then(Value::as_str) != Some(time)
            {
                fields.insert("time".to_owned(), time.as_ref().into());
            }
            return entry;
        }
        let mut entry = Map::new();
        let mut text = |name: &str, value: &str| {
            if !value.is_empty() {
                entry.insert(name.to_owned(), value.into());
            }
        };
        text("manager", &self.name);
        text("operation", self.operation.text());
        text("apiVersion", &self.api_version);
        text("time", self.time.as_deref().unwrap_or_default());
        text("fieldsType", "FieldsV1");
        text("subresource", &self.subresource);
        entry.insert("fieldsV1".to_owned(), fields::encode(&self.set));
        Value::Object(entry)
    }
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Reads the entries.
pub(super) fn decode(entries: &[Value]) -> Result<Vec<Manager<'_>>, String> {
    decode_all(entries, true)
}

/// Reads the entries, but not yet the paths.
pub(super) fn decode_stored(entries: &[Value]) -> Result<Vec<Manager<'_>>, String> {
    decode_all(entries, false)
}

fn decode_all(entries: &[Value], read: bool) -> Result<Vec<Manager<'_>>, String> {
    let mut managers: Vec<Manager<'_>> = Vec::with_capacity(entries.len() + 1);
    for (place, entry) in entries.iter().enumerate() {
        let manager = decode_entry(entry, place, read)?;
        match managers.iter_mut().find(|other| other.is(&manager)) {
            Some(same) => *same = manager,
            None => managers.push(manager),
        }
    }
    Ok(managers)
}

fn decode_entry(entry: &Value, place: usize, read: bool) -> Result<Manager<'_>, String> {
    let text = |name: &str| match entry.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(format!("{name} must be a string in managed fields entry {place}")),
    };
    let operation = match text("operation")? {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    let api_version = text("apiVersion")?;
    if api_version.is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    match text("fieldsType")? {
        "FieldsV1" => {}
        "" => return Err(format!("missing fieldsType in managed fields entry {place}")),
        other => {
            return Err(format!("invalid fieldsType {} in managed fields entry {place}", go::quote(other)));
        }
    }
    let owned = entry.get("fieldsV1").filter(|owned| !owned.is_null());
    let (set, unread) = match owned {
        Some(owned) if read => {
            let set = fields::decode(owned).map_err(|why| {
                format!("error decoding versioned set from {}: error decoding set: {why}", go::verb(entry))
            })?;
            (set, None)
        }
        other => (Set::new(), other),
    };
    let time = match text("time")? {
        "" => None,
        text if is_plain_time(text) => Some(Cow::Borrowed(text)),
        text => {
            let at: Timestamp = text.parse().map_err(|_| format!("cannot parse time {}", go::quote(text)))?;
            Some(Cow::Owned(clock::seconds(at)))
        }
    };
    Ok(Manager {
        name: text("manager")?.into(),
        operation,
        api_version: api_version.into(),
        subresource: text("subresource")?.into(),
        time,
        set,
        unread,
        entry: Some((place, entry)),
    })
}

/// True for the form in which times are stored.
fn is_plain_time(text: &str) -> bool {
    text.len() == 20
        && text
            .bytes()
            .zip(b"0000-00-00T00:00:00Z")
            .all(|(byte, like)| if *like == b'0' { byte.is_ascii_digit() } else { byte == *like })
}

/// True when somebody wants the entries forgotten: an empty list, or one entry that says nothing. The empty list
/// of a custom resource is lost before anybody looks at it.
pub(super) fn is_reset(entries: &[Value], custom: bool) -> bool {
    let says_nothing = |entry: &Value| {
        entry.as_object().is_some_and(|fields| {
            fields.iter().all(|(name, value)| match value {
                Value::Null => true,
                Value::String(text) => text.is_empty(),
                // Fields that are not known are not looked at.
                _ => !matches!(
                    name.as_str(),
                    "manager"
                        | "operation"
                        | "apiVersion"
                        | "time"
                        | "fieldsType"
                        | "fieldsV1"
                        | "subresource"
                ),
            })
        })
    };
    match entries {
        [] => !custom,
        [one] => says_nothing(one),
        _ => false,
    }
}

/// The paths without those that nobody owns.
pub(super) fn without_identity(set: Set<'_>) -> Set<'_> {
    set.map_nodes(|node| match node.element {
        Element::Field(name) if NOT_OWNED.contains(&name) => node.member = false,
        Element::Field("metadata") => {
            node.member = false;
            node.children = std::mem::take(&mut node.children).map_nodes(|field| match field.element {
                Element::Field(name) if NOT_OWNED_METADATA.binary_search(&name).is_ok() => {
                    field.member = false;
                }
                _ => {}
            });
        }
        _ => {}
    })
}

/// Makes one entry of the oldest updates, per version, when there are too many.
pub(super) fn cap(managers: &mut Vec<Manager<'_>>) {
    let mut length = managers.iter().filter(|manager| manager.operation == Operation::Update).count();
    if length <= MOST_UPDATERS {
        return;
    }
    managers.iter_mut().for_each(Manager::read);
    let mut updaters: Vec<(Option<Cow<'_, str>>, String)> = managers
        .iter()
        .filter(|manager| manager.operation == Operation::Update)
        .map(|manager| (manager.time.clone(), manager.identifier()))
        .collect();
    updaters.sort();
    let mut first_of: Vec<(String, String)> = Vec::new();
    for (_, updater) in updaters {
        if length <= MOST_UPDATERS {
            return;
        }
        let Some(place) = managers.iter().position(|manager| manager.identifier() == updater) else {
            continue;
        };
        let version = managers[place].api_version.to_string();
        let Some((_, first)) = first_of.iter().find(|(known, _)| *known == version) else {
            first_of.push((version, updater));
            continue;
        };
        let bucket = managers.iter().position(|manager| {
            manager.name == ANCIENT
                && manager.operation == Operation::Update
                && manager.api_version == version
                && manager.subresource.is_empty()
        });
        let bucket = bucket.or_else(|| {
            // The first one of the version becomes the entry for all of them.
            let first = managers.iter().position(|manager| manager.identifier() == *first)?;
            managers[first].name = Cow::Borrowed(ANCIENT);
            managers[first].subresource = Cow::Borrowed("");
            Some(first)
        });
        let Some(bucket) = bucket else { continue };
        // An entry for the oldest updates that is not the oldest itself is lost, as it is in the real server.
        let Manager { set, time, .. } = managers[place].clone();
        let merged = set.union(std::mem::take(&mut managers[bucket].set));
        managers[bucket].set_to(merged);
        managers[bucket].time = time;
        managers.remove(place);
        length -= 1;
    }
}

/// The entries as they are stored: those of appliers first, older ones before newer ones. The stored entries may
/// be given away for them.
pub(super) fn encode(mut managers: Vec<Manager<'_>>, mut spare: Vec<Value>) -> Vec<Value> {
    managers.sort_by(|left, right| {
        (left.operation.cmp(&right.operation))
            .then_with(|| left.time.cmp(&right.time))
            .then_with(|| left.name.cmp(&right.name))
            .then_with(|| left.api_version.cmp(&right.api_version))
            .then_with(|| left.subresource.cmp(&right.subresource))
    });
    managers.iter().map(|manager| manager.encode(&mut spare)).collect()
}

/// Says what is wrong with entries, if anything is.
pub(crate) fn check_entries(entries: &Value) -> Result<(), String> {
    match entries {
        Value::Null => Ok(()),
        Value::Array(entries) => decode(entries).map(|_| ()),
        _ => Err("managedFields must be a list".to_owned()),
    }
}
