//! Which objects of a resource a request is about.

use crate::registry::CustomFields;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::Status;
use crate::store::{Key, Record};

use super::request::Parameters;

/// A namespace, a label selector and a field selector.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    pub(crate) namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
    /// How the fields of a custom resource are found, where it is selected by them.
    custom: Option<CustomFields>,
}

impl Filter {
    /// Reads the selectors of a request, for one object if `name` is not empty; `known_as` gives the name of a field, or why
    /// it cannot be selected by.
    pub(crate) fn read(
        namespace: &str,
        name: &str,
        parameters: &Parameters,
        known_as: impl Fn(&str) -> Result<String, Status>,
    ) -> Result<Self, Status> {
        let labels = LabelSelector::parse(parameters.text("labelSelector")).map_err(Status::bad_request)?;
        let mut fields =
            FieldSelector::parse(parameters.text("fieldSelector")).map_err(Status::bad_request)?;
        for (field, _, _) in &mut fields.terms {
            *field = known_as(field)?;
        }
        // Rights were checked for this name, so the selector may not be about others.
        if !name.is_empty() {
            if fields.is_empty() {
                fields.terms.push(("metadata.name".to_owned(), name.to_owned(), true));
            } else if fields.required("metadata.name") != Some(name) {
                return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
            }
        }
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        Ok(Self { namespace, labels, fields, custom: None })
    }

    /// The same for a custom resource, whose fields are found like this.
    pub(crate) fn with_custom(self, custom: Option<CustomFields>) -> Self {
        let noted = |name: &str| matches!(name, "metadata.name" | "metadata.namespace");
        let asks = self.fields.terms.iter().any(|(field, _, _)| !noted(field));
        Self { custom: custom.filter(|_| asks), ..self }
    }

    /// True when only the namespace matters.
    pub(crate) fn selects_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// True when the object is meant.
    pub(crate) fn matches(&self, key: &Key, record: &Record) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
            && (self.labels.is_empty() || self.labels.matches(&record.index.labels))
            && (self.fields.is_empty() || self.matches_fields(key, record))
    }

    fn matches_fields(&self, key: &Key, record: &Record) -> bool {
        let read = self.custom.as_ref().and_then(|custom| custom.read_anew(record));
        let fields = read.as_ref().unwrap_or(&record.index.fields);
        self.fields.matches(|field| match field {
            "metadata.name" => key.name.as_str(),
            "metadata.namespace" => key.namespace.as_str(),
            _ => {
                let found = fields.iter().find(|(name, _)| name == field);
                found.map_or("", |(_, value)| value.as_str())
            }
        })
    }
}
