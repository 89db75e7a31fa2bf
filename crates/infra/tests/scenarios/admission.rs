//! Scenarios of `admission`.

use crate::context::Scenario;

pub(crate) fn scenarios() -> Vec<Scenario> {
    Vec::new()
}
