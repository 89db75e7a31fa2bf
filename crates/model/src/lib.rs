//! The one provider-neutral description every dialect is read into and every platform is rendered from.

pub mod names;
pub mod quantity;
