//! Stub.
use crate::kinds::kinds;
use crate::reading::{DocumentId, Reading};
kinds! {}
/// Stub.
pub fn read(_: Vec<(DocumentId, Object)>, _: &mut Reading) {}
/// Stub.
pub fn write(_: &trellis_model::Estate) -> Vec<serde_json::Value> {
    vec![]
}
