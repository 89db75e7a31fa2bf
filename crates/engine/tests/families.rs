//! The watch edge of the machine controllers: objects of three families as plain data, and back.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking"
)]

#[path = "families/adoption.rs"]
mod adoption;
#[path = "families/fixtures.rs"]
mod fixtures;
#[path = "families/making.rs"]
mod making;
#[path = "families/properties.rs"]
mod properties;
#[path = "families/reading.rs"]
mod reading;
#[path = "families/statuses.rs"]
mod statuses;
#[path = "families/user_data.rs"]
mod user_data;
