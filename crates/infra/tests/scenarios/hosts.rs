//! Hosts.

use trellis_infra::kinds::VM;

use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![scenario!(kinds_are_served)]
}

async fn kinds_are_served(cx: Cx) -> Result {
    assert!(cx.client.list(&VM, &cx.namespace).await?.is_empty());
    Ok(())
}
