//! What a cluster autoscaler is told on a pool's object, so that it can also start from no machine at all.

use trellis_platform_kubevirt as kubevirt;

use super::control::{Failed, Thing, Things};
use super::tenant::Tenant;
use crate::families::{KKP, OPENSHIFT, Reading, TRELLIS, annotate};
use crate::pools::autoscale::{self, Family};

/// Writes the bounds and what one machine has onto the object of a pool, or of a set that stands alone. On kinds of
/// others nothing is taken away: people may have written there for reasons of their own.
pub(crate) async fn write(
    tenant: &Tenant,
    things: &Things,
    pool: &Thing,
    reading: &Reading,
) -> Result<(), Failed> {
    let family = if *tenant.control.family == KKP {
        Family::Kkp
    } else if *tenant.control.family == OPENSHIFT {
        Family::OpenShift
    } else {
        Family::Trellis
    };
    let capacity = kubevirt::capacity(&reading.cluster, &reading.pool);
    let mut wished = autoscale::annotations(family, &reading.pool.spec, capacity);
    let own = *tenant.control.family == TRELLIS;
    let keys = if own { autoscale::owned(family) } else { wished.keys().cloned().collect() };
    let wished: Vec<(&str, Option<String>)> =
        keys.iter().map(|key| (key.as_str(), wished.remove(key))).collect();
    match annotate(pool, &wished) {
        Some(patch) => tenant.control.patch(things, &pool.metadata.key, &patch).await,
        None => Ok(()),
    }
}
