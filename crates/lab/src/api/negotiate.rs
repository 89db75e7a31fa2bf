//! In which form a client wants its answer, and in which form it sent its body.

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};

use super::Call;
use super::request::Parameters;
use crate::registry::Served;
use crate::status::Status;

/// How bytes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    Protobuf,
}

impl Format {
    /// The media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    fn of(media_type: &str) -> Option<Self> {
        match media_type {
            "application/json" | "*/*" => Some(Self::Json),
            "application/yaml" => Some(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(Self::Protobuf),
            _ => None,
        }
    }
}

/// What objects are turned into before they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// Themselves.
    Object,
    /// Rows of a table.
    Table,
    /// Their metadata.
    Metadata,
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) format: Format,
    pub(crate) view: View,
    /// The version of `meta.k8s.io` a view is written in.
    pub(crate) meta_version: &'static str,
    pub(crate) pretty: bool,
    pub(crate) gzip: bool,
}

impl Output {
    /// Plain JSON.
    pub(crate) const PLAIN: Self =
        Self { format: Format::Json, view: View::Object, meta_version: "v1", pretty: false, gzip: false };

    /// True when the stored bytes can be sent as they are.
    pub(crate) fn is_plain(self) -> bool {
        self.format == Format::Json && self.view == View::Object && !self.pretty
    }
}

/// Picks the first form of the `Accept` header that can be had.
pub(crate) fn output(headers: &HeaderMap, parameters: &Parameters, listing: bool) -> Result<Output, Status> {
    choose(headers, parameters, listing, |_| true)
}

/// The same for objects that may have no protobuf form: custom ones.
pub(crate) fn output_of(call: &Call, served: &Served, listing: bool) -> Result<Output, Status> {
    if served.custom_version().is_none() {
        return output(&call.headers, &call.parameters, listing);
    }
    let fits = |output: &Output| output.format != Format::Protobuf || output.view == View::Metadata;
    choose(&call.headers, &call.parameters, listing, fits)
}

/// The same for answers that are no objects to be looked at in a table, such as reviews.
pub(crate) fn output_of_answer(call: &Call) -> Result<Output, Status> {
    choose(&call.headers, &call.parameters, false, |output| output.view != View::Table)
}

fn choose(
    headers: &HeaderMap,
    parameters: &Parameters,
    listing: bool,
    fits: impl Fn(&Output) -> bool,
) -> Result<Output, Status> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let accept = header(ACCEPT);
    let agent = header(USER_AGENT);
    let pretty = match parameters.get("pretty") {
        Some(value) => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => ["curl", "Wget", "Mozilla/5.0"].iter().any(|browser| agent.starts_with(browser)),
    };
    let gzip =
        header(ACCEPT_ENCODING).split(',').any(|coding| coding.trim().split(';').next() == Some("gzip"));
    let plain = Output { pretty, gzip, ..Output::PLAIN };
    if accept.is_empty() {
        return Ok(plain);
    }
    let mut clauses: Vec<Clause> = accept.split(',').filter_map(Clause::parse).collect();
    // A stable sort: equal weights stay in the order the client gave.
    clauses.sort_by(|left, right| right.weight.total_cmp(&left.weight));
    let found = clauses.iter().find_map(|clause| clause.output(plain, listing).filter(&fits));
    found.ok_or_else(|| {
        let known = clauses.iter().any(|clause| Format::of(clause.media_type).is_some());
        let protobuf = fits(&Output { format: Format::Protobuf, ..Output::PLAIN });
        if known { unknown_form(protobuf) } else { not_acceptable() }
    })
}

/// 406 for a media type that is known, in a form that is not.
fn unknown_form(protobuf: bool) -> Status {
    let more = if protobuf { ", application/vnd.kubernetes.protobuf" } else { "" };
    Status::new(
        406,
        "NotAcceptable",
        format!("only the following media types are accepted: application/json, application/yaml{more}"),
    )
}

/// 406 with the forms there are.
pub(crate) fn not_acceptable() -> Status {
    Status::new(
        406,
        "NotAcceptable",
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
    )
    .with_empty_details()
}

/// One alternative of an `Accept` header.
struct Clause<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    weight: f32,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().filter(|media_type| !media_type.is_empty())?;
        let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
        let weight = parameters.iter().find(|(key, _)| *key == "q").and_then(|(_, value)| value.parse().ok());
        Some(Self { media_type, parameters, weight: weight.unwrap_or(1.0) })
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    fn output(&self, plain: Output, listing: bool) -> Option<Output> {
        let format = Format::of(self.media_type)?;
        let plain = Output { format, ..plain };
        let Some(view) = self.get("as") else {
            return Some(plain);
        };
        let meta_version = match (self.get("g"), self.get("v")) {
            (Some("meta.k8s.io"), Some("v1")) => "v1",
            (Some("meta.k8s.io"), Some("v1beta1")) => "v1beta1",
            _ => return None,
        };
        let view = match view {
            // Tables have no protobuf form.
            "Table" if format != Format::Protobuf => View::Table,
            "PartialObjectMetadata" if !listing => View::Metadata,
            "PartialObjectMetadataList" if listing => View::Metadata,
            _ => return None,
        };
        Some(Output { view, meta_version, ..plain })
    }
}

/// The media type of a body, without its parameters; empty when none is given.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// The form of a body that is an object.
pub(crate) fn input(headers: &HeaderMap) -> Result<Format, Status> {
    match content_type(headers) {
        "application/yaml" => Ok(Format::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(Format::Protobuf),
        // The last two are what command-line tools send when nobody said what it is.
        "" | "application/json" | "application/x-www-form-urlencoded" | "*/*" => Ok(Format::Json),
        _ => Err(unsupported_body()),
    }
}

/// 415 with the forms a body may have.
pub(crate) fn unsupported_body() -> Status {
    Status::new(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(accept: &str, listing: bool) -> Result<Output, Status> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        output(&headers, &Parameters::default(), listing)
    }

    #[test]
    fn the_first_form_that_can_be_had_is_taken() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(ask(kubectl, true).unwrap().view, View::Table);
        let go = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(ask(go, false).unwrap().format, Format::Protobuf);
        assert_eq!(ask("application/cbor,application/json;q=0.5", false).unwrap().format, Format::Json);
        let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        assert_eq!(ask(metadata, true).unwrap().view, View::Metadata);
        assert_eq!(ask(metadata, false).unwrap_err().code, 406);
        assert_eq!(ask("text/html", false).unwrap_err().reason, "NotAcceptable");
        assert_eq!(ask("text/html, */*;q=0.1", false).unwrap().format, Format::Json);
    }
}
