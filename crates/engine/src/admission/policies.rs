//! ValidatingAdmissionPolicies: what CEL can say of the same rules, for clusters without our webhook.
//!
//! What may not change comes from the model's table of change classes and from the words the webhook refuses with.
//! What has to be read to be judged (sizes, images, versions, addresses) stays with the webhook and the controllers.

use serde_json::{Value, json};
use trellis_model::change::{CLUSTER_FIELDS, FieldRule, POOL_FIELDS};

use super::kept::{BYPASS, MACHINE, PROVIDER_ID, SELECTOR, refused};
use super::{Kind, Named};
use crate::families::{Family, KKP, TRELLIS};

const API_VERSION: &str = "admissionregistration.k8s.io/v1";
const TIME: &str = r"^(0|([0-9]+(\\.[0-9]+)?(h|m|s|ms|us|ns))+)$";
const SHARE: &str = "^([0-9]+|[0-9]{1,2}%|100%)$";

/// A rule in CEL and what is said when it does not hold.
struct Rule {
    expression: String,
    message: String,
}

fn rule(field: &str, expression: impl Into<String>, message: &str) -> Rule {
    Rule { expression: expression.into(), message: format!("{field}: {message}") }
}

/// The policies and their bindings of some kinds, as objects.
pub fn policies(kinds: &[Named]) -> Vec<Value> {
    kinds.iter().copied().flat_map(of_kind).collect()
}

/// When an object of a kind has to be looked at, as policies and webhooks say it: it stays, its spec changes, and it is
/// on one of our platforms. What is not looked at passes even where nobody answers.
pub fn conditions(named: Named) -> Vec<Value> {
    kind_of(named).map(when).unwrap_or_default()
}

fn kind_of((group, version, _, kind): Named) -> Option<Kind> {
    Kind::of(&json!({"apiVersion": format!("{group}/{version}"), "kind": kind}))
}

fn when(kind: Kind) -> Vec<Value> {
    let mut conditions = vec![
        json!({"name": "stays", "expression": "!has(object.metadata.deletionTimestamp) && has(object.spec)"}),
        json!({
            "name": "changes",
            "expression": "oldObject == null || !has(oldObject.spec) || object.spec != oldObject.spec",
        }),
    ];
    if let Some(ours) = ours(kind) {
        conditions.push(json!({"name": "ours", "expression": ours}));
    }
    conditions
}

fn of_kind(named: Named) -> Vec<Value> {
    let Some(kind) = kind_of(named) else { return Vec::new() };
    let (group, version, plural, _) = named;
    let name = format!("trellis-{plural}.{group}");
    let validations: Vec<Value> = rules(kind)
        .into_iter()
        .map(|Rule { expression, message }| json!({"expression": expression, "message": message, "reason": "Invalid"}))
        .collect();
    let policy = json!({
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [group], "apiVersions": [version], "operations": ["CREATE", "UPDATE"],
                "resources": [plural],
            }]},
            "matchConditions": when(kind),
            "validations": validations,
        },
    });
    let binding = json!({
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    vec![policy, binding]
}

/// Which objects of a kind that others have, too, are on our platforms.
fn ours(kind: Kind) -> Option<String> {
    let (family, spec) = match kind {
        Kind::Machine(family) => (family, "dyn(object).spec"),
        Kind::Pool(family) | Kind::Set(family) => (family, "dyn(object).spec.?template.?spec"),
        Kind::Cluster | Kind::HealthCheck(_) => return None,
    };
    if *family == TRELLIS {
        return None;
    }
    let value = format!("{spec}.?providerSpec.?value");
    Some(if *family == KKP {
        format!("{value}.?cloudProvider.orValue('kubevirt') == 'kubevirt'")
    } else {
        format!("{value}.?kind.orValue('Kubevirt').matches('^(Kubevirt|Ovirt)')")
    })
}

fn rules(kind: Kind) -> Vec<Rule> {
    match kind {
        Kind::Cluster => refused(CLUSTER_FIELDS).map(kept).collect(),
        Kind::Pool(family) if *family == TRELLIS => refused(POOL_FIELDS).map(kept).collect(),
        Kind::Pool(_) | Kind::Set(_) => template(matches!(kind, Kind::Pool(_))),
        Kind::Machine(family) => machine(family),
        Kind::HealthCheck(_) => health_check(),
    }
}

/// A field of the model's table that does not change.
fn kept(row: &FieldRule) -> Rule {
    let field = format!("spec.{}", row.path);
    let place = |object: &str| match row.path {
        // What is left out means something.
        "platform" => format!("has({object}.spec.platform.kubevirt)"),
        "platform.kubevirt.namespace" => {
            format!("{object}.spec.?platform.?kubevirt.?namespace.orValue({object}.metadata.name)")
        }
        "role" => format!("{object}.spec.?role.orValue('worker')"),
        path => {
            let names: Vec<&str> = path.split('.').collect();
            format!("{object}.spec.?{}", names.join(".?"))
        }
    };
    rule(&field, format!("oldObject == null || {} == {}", place("object"), place("oldObject")), row.why)
}

/// Fields of an object that do not change.
fn same(path: &str) -> String {
    // Definitions of others may not know the field: it is looked for when it is asked about.
    format!("oldObject == null || dyn(object).spec{path} == dyn(oldObject).?spec{path}")
}

fn template(is_pool: bool) -> Vec<Rule> {
    let labels = "object.spec.?template.?metadata.?labels.orValue({})";
    let selected = "object.spec.?selector.?matchLabels.orValue({})";
    let mut rules = vec![
        rule("spec.selector", same(".?selector"), SELECTOR),
        rule(
            "spec.selector",
            format!("{selected}.all(key, key in {labels} && {labels}[key] == {selected}[key])"),
            "it does not select the machines of the template",
        ),
        rule(
            "spec.template.spec.taints",
            "object.spec.?template.?spec.?taints.orValue([]).all(taint, taint.?effect.orValue('') in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",
            "an effect is one of NoSchedule, PreferNoSchedule and NoExecute",
        ),
    ];
    if is_pool {
        let bound = |key: &str, default: u8| {
            format!("string(object.spec.?strategy.?rollingUpdate.?{key}.orValue({default})) in ['0', '0%']")
        };
        rules.push(rule(
            "spec.strategy.type",
            "object.spec.?strategy.?type.orValue('RollingUpdate') == 'RollingUpdate'",
            "RollingUpdate is the only one there is",
        ));
        rules.push(rule(
            "spec.strategy.rollingUpdate",
            format!("!({} && {})", bound("maxSurge", 1), bound("maxUnavailable", 0)),
            "maxSurge and maxUnavailable must not both be zero",
        ));
    } else {
        rules.push(rule(
            "spec.deletePolicy",
            "object.spec.?deletePolicy.orValue('Random') in ['Random', 'Newest', 'Oldest']",
            "it is one of Random, Newest and Oldest",
        ));
    }
    rules
}

fn machine(family: &Family) -> Vec<Rule> {
    let mut rules = vec![rule(
        "spec.providerID",
        "oldObject == null || oldObject.?spec.?providerID.orValue('') == '' || object.spec.?providerID == oldObject.spec.?providerID",
        PROVIDER_ID,
    )];
    let fields: &[&str] = if *family == TRELLIS {
        &["cluster", "pool", "revision", "ordinal", "zone"]
    } else {
        &["providerSpec", "versions", "configSource"]
    };
    for field in fields {
        let same = same(&format!(".?{field}"));
        let expression = if *family == KKP {
            format!("{same} || object.metadata.?annotations[?'{BYPASS}'].orValue('') == 'true'")
        } else {
            same
        };
        rules.push(rule(&format!("spec.{field}"), expression, MACHINE));
    }
    rules
}

fn health_check() -> Vec<Rule> {
    let time = |field: &str, place: &str| {
        rule(field, format!("string({place}).matches('{TIME}')"), "it is not a time such as 300s or 5m")
    };
    vec![
        rule(
            "spec.maxUnhealthy",
            format!("string(object.spec.?maxUnhealthy.orValue('100%')).matches('{SHARE}')"),
            "it is neither a number nor a share such as 40%",
        ),
        time("spec.nodeStartupTimeout", "object.spec.?nodeStartupTimeout.orValue('10m')"),
        rule(
            "spec.unhealthyConditions",
            format!(
                "object.spec.?unhealthyConditions.orValue([]).all(one, string(one.?timeout.orValue('')).matches('{TIME}'))"
            ),
            "a timeout is not a time such as 300s or 5m",
        ),
    ]
}
