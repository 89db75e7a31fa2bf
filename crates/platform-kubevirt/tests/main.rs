//! What the KubeVirt platform renders, against goldens, an independent admission oracle and properties.
//!
//! There is one golden per feature, each with an assertion on the fact that matters, so that a golden
//! cannot be wrong in silence. `INSTA_UPDATE=always cargo test` writes them anew.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]
#![expect(clippy::needless_pass_by_value, reason = "`json!` is written where it is passed")]

mod acting;
mod admission;
mod builders;
mod images;
mod networking;
mod objects;
mod odd;
mod others;
mod placement;
mod problems;
mod properties;
mod seeing;
mod shapes;
mod volumes;
