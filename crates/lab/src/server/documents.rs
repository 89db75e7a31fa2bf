//! Paths that are no resources: health, version, discovery, OpenAPI and the keys of tokens.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use http::Method;
use http::header::{ACCEPT, CACHE_CONTROL, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION, VARY};
use serde_json::{Value, json};

use super::{Server, flow, health};
use crate::api::reply::Reply;
use crate::api::{Call, not_allowed, unknown_resource};
use crate::discovery::{AGGREGATED_MEDIA_TYPE, Aggregated, Catalogue, Entry};
use crate::names::GroupResource;
use crate::openapi::{OpenApi, V2_PROTOBUF_MEDIA_TYPE};
use crate::reader::Reader as _;
use crate::status::Status;

/// Where clients inside a cluster would reach the server.
const ADVERTISED: &str = "10.96.0.1:443";
/// The version of Kubernetes whose behaviour is followed.
pub(crate) const VERSION: (&str, &str, &str) = ("1", "37", "v1.37.1");

impl Server {
    /// Answers a request for a path that is no resource.
    pub(super) fn document(&self, call: &Call) -> Result<Reply, Status> {
        let path = call.attributes.path.trim_end_matches('/');
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        // Routes are for one method; what is older than they are answers `HEAD` as well.
        let routed =
            matches!(segments.first(), Some(&("api" | "apis" | "version" | "openid" | ".well-known")));
        if !(call.method == Method::GET || call.method == Method::HEAD && !routed) {
            return Err(not_allowed());
        }
        let found = match segments.as_slice() {
            [] => Some(self.root()),
            ["version"] => Some(Reply::json(200, &version())),
            [probe, check @ ..] if health::PROBES.contains(probe) => {
                health::answer(call, probe, &check.join("/"), &self.store.usable())
            }
            ["metrics"] => Some(self.metrics()),
            ["api"] => Some(self.groups(call, true)),
            ["apis"] => Some(self.groups(call, false)),
            ["api", version] => {
                let list = self.catalogue().resources("", version).ok_or_else(unknown_resource)?;
                Some(Reply::json(200, &list))
            }
            ["apis", group] => self.catalogue().group(group).map(|group| Reply::json(200, &group)),
            ["apis", group, version] => {
                let catalogue = self.catalogue();
                match catalogue.resources(group, version) {
                    Some(list) => Some(Reply::json(200, &list)),
                    None if catalogue.group(group).is_some() => return Err(unknown_resource()),
                    None => None,
                }
            }
            ["openapi", "v2"] => Some(self.openapi_v2(call)),
            ["openapi", "v3"] => {
                Some(Reply::json(200, &OpenApi::index(&self.definitions(), &self.remote_documents())))
            }
            ["openapi", "v3", name @ ..] => self.openapi_v3(call, &name.join("/")),
            [".well-known", "openid-configuration"] => Some(Reply::bytes(
                200,
                "application/json",
                self.tokens.openid_configuration(&self.public_address()),
            )),
            ["openid", "v1", "jwks"] => {
                Some(Reply::bytes(200, "application/jwk-set+json", self.tokens.jwks()))
            }
            _ => None,
        };
        Ok(found.unwrap_or_else(|| Reply::text(404, "404 page not found\n")))
    }

    /// The definitions of custom resources that are served.
    fn definitions(&self) -> Vec<Arc<Value>> {
        let of = crate::registry::definitions();
        let mut definitions = super::Stored(Arc::clone(&self.store)).list(&of, None);
        definitions.retain(|definition| crate::registry::established(definition));
        definitions
    }

    /// Everything that is served.
    pub(super) fn catalogue(&self) -> Catalogue {
        let mut entries = Entry::builtin();
        entries.extend(Entry::custom(&self.definitions()));
        let services = super::Stored(Arc::clone(&self.store))
            .list(&GroupResource::new("apiregistration.k8s.io", "apiservices"), None);
        for service in services {
            entries.extend(self.aggregated_entry(&service));
        }
        Catalogue::new(entries)
    }

    /// `/api` and `/apis`, in the form the client wants.
    fn groups(&self, call: &Call, core: bool) -> Reply {
        let catalogue = self.catalogue();
        let accept = call.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let Some(version) = aggregated_version(accept) else {
            let document = if core { catalogue.core_versions(ADVERTISED) } else { catalogue.groups() };
            let mut reply = Reply::json(200, &document);
            reply.set(VARY, "Accept");
            return reply;
        };
        let Aggregated { mut document, etag } =
            if core { catalogue.aggregated_core() } else { catalogue.aggregated_groups() };
        let known = call.headers.get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == etag.as_bytes());
        let mut reply = if known {
            Reply::unchanged()
        } else {
            document["apiVersion"] = format!("apidiscovery.k8s.io/{version}").into();
            let media_type = AGGREGATED_MEDIA_TYPE.replace("v=v2;", &format!("v={version};"));
            Reply::bytes(200, &media_type, document.to_string())
        };
        reply.set(ETAG, &etag);
        reply.set(VARY, "Accept");
        reply.set(CACHE_CONTROL, "public");
        reply
    }

    fn openapi_v3(&self, call: &Call, name: &str) -> Option<Reply> {
        let document = self.openapi.v3(name, &self.definitions())?;
        let asked = call.parameters.text("hash");
        if !asked.is_empty() && asked != document.hash {
            let mut reply = Reply::bytes(301, "application/json", "");
            reply.set(LOCATION, &format!("/openapi/v3/{name}?hash={}", document.hash));
            return Some(reply);
        }
        let mut reply = tagged(call, document.body, &document.hash, "application/json");
        if !asked.is_empty() {
            reply.set(CACHE_CONTROL, "public, immutable");
            // A year, as far as anybody can tell.
            reply.set(EXPIRES, "Thu, 31 Dec 2099 23:59:59 GMT");
        }
        Some(reply)
    }

    fn openapi_v2(&self, call: &Call) -> Reply {
        let accept = call.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let first = accept.split(',').next().unwrap_or_default().trim();
        let protobuf = first.starts_with("application/com.github.proto-openapi.spec.v2");
        let definitions = self.definitions();
        if protobuf {
            let document = self.openapi.v2_protobuf(&definitions);
            tagged(call, document.body, &document.hash, V2_PROTOBUF_MEDIA_TYPE)
        } else {
            let document = self.openapi.v2(&definitions);
            tagged(call, document.body, &document.hash, "application/json")
        }
    }

    /// Where clients reach the server: what it listens on, or else its address inside the cluster.
    fn public_address(&self) -> String {
        self.address.get().map_or_else(|| ADVERTISED.to_owned(), SocketAddr::to_string)
    }

    fn root(&self) -> Reply {
        let mut paths: Vec<String> =
            ["/.well-known/openid-configuration", "/api", "/api/v1", "/apis", "/apis/"]
                .map(str::to_owned)
                .to_vec();
        for entry in self.catalogue().entries().iter().filter(|entry| !entry.group.is_empty()) {
            paths.push(format!("/apis/{}", entry.group));
            paths.push(format!("/apis/{}/{}", entry.group, entry.version));
        }
        paths.extend(
            ["/metrics", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/openid/v1/jwks", "/version"]
                .map(str::to_owned),
        );
        paths.extend(health::paths());
        paths.sort();
        paths.dedup();
        Reply::json(200, &json!({"paths": paths}))
    }

    /// A few numbers in the format of Prometheus.
    fn metrics(&self) -> Reply {
        let mut text = String::from(
            "# HELP apiserver_storage_objects Number of stored objects by resource.\n# TYPE apiserver_storage_objects gauge\n",
        );
        let mut resources = self.store.resources();
        resources.sort();
        for of in resources {
            let count = self.store.count(&of);
            let _ = writeln!(text, "apiserver_storage_objects{{resource=\"{of}\"}} {count}");
        }
        let _ = write!(
            text,
            "# HELP lab_resource_version The newest resource version.\n# TYPE lab_resource_version gauge\nlab_resource_version {}\n",
            self.store.version()
        );
        for metric in ["nominal_limit_seats", "current_limit_seats"] {
            let name = format!("apiserver_flowcontrol_{metric}");
            let _ = writeln!(text, "# HELP {name} Seats of each priority level.\n# TYPE {name} gauge");
            for (level, seats) in flow::seats(&self.store) {
                let _ = writeln!(text, "{name}{{priority_level=\"{level}\"}} {seats}");
            }
        }
        Reply::bytes(200, "text/plain; version=0.0.4; charset=utf-8", text)
    }
}

/// A document with its fingerprint, or nothing when the client has it.
fn tagged(call: &Call, body: bytes::Bytes, hash: &str, media_type: &str) -> Reply {
    let tag = format!("\"{hash}\"");
    let known = call.headers.get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == tag.as_bytes());
    let mut reply = if known { Reply::unchanged() } else { Reply::bytes(200, media_type, body) };
    reply.set(ETAG, &tag);
    reply.set(VARY, "Accept");
    reply
}

/// The version of aggregated discovery an `Accept` header asks for first, if it prefers it to the plain form.
fn aggregated_version(accept: &str) -> Option<&'static str> {
    for clause in accept.split(',') {
        let has = |part: &str| clause.split(';').any(|found| found.trim() == part);
        if has("as=APIGroupDiscoveryList") && has("g=apidiscovery.k8s.io") {
            if has("v=v2") {
                return Some("v2");
            }
            if has("v=v2beta1") {
                return Some("v2beta1");
            }
            continue;
        }
        if clause.trim().starts_with("application/json") || clause.trim().starts_with("*/*") {
            return None;
        }
    }
    None
}

fn version() -> Value {
    let (major, minor, version) = VERSION;
    json!({
        "major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor,
        "minCompatibilityMajor": major, "minCompatibilityMinor": "36",
        "gitVersion": format!("{version}+trellis-lab"), "gitCommit": env!("CARGO_PKG_VERSION"),
        "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none",
        "compiler": "rustc", "platform": "linux/amd64",
    })
}
