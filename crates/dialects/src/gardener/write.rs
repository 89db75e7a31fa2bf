//! Writing.

use serde_json::Value;
use trellis_model::Estate;

/// Writes.
pub fn write(_estate: &Estate) -> Vec<Value> {
    Vec::new()
}
