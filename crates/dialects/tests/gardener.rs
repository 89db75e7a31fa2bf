//! Gardener's language end to end: texts in, models and located complaints out.

// The attribute tells clippy that these helpers are tests too.
#[cfg(test)]
mod gardener {
    pub(crate) mod bad;
    pub(crate) mod docs;
    pub(crate) mod full;
    pub(crate) mod round_trip;
    pub(crate) mod seeds;
    pub(crate) mod support;
}
