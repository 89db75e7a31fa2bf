//! Small helpers of this crate.

/// Whether a value is the default one, and may be left out when it is written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
