//! Placeholder.

pub mod cdi;
pub mod instancetype;
pub mod kubevirt;
pub mod multus;
