//! The names of fields, as causes of refusals give them.

use std::fmt;

/// The place of a field, such as `spec.template.spec.domain.devices.disks[0].name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field(String);

impl Field {
    /// A field of the object itself, or several steps at once.
    pub fn new(steps: &str) -> Self {
        Self(steps.to_owned())
    }

    /// A field below this one; `steps` may have dots.
    #[must_use]
    pub fn child(&self, steps: &str) -> Self {
        Self(format!("{}.{steps}", self.0))
    }

    /// An element of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }
}

impl fmt::Display for Field {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<Field> for String {
    fn from(field: Field) -> Self {
        field.0
    }
}
