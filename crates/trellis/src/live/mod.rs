//! What every command that talks to a cluster shares: connect, find objects, watch them, draw them.
//!
//! | part | what it does |
//! |---|---|
//! | [`connect`] | the flags that say which cluster, the connection, and failures in words |
//! | [`find`] | kinds of every family, listing them, and finding one by what people call it |
//! | [`watch`] | the same kinds kept true by watches, and waiting for news of them |
//! | [`progress`] | following one pool until it is as wished |
//! | [`machines`], [`pools`], [`clusters`] | objects of every family as rows: pure |
//! | [`table`], [`screen`], [`words`] | rows as text: aligned, coloured, redrawn on a terminal, plain in a pipe |

pub(crate) mod clusters;
pub(crate) mod connect;
pub(crate) mod find;
pub(crate) mod machines;
pub(crate) mod pools;
pub(crate) mod progress;
pub(crate) mod screen;
pub(crate) mod table;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod watch;
pub(crate) mod words;

pub(crate) use connect::{Connected, Where};
pub(crate) use find::{Estate, Kind, Sort, Thing};
pub(crate) use screen::{Bar, Screen};
pub(crate) use watch::Watched;

use crate::exit::{Exit, Failure};

/// Runs a command that waits for servers.
pub(crate) fn run(command: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(command)
}
