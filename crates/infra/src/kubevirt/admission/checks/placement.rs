//! Where a machine may run.

use serde_json::Value;

use super::{Cause, Field};
use crate::object::Object as _;

pub(super) fn check(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let affinity = &spec["affinity"];
    let place = field.child("affinity");
    nodes(&place.child("nodeAffinity"), &affinity["nodeAffinity"], causes);
    for name in ["podAffinity", "podAntiAffinity"] {
        pods(&place.child(name), &affinity[name], causes);
    }
    for (index, spread) in spec.list("/topologySpreadConstraints").iter().enumerate() {
        let place = field.child("topologySpreadConstraints").index(index);
        let skew = spread.number("/maxSkew").unwrap_or_default();
        if skew <= 0 {
            invalid(&place.child("maxSkew"), &skew.to_string(), "must be greater than zero", causes);
        }
        if spread.text("/topologyKey").is_empty() {
            required(&place.child("topologyKey"), "can not be empty", causes);
        }
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn required(place: &Field, what: &str, causes: &mut Vec<Cause>) {
    causes.push(Cause::invalid(place.clone(), format!("{place}: Required value: {what}")));
}

fn invalid(place: &Field, value: &str, what: &str, causes: &mut Vec<Cause>) {
    causes.push(Cause::invalid(place.clone(), format!("{place}: Invalid value: {value}: {what}")));
}

fn nodes(place: &Field, affinity: &Value, causes: &mut Vec<Cause>) {
    let wanted = &affinity[REQUIRED];
    if wanted.is_object() && wanted.list("/nodeSelectorTerms").is_empty() {
        let terms = place.child(REQUIRED).child("nodeSelectorTerms");
        required(&terms, "must have at least one node selector term", causes);
    }
    weights(&place.child(PREFERRED), affinity, causes);
}

fn pods(place: &Field, affinity: &Value, causes: &mut Vec<Cause>) {
    for (index, term) in affinity.list(&format!("/{REQUIRED}")).iter().enumerate() {
        if term.text("/topologyKey").is_empty() {
            required(&place.child(REQUIRED).index(index).child("topologyKey"), "can not be empty", causes);
        }
    }
    for (index, term) in affinity.list(&format!("/{PREFERRED}")).iter().enumerate() {
        if term.text("/podAffinityTerm/topologyKey").is_empty() {
            let place = place.child(PREFERRED).index(index).child("podAffinityTerm.topologyKey");
            required(&place, "can not be empty", causes);
        }
    }
    weights(&place.child(PREFERRED), affinity, causes);
}

fn weights(place: &Field, affinity: &Value, causes: &mut Vec<Cause>) {
    for (index, term) in affinity.list(&format!("/{PREFERRED}")).iter().enumerate() {
        let weight = term.number("/weight").unwrap_or_default();
        if !(1..=100).contains(&weight) {
            let place = place.index(index).child("weight");
            invalid(&place, &weight.to_string(), "must be in the range 1-100", causes);
        }
    }
}
