//! Scenarios of `migrate`.

use crate::context::Scenario;

pub(crate) fn scenarios() -> Vec<Scenario> {
    Vec::new()
}
