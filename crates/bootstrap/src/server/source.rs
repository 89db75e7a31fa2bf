//! Where the server learns what it serves, and keeps who was served.

use std::future::Future;
use std::pin::Pin;

use jiff::Timestamp;
use parking_lot::Mutex;
use trellis_model::names::MachineName;

use crate::pki::Bundle;
use crate::site::Site;
use crate::tokens::{Redeemed, Refusal};

/// Something that is under way.
pub type Pending<'p, T> = Pin<Box<dyn Future<Output = T> + Send + 'p>>;

/// Where the server learns what it serves.
pub trait Source: Send + Sync {
    /// The certificates it has now. The error is for the log and holds no secret.
    fn bundle(&self) -> Result<Bundle, String>;

    /// What is known of the cluster now; the error is as above.
    fn site(&self) -> Pending<'_, Result<Site, String>>;
}

/// Where it is kept who was served. That a token was used must be written before anybody is told.
pub trait Ledger: Send + Sync {
    /// Uses up the token of a machine that was made then.
    fn redeem<'l>(
        &'l self,
        machine: &'l MachineName,
        issued: Timestamp,
        now: Timestamp,
    ) -> Pending<'l, Result<(), Refusal>>;
}

/// What never changes.
#[derive(Debug)]
pub struct Fixed {
    /// What is known of the cluster.
    pub site: Site,
    /// Its certificates.
    pub bundle: Bundle,
}

impl Source for Fixed {
    fn bundle(&self) -> Result<Bundle, String> {
        Ok(self.bundle.clone())
    }

    fn site(&self) -> Pending<'_, Result<Site, String>> {
        Box::pin(std::future::ready(Ok(self.site.clone())))
    }
}

/// A ledger in memory.
#[derive(Debug)]
pub struct Memory(Mutex<Redeemed>);

impl Memory {
    /// A ledger that begins like this.
    pub fn new(redeemed: Redeemed) -> Self {
        Self(Mutex::new(redeemed))
    }
}

impl Ledger for Memory {
    fn redeem<'l>(
        &'l self,
        machine: &'l MachineName,
        issued: Timestamp,
        now: Timestamp,
    ) -> Pending<'l, Result<(), Refusal>> {
        let redeemed = self.0.lock().redeem(machine, issued, now);
        Box::pin(std::future::ready(redeemed))
    }
}
