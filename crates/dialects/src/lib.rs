//! Reading and writing the manifest languages.
//!
//! The bottom of this crate is the *source layer*, which knows no dialect at all:
//!
//! * [`source`]: the texts that were read, and places in them;
//! * [`diagnostic`]: what there is to say about a place, and [`render`] to say it to a person or a program;
//! * [`tree`] and [`parse`]: YAML and JSON as a tree in which every node knows its place;
//! * [`path`]: the names of places inside a document, such as `spec.workers[0].name`;
//! * [`check`]: a document held against a JSON schema, with every problem reported at once;
//! * [`yaml_out`]: values written as YAML that every YAML reader understands alike.
//!
//! Above it, [`reading`], [`kinds`] and [`schema`] are what all dialects have in common, and each dialect is
//! a module: [`openshift`], [`kkp`], [`gardener`] and our own, [`trellis`].
//!
//! On top are the ways in:
//!
//! * [`read`]: texts in any mixture of dialects to one estate;
//! * [`convert`]: an estate in another dialect, with a list of what is lost;
//! * [`record`]: an estate kept in a Secret;
//! * [`fields`]: every field of every dialect and what Trellis does with it.
//!
//! ```
//! use trellis_dialects::read::read;
//! use trellis_dialects::source::SourceMap;
//!
//! let mut sources = SourceMap::new();
//! sources.add("cluster.yaml", "
//! apiVersion: trellis.dev/v1alpha1
//! kind: TenantCluster
//! metadata: {name: demo}
//! spec: {platform: {kubevirt: {}}, verison: 1.34.2}
//! ");
//! let read = read(&sources);
//! let problem = read.diagnostics.iter().next().unwrap();
//! assert_eq!(problem.message, "unknown field `verison`");
//! assert_eq!(problem.help.as_deref(), Some("did you mean `version`?"));
//! ```
//!
//! Everything here is a pure function of its arguments. Nothing here panics, whatever the input.

pub mod check;
pub mod convert;
pub mod diagnostic;
pub mod fields;
pub mod fuzz;
pub mod gardener;
pub mod kinds;
pub mod kkp;
pub mod openshift;
pub mod parse;
pub mod path;
pub mod read;
pub mod reading;
pub mod record;
pub mod render;
pub mod scalar;
pub mod schema;
pub mod source;
pub mod suggest;
pub mod tree;
pub mod trellis;
pub mod yaml_out;

mod json;
mod privacy;
mod shared;
mod syntax_error;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;
