//! Gardener's language end to end: texts in, models and located complaints out.

mod gardener {
    pub mod bad;
    pub mod full;
    pub mod round_trip;
    pub mod seeds;
    pub mod support;
}
