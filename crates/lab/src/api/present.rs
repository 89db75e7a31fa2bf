//! Stored objects in the version and form a client asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::negotiate::{Format, Output, View};
use super::request::Parameters;
use crate::crd::CustomVersion;
use crate::names::{GroupResource, Gvk};
use crate::proto;
use crate::registry::{Served, Source};
use crate::server::Server;
use crate::status::Status;
use crate::store::{Listing, Record};
use crate::table::{self, Column};
use crate::together::side_by_side;

/// How much of an object a row of a table carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

/// Turns records of one resource into what one client wants to see.
#[derive(Debug)]
pub(crate) struct Presenter {
    server: Arc<Server>,
    served: Arc<Served>,
    output: Output,
    include: Include,
    /// The first table of a watch carries the columns, the others do not.
    columns_sent: AtomicBool,
}

impl Presenter {
    pub(crate) fn new(
        server: &Arc<Server>,
        served: &Arc<Served>,
        output: Output,
        parameters: &Parameters,
    ) -> Result<Self, Status> {
        let include = match parameters.text("includeObject") {
            "None" => Include::Nothing,
            "" | "Metadata" => Include::Metadata,
            "Object" => Include::Object,
            other => {
                return Err(Status::bad_request(format!("unrecognized includeObject value: {other:?}")));
            }
        };
        let (server, served) = (Arc::clone(server), Arc::clone(served));
        Ok(Self { server, served, output, include, columns_sent: AtomicBool::new(false) })
    }

    /// Where the objects are stored.
    pub(crate) fn stored_as(&self) -> &GroupResource {
        &self.served.stored_as
    }

    /// True when the stored bytes are what the client gets.
    pub(crate) fn is_plain(&self, record: &Record) -> bool {
        self.output.is_plain() && self.served.shows_as_stored(record)
    }

    /// True when the stored bytes do not do, so that a webhook may have to be asked.
    fn is_made_anew(&self, record: &Record) -> bool {
        !self.served.shows_as_stored(record) && !self.served.differs_in_version_only(record)
    }

    /// An object in the version of this resource, as JSON bytes.
    async fn body(&self, record: &Record) -> Result<Bytes, Status> {
        if self.served.shows_as_stored(record) {
            return Ok(record.body.clone());
        }
        if self.served.differs_in_version_only(record) {
            return Ok(record.retyped(&self.served.kind.api_version(), &self.served.kind.kind));
        }
        Ok(self.server.read(&self.served, record).await?.to_string().into())
    }

    /// One object, as the answer to a get or a write.
    pub(crate) async fn object(&self, record: &Record) -> Result<Answer, Status> {
        match self.output.view {
            View::Object if self.output.format == Format::Json && !self.output.pretty => {
                Ok(Answer::Bytes(self.body(record).await?))
            }
            _ => Ok(Answer::Value(self.view(self.server.read(&self.served, record).await?))),
        }
    }

    /// An object that is not stored, such as the outcome of a dry run, in the client's form.
    pub(crate) fn view(&self, object: Value) -> Value {
        match self.output.view {
            View::Object => object,
            View::Metadata => self.metadata_of(&object),
            View::Table => self.table(std::slice::from_ref(&object), &object["metadata"], true),
        }
    }

    /// An object of another kind than the resource's, such as its scale, in the client's form.
    pub(crate) fn view_as(&self, kind: &Gvk, object: Value) -> Value {
        match self.output.view {
            View::Object | View::Metadata => self.view(object),
            View::Table => {
                let cells = table::row(kind, &object, self.server.clock().now());
                self.tabled(&table::columns(kind), &[self.row(&cells, &object)], &object["metadata"], true)
            }
        }
    }

    /// A list.
    pub(crate) async fn list(&self, listing: &Listing, metadata: Value) -> Result<Answer, Status> {
        if self.output.view == View::Object && self.output.format == Format::Json && !self.output.pretty {
            return self.plain_list(listing, &metadata).await.map(Answer::Bytes);
        }
        let mut objects =
            side_by_side(&listing.records, |record| self.server.read(&self.served, record)).await?;
        let typed = matches!(self.served.source, Source::Builtin(_));
        Ok(Answer::Value(match self.output.view {
            View::Table => self.table(&objects, &metadata, true),
            View::Metadata => json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": format!("meta.k8s.io/{}", self.output.meta_version),
                "metadata": metadata,
                "items": objects.iter().map(|object| self.metadata_of(object)).collect::<Vec<_>>(),
            }),
            View::Object => {
                if typed {
                    for object in &mut objects {
                        if let Some(fields) = object.as_object_mut() {
                            fields.remove("apiVersion");
                            fields.remove("kind");
                        }
                    }
                }
                json!({
                    "kind": self.served.list_kind, "apiVersion": self.served.kind.api_version(),
                    "metadata": metadata, "items": objects,
                })
            }
        }))
    }

    /// A list put together from the stored bytes.
    async fn plain_list(&self, listing: &Listing, metadata: &Value) -> Result<Bytes, Status> {
        let typed = matches!(self.served.source, Source::Builtin(_));
        let size: usize = listing.records.iter().map(|record| record.body.len() + 1).sum();
        let head = format!(
            "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
            json!(self.served.list_kind),
            json!(self.served.kind.api_version()),
        );
        let anew: Vec<_> = listing.records.iter().filter(|record| self.is_made_anew(record)).collect();
        let mut anew = side_by_side(&anew, |record| self.body(record)).await?.into_iter();
        let mut list = Vec::with_capacity(size + head.len() + 2);
        list.extend_from_slice(head.as_bytes());
        for (place, record) in listing.records.iter().enumerate() {
            if place > 0 {
                list.push(b',');
            }
            if typed && self.served.shows_as_stored(record) {
                list.push(b'{');
                list.extend_from_slice(record.untyped());
            } else if self.is_made_anew(record) {
                list.extend_from_slice(&anew.next().unwrap_or_default());
            } else {
                let body = self.body(record).await?;
                list.extend_from_slice(&body);
            }
        }
        list.extend_from_slice(b"]}");
        Ok(list.into())
    }

    /// One event of a watch, in the framing of the client's format.
    pub(crate) async fn event(&self, word: &str, record: &Record) -> Result<Bytes, Status> {
        if self.output.view == View::Object && self.output.format != Format::Protobuf {
            return Ok(crate::store::line(word, &self.body(record).await?));
        }
        // Events are made side by side: the first one is not the one whose object is there first.
        let first = self.output.view == View::Table && !self.columns_sent.swap(true, Ordering::Relaxed);
        let object = self.server.read(&self.served, record).await?;
        let object = match self.output.view {
            View::Object => object,
            View::Metadata => self.metadata_of(&object),
            View::Table => self.table(std::slice::from_ref(&object), &object["metadata"], first),
        };
        Ok(self.frame(word, &object))
    }

    /// A bookmark with this metadata.
    pub(crate) fn bookmark(&self, metadata: &Value) -> Bytes {
        let object = json!({"kind": self.served.kind.kind, "apiVersion": self.served.kind.api_version(), "metadata": metadata});
        let object = match self.output.view {
            View::Object => object,
            View::Metadata => self.metadata_of(&object),
            View::Table => {
                let first = !self.columns_sent.swap(true, Ordering::Relaxed);
                self.table(std::slice::from_ref(&object), &object["metadata"], first)
            }
        };
        self.frame("BOOKMARK", &object)
    }

    /// The error that ends a watch.
    pub(crate) fn error(&self, status: &Value) -> Bytes {
        self.frame("ERROR", status)
    }

    fn frame(&self, word: &str, object: &Value) -> Bytes {
        if self.output.format == Format::Protobuf
            && let Some(encoded) = super::reply::encoded(object)
        {
            return proto::watch_event(word, &encoded).into();
        }
        crate::store::line(word, object.to_string().as_bytes())
    }

    fn metadata_of(&self, object: &Value) -> Value {
        json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": format!("meta.k8s.io/{}", self.output.meta_version),
            "metadata": object["metadata"],
        })
    }

    fn table(&self, objects: &[Value], metadata: &Value, with_columns: bool) -> Value {
        let now = self.server.clock().now();
        let cells = match self.served.custom_version() {
            None => table::rows(&self.served.kind, &objects.iter().collect::<Vec<_>>(), now),
            Some(version) => objects.iter().map(|object| custom_cells(version, object, now)).collect(),
        };
        let rows: Vec<Value> =
            cells.iter().zip(objects).map(|(cells, object)| self.row(cells, object)).collect();
        self.tabled(&self.columns(), &rows, metadata, with_columns)
    }

    /// A row of a table, with as much of its object as the client wants.
    fn row(&self, cells: &[Value], object: &Value) -> Value {
        let mut row = json!({"cells": cells});
        let conditions = table::conditions(&self.served.kind, object);
        if !conditions.is_empty() {
            row["conditions"] = conditions.into();
        }
        match self.include {
            Include::Nothing => {}
            Include::Metadata => row["object"] = self.metadata_of(object),
            Include::Object => row["object"] = object.clone(),
        }
        row
    }

    fn tabled(&self, columns: &[Column], rows: &[Value], metadata: &Value, with_columns: bool) -> Value {
        let mut kept = Map::new();
        for key in ["resourceVersion", "continue", "remainingItemCount"] {
            if let Some(value) = metadata.get(key) {
                kept.insert(key.to_owned(), value.clone());
            }
        }
        let definitions =
            if with_columns { columns.iter().map(Column::to_value).collect() } else { Value::Null };
        json!({
            "kind": "Table", "apiVersion": format!("meta.k8s.io/{}", self.output.meta_version),
            "metadata": kept, "columnDefinitions": definitions, "rows": rows,
        })
    }

    fn columns(&self) -> Vec<Column> {
        match self.served.custom_version() {
            None => table::columns(&self.served.kind),
            Some(version) => custom_columns(version),
        }
    }
}

/// Something to answer with: bytes that exist, or an object to be written.
#[derive(Debug)]
pub(crate) enum Answer {
    Bytes(Bytes),
    Value(Value),
}

/// The columns of a custom kind: the name, and what its definition says.
fn custom_columns(version: &CustomVersion) -> Vec<Column> {
    let name = Column {
        name: "Name".to_owned(),
        kind: "string".to_owned(),
        format: "name".to_owned(),
        description: "Name is unique within its resource and namespace.".to_owned(),
        priority: 0,
    };
    let own = version.columns.columns.iter().map(|column| Column {
        name: column.name.clone(),
        kind: column.kind.clone(),
        format: column.format.clone(),
        description: column.description.clone(),
        priority: column.priority,
    });
    std::iter::once(name).chain(own).collect()
}

/// The cells of an object of a custom kind.
fn custom_cells(version: &CustomVersion, object: &Value, now: Timestamp) -> Vec<Value> {
    let age = |moment: crate::gotime::Moment| {
        let past = now.as_nanosecond() - moment.total_nanos();
        table::human_duration(SignedDuration::from_nanos_i128(past))
    };
    let mut cells = vec![object["metadata"]["name"].clone()];
    cells.extend(version.columns.cells(object, &age));
    cells
}
