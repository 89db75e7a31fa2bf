//! What every daemon of Trellis needs, without knowledge of what it is about.
//!
//! | part | what it does |
//! |---|---|
//! | [`Site`] | one API server: typed verbs, counted requests, a [`Health`](client::Health), a connection that can be swapped |
//! | [`Cache`] | the objects of a kind, narrowed to what is looked at, kept true by one watch; own writes are seen at once |
//! | [`Queue`] | keys to look at: once, one worker at a time, in lanes that never starve, with deadlines and retries |
//! | [`lease`] | who may act: one leader, or each member for its share, and never two for one thing |
//! | [`events`] | Kubernetes Events, counted up instead of repeated, without ever waiting |
//! | [`Metrics`], [`serve`] | numbers for Prometheus, and the page with them and with health checks |
//! | [`webhook`] | answering an API server's questions over TLS, with a certificate of our own or one that rotates |
//! | [`traces`] | what was looked at and which requests that took, for a collector |
//! | [`credentials`] | where connections come from, and following them when they rotate |
//! | [`Tasks`] | the tasks of a daemon: named, watched, ended together |
//! | [`Clock`] | the one source of time, virtual in tests |
//!
//! A daemon observes through caches, plans on what they hold, and writes through sites; changes name keys to a queue, and
//! a look at a key says when to look again, if ever. There is no polling and no timer but deadlines.
//!
//! ```no_run
//! use serde::Deserialize;
//! use trellis_runtime::credentials::Source;
//! use trellis_runtime::queue::{Lane, Outcome, Setup};
//! use trellis_runtime::{Cache, Clock, Key, Meta, Queue, Resource, Selection, Tasks, narrow};
//!
//! const NODE: Resource = Resource::cluster("", "v1", "nodes", "Node");
//!
//! /// What we look at of a Node: whatever else changes is never heard of.
//! #[derive(PartialEq, Deserialize)]
//! struct Node {
//!     metadata: Meta,
//! }
//! narrow!(Node);
//!
//! # async fn daemon() -> Result<(), Box<dyn std::error::Error>> {
//! let source = Source::File { path: "kubeconfig".into(), context: None };
//! let followed = source.connect("tenant", Default::default()).await?;
//! let site = followed.site.clone();
//!
//! let nodes = Cache::<Node>::new(NODE, Selection::default());
//! let lanes = [Lane { name: "all", weight: 1, at_most: usize::MAX }];
//! let queue = Queue::<Key>::new(Clock::of_machine(), Setup::new(&lanes, 1));
//! let names = queue.clone();
//! nodes.listen(move |change| {
//!     if let Some(node) = change.latest() {
//!         names.add(&node.metadata.key, 0);
//!     }
//! });
//!
//! let mut tasks = Tasks::default();
//! tasks.stop_on_signals();
//! tasks.essential("credentials", followed.follow());
//! let feed = nodes.clone();
//! tasks.essential("nodes", async move { feed.run(&site, 1).await });
//! let stop = tasks.stop().clone();
//! tasks.essential("looks", async move {
//!     nodes.synced().await;
//!     queue
//!         .run(8, &stop, move |key| {
//!             let nodes = nodes.clone();
//!             async move {
//!                 println!("{key} is {}", if nodes.get(&key).is_some() { "there" } else { "gone" });
//!                 Outcome::Done
//!             }
//!         })
//!         .await;
//! });
//! tasks.wait().await?;
//! # Ok(())
//! # }
//! ```

mod backoff;
mod cache;
pub mod client;
mod clock;
pub mod credentials;
pub mod events;
pub mod lease;
mod meta;
mod metrics;
pub mod queue;
mod resource;
pub mod serve;
mod tasks;
pub mod traces;
pub mod webhook;

pub use backoff::{Backoff, Dice};
pub use cache::{Cache, Change, Index};
pub use client::{Selection, Site};
pub use clock::Clock;
pub use meta::{Keep, Meta, Narrow, Nothing, Owner, Pairs};
pub use metrics::{Durations, Metrics};
pub use queue::Queue;
pub use resource::{Key, Resource};
pub use tasks::{Ended, Ending, Tasks};
/// What tells tasks to end.
pub use tokio_util::sync::CancellationToken;
