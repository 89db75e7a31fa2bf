//! From any dialect to any other, with a list of what does not survive.
//!
//! What is lost is not guessed: the written documents are read again, and the two models compared.

use serde::Serialize;
use serde_json::Value;
use trellis_model::change::{Difference, differences, shown};
use trellis_model::{Estate, Subject};

use crate::diagnostic::Severity;
use crate::read::{Dialect, NOTHING_TO_READ, read};
use crate::source::SourceMap;
use crate::yaml_out::to_yaml_documents;
use crate::{gardener, kkp, openshift, trellis};

/// An estate in another dialect.
#[derive(Debug)]
pub struct Converted {
    /// The documents.
    pub documents: Vec<Value>,
    /// What they do not say, or say otherwise.
    pub lost: Vec<Loss>,
    /// What the dialect demands and the estate does not give: the documents are refused as they stand.
    pub incomplete: Vec<String>,
}

/// Something that does not survive a conversion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Loss {
    /// The cluster or pool it belongs to.
    pub subject: String,
    /// The field of the model; empty for all of it.
    pub path: String,
    /// What was there.
    pub value: String,
    /// What is read back in its place, if anything is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub becomes: Option<String>,
}

/// Writes an estate in a dialect.
pub fn write(estate: &Estate, to: Dialect) -> Vec<Value> {
    match to {
        Dialect::Openshift => openshift::write(estate),
        Dialect::Kkp => kkp::write(estate),
        Dialect::Gardener => gardener::write(estate),
        Dialect::Trellis => trellis::write(estate),
    }
}

/// Writes an estate in a dialect, and finds out what of it does not survive.
pub fn convert(estate: &Estate, to: Dialect) -> Converted {
    let documents = write(estate, to);
    let mut sources = SourceMap::new();
    sources.add("converted", to_yaml_documents(&documents));
    let again = read(&sources);
    let lost = losses(estate, &again.estate);
    let errors = again.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    // Where nothing could be written, the losses say so.
    let incomplete =
        errors.filter(|error| error.code != NOTHING_TO_READ).map(|error| error.message.clone()).collect();
    Converted { documents, lost, incomplete }
}

fn losses(before: &Estate, after: &Estate) -> Vec<Loss> {
    let mut lost = Vec::new();
    for cluster in &before.clusters {
        let subject = Subject::Cluster(cluster.name.clone());
        compare(&subject, cluster, after.cluster(&cluster.name), &mut lost);
    }
    for pool in &before.pools {
        let subject = Subject::Pool(pool.spec.cluster.clone(), pool.name.clone());
        let again = after
            .pools
            .iter()
            .find(|other| other.name == pool.name && other.spec.cluster == pool.spec.cluster);
        compare(&subject, pool, again, &mut lost);
    }
    lost
}

fn compare<T: Serialize>(subject: &Subject, before: &T, after: Option<&T>, lost: &mut Vec<Loss>) {
    let json = |value: &T| serde_json::to_value(value).unwrap_or_default();
    let subject = subject.to_string();
    let Some(after) = after else {
        let value = "all of it".to_owned();
        lost.push(Loss { subject, path: String::new(), value, becomes: None });
        return;
    };
    let mut found = Vec::new();
    differences("", &json(before), &json(after), &mut found);
    for Difference { path, old, new } in found {
        let path = path.strip_prefix("spec.").unwrap_or(&path).to_owned();
        let show = |value: &Value| match value {
            Value::Null => "nothing".to_owned(),
            value => shown(&path, value),
        };
        let value = old.as_ref().map_or_else(|| "nothing".to_owned(), show);
        let becomes = new.as_ref().map(show);
        lost.push(Loss { subject: subject.clone(), path, value, becomes });
    }
}
