//! Presets: old-fashioned ways to give instances devices by their labels.

use std::sync::Arc;

use serde_json::Value;

use crate::kubevirt::replicas::selector;
use crate::object::Object as _;

/// An instance with this is left alone.
const EXCLUDED: &str = "virtualmachineinstancepresets.admission.kubevirt.io/exclude";

/// Applies the presets of its namespace that pick an instance. True if there are any.
///
/// One that says other than the instance, or than another preset, is passed over, as it is by the real one.
pub fn apply(vmi: &mut Value, presets: &[Arc<Value>]) -> bool {
    if vmi.annotation(EXCLUDED) == "true" {
        return false;
    }
    let fitting: Vec<&Arc<Value>> = presets
        .iter()
        .filter(|preset| selector::matches(preset.at("/spec/selector"), &vmi["metadata"]["labels"]))
        .collect();
    for preset in &fitting {
        let wanted = preset.at("/spec/domain");
        if !agree(wanted, vmi.at("/spec/domain")) {
            continue;
        }
        merge(wanted, &mut vmi["spec"]["domain"]);
        vmi.set_annotation(&format!("virtualmachinepreset.kubevirt.io/{}", preset.name()), "kubevirt.io/v1");
    }
    !fitting.is_empty()
}

/// Whether two values say nothing against each other.
fn agree(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Null, _) | (_, Value::Null) => true,
        (Value::Object(wanted), Value::Object(_)) => {
            wanted.iter().all(|(name, value)| agree(value, &found[name.as_str()]))
        }
        _ => wanted == found,
    }
}

fn merge(wanted: &Value, into: &mut Value) {
    match (wanted, &mut *into) {
        (Value::Object(wanted), Value::Object(_)) => {
            for (name, value) in wanted {
                merge(value, &mut into[name.as_str()]);
            }
        }
        (value, place @ Value::Null) if !value.is_null() => *place = value.clone(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn presets_fill_what_they_agree_with() {
        let preset = |name: &str, domain: Value| {
            Arc::new(json!({
                "metadata": {"name": name},
                "spec": {"selector": {"matchLabels": {"size": "small"}}, "domain": domain},
            }))
        };
        let presets = [
            preset("memory", json!({"memory": {"guest": "1Gi"}})),
            preset("cores", json!({"cpu": {"cores": 4}})),
        ];
        let mut vmi =
            json!({"metadata": {"labels": {"size": "small"}}, "spec": {"domain": {"cpu": {"cores": 2}}}});
        assert!(apply(&mut vmi, &presets));
        assert_eq!(vmi["spec"]["domain"], json!({"cpu": {"cores": 2}, "memory": {"guest": "1Gi"}}));
        assert_eq!(vmi.annotation("virtualmachinepreset.kubevirt.io/memory"), "kubevirt.io/v1");
        assert_eq!(vmi.annotation("virtualmachinepreset.kubevirt.io/cores"), "");
        let mut other = json!({"metadata": {}, "spec": {"domain": {}}});
        assert!(!apply(&mut other, &presets));
    }
}
