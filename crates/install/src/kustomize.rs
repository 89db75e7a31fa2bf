//! The same objects as a kustomization.

use serde_json::json;
use trellis_dialects::yaml_out::{to_yaml, to_yaml_documents};

use crate::{Settings, parts};

/// The files of a kustomization: name and text.
pub fn files(settings: &Settings) -> Vec<(String, String)> {
    let parts = parts(settings);
    let names: Vec<String> = parts.iter().map(|part| format!("{}.yaml", part.name)).collect();
    let whole = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": names,
    });
    let mut files =
        vec![("kustomization.yaml".to_owned(), format!("{}{}", crate::chart::HEADER, to_yaml(&whole)))];
    for (name, part) in names.into_iter().zip(parts) {
        files.push((name, format!("{}{}", crate::chart::HEADER, to_yaml_documents(&part.objects))));
    }
    files
}
