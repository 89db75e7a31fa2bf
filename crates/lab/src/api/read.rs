//! Get, list and the beginning of a watch.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use serde_json::{Value, json};

use super::Call;
use super::filter::Filter;
use super::negotiate::{self, Format};
use super::present::{Answer, Presenter};
use super::reply::Reply;
use super::watch::{Start, StillServed, Watch, expired};
use crate::registry::{self, Served};
use crate::server::Server;
use crate::status::{Cause, FieldProblem, Problem, Status};
use crate::store::{Key, Listing, OutOfRange, Query, Record};

/// How long a watch lasts at least when the client does not say. It may be up to twice as long, so that not all clients
/// come back at once.
const DEFAULT_WATCH: Duration = Duration::from_mins(30);

/// `GET` of one object.
pub(crate) async fn get(server: &Arc<Server>, call: &Call, served: &Arc<Served>) -> Result<Reply, Status> {
    let output = negotiate::output_of(call, served, false)?;
    let presenter = Presenter::new(server, served, output, &call.parameters)?;
    let wanted = version_parameter(call)?;
    if let Some(version) = wanted {
        not_in_the_future(version, server.store().version())?;
    }
    let record = find(server, call, served).await?;
    Ok(answer(200, presenter.object(&record).await?, output))
}

/// The object a call names, once it is safe; or the one before it, when the fault plan says so.
pub(crate) async fn find(server: &Arc<Server>, call: &Call, served: &Served) -> Result<Arc<Record>, Status> {
    let key = call.key(served);
    let missing = || Status::not_found(&served.resource.group, &served.resource.resource, &key.name);
    if let Some(back) = call.trouble.stale {
        let version = server.store().version().saturating_sub(back);
        let query = Query { namespace: Some(&key.namespace), ..Query::default() };
        if let Ok(listing) = server.store().list_at(&served.stored_as, version, &query, |at, _| *at == key) {
            server.settled(version).await?;
            return listing.records.into_iter().next().ok_or_else(missing);
        }
    }
    let record = server.store().get(&served.stored_as, &key).ok_or_else(missing)?;
    server.settled(record.version).await?;
    Ok(record)
}

/// An answer in the client's form.
pub(crate) fn answer(code: u16, answer: Answer, output: negotiate::Output) -> Reply {
    match answer {
        Answer::Bytes(bytes) => Reply::written(code, bytes, output),
        Answer::Value(value) => Reply::object(code, &value, output),
    }
}

/// `GET` of a collection.
pub(crate) async fn list(server: &Arc<Server>, call: &Call, served: &Arc<Served>) -> Result<Reply, Status> {
    check_options(call, false)?;
    let output = negotiate::output_of(call, served, true)?;
    let presenter = Presenter::new(server, served, output, &call.parameters)?;
    let filter = call.filter(served)?;
    let limit = number(call, "limit")?.unwrap_or(0);
    let limit = usize::try_from(limit).unwrap_or(0);
    let (listing, metadata) = page(server, call, served, &filter, limit).await?;
    Ok(answer(200, presenter.list(&listing, metadata).await?, output))
}

/// Finds one page of a list, and its metadata.
async fn page(
    server: &Arc<Server>,
    call: &Call,
    served: &Served,
    filter: &Filter,
    limit: usize,
) -> Result<(Listing, Value), Status> {
    let store = server.store();
    let keep = |key: &Key, record: &Record| filter.matches(key, record);
    let mut query = Query { namespace: filter.namespace.as_deref(), after: None, limit };
    let token = call.parameters.text("continue");
    let listing = if token.is_empty() {
        let version = version_parameter(call)?;
        // A list from the past is asked for by an exact match, or by a limit as old clients do it.
        let exact = match call.parameters.text("resourceVersionMatch") {
            "" => limit > 0 && version.is_some_and(|version| version > 0),
            matching => matching == "Exact",
        };
        let stale = call.trouble.stale.map(|back| store.version().saturating_sub(back));
        match (version, stale) {
            (_, Some(stale)) => store
                .list_at(&served.stored_as, stale, &query, keep)
                .unwrap_or_else(|_| store.list(&served.stored_as, &query, keep)),
            (Some(version), None) if version > 0 && exact => store
                .list_at(&served.stored_as, version, &query, keep)
                .map_err(|problem| out_of_range(version, problem, None))?,
            (version, None) => {
                if let Some(version) = version {
                    not_in_the_future(version, store.version())?;
                }
                // Any version is acceptable for "0": the real server then ignores the limit.
                if version == Some(0) && !exact {
                    query.limit = 0;
                }
                store.list(&served.stored_as, &query, keep)
            }
        }
    } else {
        if !call.parameters.text("resourceVersion").is_empty() {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let Token { version, after } = Token::read(token)?;
        query.after = Some(after.clone());
        match version {
            Some(version) => store.list_at(&served.stored_as, version, &query, keep).map_err(|problem| {
                out_of_range(version, problem, Some(Token { version: None, after: after.clone() }))
            })?,
            None => store.list(&served.stored_as, &query, keep),
        }
    };
    server.settled(listing.version.min(store.version())).await?;
    let mut metadata = json!({"resourceVersion": listing.version.to_string()});
    if let Some(next) = &listing.next {
        let token = Token { version: Some(listing.version), after: next.clone() };
        metadata["continue"] = token.write().into();
        if filter.selects_all() {
            metadata["remainingItemCount"] = listing.remaining.into();
        }
    }
    Ok((listing, metadata))
}

/// The objects a call is about, for deleting them one by one.
pub(crate) fn matching(server: &Server, served: &Served, filter: &Filter, limit: usize) -> Listing {
    let query = Query { namespace: filter.namespace.as_deref(), after: None, limit };
    server.store().list(&served.stored_as, &query, |key, record| filter.matches(key, record))
}

/// `GET` of a collection with `watch`.
pub(crate) async fn watch(server: &Arc<Server>, call: &Call, served: &Arc<Served>) -> Result<Reply, Status> {
    check_options(call, true)?;
    let mut output = negotiate::output_of(call, served, false)?;
    output.pretty = false;
    if output.format == Format::Yaml {
        output.format = Format::Json;
    }
    let presenter = Presenter::new(server, served, output, &call.parameters)?;
    let filter = call.filter(served)?;
    let bookmarks = call.parameters.flag("allowWatchBookmarks");
    let wanted = version_parameter(call)?;
    let send_initial = call.parameters.get("sendInitialEvents").map(|value| value != "false" && value != "0");
    let store = server.store();

    let everything = match send_initial {
        Some(send) => send,
        // Without a version a watch begins with what is there.
        None => wanted.is_none_or(|version| version == 0),
    };
    let start = if everything {
        if let Some(version) = wanted {
            not_in_the_future(version, store.version())?;
        }
        let query = Query { namespace: filter.namespace.as_deref(), ..Query::default() };
        let listing = store.list(&served.stored_as, &query, |key, record| filter.matches(key, record));
        server.settled(listing.version).await?;
        let announce_end = send_initial == Some(true) && bookmarks;
        Start { version: listing.version, initial: listing.records, announce_end }
    } else {
        let version = match wanted {
            Some(version) if version > 0 => version,
            _ => store.version(),
        };
        Start { version, initial: Vec::new(), announce_end: false }
    };
    let timeout = match number(call, "timeoutSeconds")? {
        Some(seconds) if seconds > 0 => {
            Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX).min(86_400))
        }
        _ => DEFAULT_WATCH.mul_f64(1.0 + server.chance().fraction(&["watch"])),
    };
    let media_type = match output.format {
        Format::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        _ => "application/json",
    };
    let faults = call.trouble.watch.clone();
    let served = served.custom_version().map(|_| {
        let (server, served) = (Arc::downgrade(server), Arc::clone(served));
        let check = move || {
            let (kind, resource) = (&served.kind, &served.resource.resource);
            server
                .upgrade()
                .is_some_and(|server| server.registry().find(&kind.group, &kind.version, resource).is_some())
        };
        StillServed::new(store.subscribe(&registry::definitions()), check)
    });
    let watch = Watch { store: Arc::clone(store), presenter, filter, bookmarks, timeout, faults, served };
    Ok(Reply::stream(media_type, watch.run(start)))
}

/// What a paged list goes on with. Without a version the rest is read from the present.
#[derive(Debug)]
struct Token {
    version: Option<u64>,
    after: Key,
}

impl Token {
    fn write(&self) -> String {
        let version = self.version.map_or(-1, |version| i64::try_from(version).unwrap_or(i64::MAX));
        let start = format!("{}/{}\u{0}", self.after.namespace, self.after.name);
        BASE64.encode(json!({"v": "meta.k8s.io/v1", "rv": version, "start": start}).to_string())
    }

    fn read(text: &str) -> Result<Self, Status> {
        let invalid = |why: String| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = base64::engine::general_purpose::STANDARD_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|error| invalid(error.to_string()))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
        if token["v"] != "meta.k8s.io/v1" {
            return Err(invalid("server does not recognize this encoded version".to_owned()));
        }
        let start = token["start"].as_str().unwrap_or_default().trim_end_matches('\u{0}');
        let (namespace, name) = start
            .split_once('/')
            .ok_or_else(|| invalid("incorrect encoded start resourceVersion".to_owned()))?;
        let version = token["rv"].as_i64().and_then(|version| u64::try_from(version).ok());
        Ok(Self { version, after: Key::new(namespace, name) })
    }
}

/// What a client is told when the version it wants is not there.
fn out_of_range(version: u64, problem: OutOfRange, instead: Option<Token>) -> Status {
    match problem {
        OutOfRange::Future(newest) => too_large(version, newest),
        OutOfRange::Expired => {
            if let Some(token) = instead {
                let mut status = Status::new(
                    410,
                    "Expired",
                    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
                );
                status.resume = Some(token.write());
                status
            } else {
                let mut status = expired(version, version);
                "The resourceVersion for the provided list is too old.".clone_into(&mut status.message);
                status
            }
        }
    }
}

fn not_in_the_future(version: u64, newest: u64) -> Result<(), Status> {
    if version > newest { Err(too_large(version, newest)) } else { Ok(()) }
}

fn too_large(version: u64, newest: u64) -> Status {
    let message = format!("Timeout: Too large resource version: {version}, current: {newest}");
    let mut status = Status::new(504, "Timeout", message);
    status.details.retry_after_seconds = Some(1);
    status.details.causes.push(Cause {
        reason: "ResourceVersionTooLarge",
        message: "Too large resource version".to_owned(),
        field: String::new(),
    });
    status
}

/// The resource version a request names; none when it names none.
fn version_parameter(call: &Call) -> Result<Option<u64>, Status> {
    let text = call.parameters.text("resourceVersion");
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        Status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}

/// A parameter that is a whole number.
fn number(call: &Call, name: &str) -> Result<Option<i64>, Status> {
    match call.parameters.get(name) {
        None | Some("") => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))),
    }
}

/// Combinations of list options that make no sense.
fn check_options(call: &Call, watching: bool) -> Result<(), Status> {
    let parameters = &call.parameters;
    let matching = parameters.text("resourceVersionMatch");
    let version = parameters.text("resourceVersion");
    let initial = parameters.get("sendInitialEvents");
    let mut problems = Vec::new();
    let mut forbidden = |field: &str, why: &str| {
        problems.push(FieldProblem::new(field, Problem::Forbidden(why.to_owned())));
    };
    if watching {
        match (initial, matching) {
            (Some(_), "NotOlderThan") | (None, "") => {}
            (Some(_), _) => forbidden(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            (None, _) => {
                forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                );
            }
        }
    } else {
        if initial.is_some() {
            forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        if !matching.is_empty() {
            if !parameters.text("continue").is_empty() {
                forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden when continue is provided",
                );
            }
            if version.is_empty() {
                forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                );
            }
            if !matches!(matching, "Exact" | "NotOlderThan") {
                let choices = vec!["Exact".to_owned(), "NotOlderThan".to_owned(), String::new()];
                problems.push(FieldProblem::new(
                    "resourceVersionMatch",
                    Problem::NotSupported(matching.into(), choices),
                ));
            } else if matching == "Exact" && version == "0" {
                problems.push(FieldProblem::new(
                    "resourceVersionMatch",
                    Problem::Forbidden(
                        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"".to_owned(),
                    ),
                ));
            }
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid("meta.k8s.io", "ListOptions", "", problems))
    }
}
