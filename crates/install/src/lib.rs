//! What is installed in a cluster to run the controllers there.
//!
//! [`objects`] are plain objects, all derived from what the code needs: the definitions from the API types, the roles
//! from the table of rights, the webhooks and policies from admission. [`kustomize`] and [`chart`] are the same objects
//! in the forms that people keep in repositories.

pub mod chart;
pub mod kustomize;

mod workload;

use serde_json::{Value, json};
use trellis_engine::admission::{self, MUTATE, Named, VALIDATE, policies};
use trellis_engine::families::{FAMILIES, Family, KKP, OPENSHIFT, TRELLIS};
use trellis_engine::rights::{self, Names, Place, Subject};

/// What everything is called.
pub const NAME: &str = "trellis";
/// The Secret with the webhook's certificate.
pub const WEBHOOK_SECRET: &str = "trellis-webhook";
/// Whether helm leaves an object behind: definitions outlive the chart, and the objects with them.
const KEEP: (&str, &str) = ("helm.sh/resource-policy", "keep");

/// What is installed. The texts may be placeholders of a chart.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The namespace the controllers run in.
    pub namespace: String,
    /// Their image, whose entry point is `trellis`.
    pub image: String,
    /// How many run; one acts at a time.
    pub replicas: u32,
    /// The tenant cluster; nothing where the controllers find out themselves.
    pub cluster: Option<String>,
    /// All TenantClusters are looked after, each with the family and the sites that it says, and not one cluster.
    pub fleet: bool,
    /// Whose machine objects are reconciled; in a fleet, whose are installed and checked beside our own.
    pub family: &'static Family,
    /// The namespace of the machine objects; in a fleet it may be empty, for all of them.
    pub machines: String,
    /// The namespace of the VMs; in a fleet it may be empty, for all of them.
    pub infra: String,
    /// The Secret with the kubeconfig of the infra cluster; nothing where it is this one.
    pub infra_kubeconfig: Option<String>,
    /// The Secret with the kubeconfig of the tenant; nothing where nobody waits for Nodes.
    pub tenant_kubeconfig: Option<String>,
    /// Whether the controllers may see the hosts of the infra cluster.
    pub hosts: bool,
    /// Whether objects are looked at by a webhook before they are stored.
    pub webhook: bool,
    /// Whether they are by policies.
    pub policies: bool,
    /// Whether Prometheus's operator is told to scrape the controllers.
    pub monitor: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: "trellis-system".to_owned(),
            image: format!("trellis:{}", env!("CARGO_PKG_VERSION")),
            replicas: 2,
            cluster: Some("tenant".to_owned()),
            fleet: false,
            family: &TRELLIS,
            machines: "trellis-system".to_owned(),
            infra: "tenant".to_owned(),
            infra_kubeconfig: None,
            tenant_kubeconfig: None,
            hosts: true,
            webhook: true,
            policies: true,
            monitor: false,
        }
    }
}

/// A part of what is installed.
#[derive(Debug, Clone)]
pub struct Part {
    /// What it is called, as a file is.
    pub name: &'static str,
    /// Its objects.
    pub objects: Vec<Value>,
}

/// Everything that is installed, in the order it has to be.
pub fn parts(settings: &Settings) -> Vec<Part> {
    let part = |name, objects| Part { name, objects };
    let mut parts = vec![
        part("namespace", vec![workload::namespace(settings)]),
        part("crds", crds(&[settings.family])),
        part("rbac", rbac(settings)),
        part("deployment", workload::workload(settings)),
    ];
    let kinds = kinds(settings.family);
    if settings.webhook {
        parts.push(part("webhook", webhooks(&settings.namespace, &kinds)));
    }
    if settings.policies {
        parts.push(part("policies", policies::policies(&kinds)));
    }
    if settings.monitor {
        parts.push(part("monitor", vec![workload::monitor(settings)]));
    }
    parts
}

/// All objects that are installed, in the order they have to be.
pub fn objects(settings: &Settings) -> Vec<Value> {
    parts(settings).into_iter().flat_map(|part| part.objects).collect()
}

/// The kinds that are looked at: our own, and those of the family.
fn kinds(family: &'static Family) -> Vec<Named> {
    let families: &[&'static Family] = if *family == TRELLIS { &[&TRELLIS] } else { &[&TRELLIS, family] };
    admission::kinds(families)
}

/// The definitions of our own kinds and of those of some families, which stay when everything else goes.
pub fn crds(families: &[&Family]) -> Vec<Value> {
    let group_of = |crd: &Value| crd["spec"]["group"].as_str().unwrap_or_default().to_owned();
    let foreign = trellis_api::machine_crds::machine_crds()
        .into_iter()
        .filter(|crd| families.iter().any(|family| family.machine.requested().group == group_of(crd)));
    let mut all: Vec<Value> = trellis_api::trellis::crds().into_iter().chain(foreign).collect();
    for crd in &mut all {
        crd["metadata"]["annotations"][KEEP.0] = KEEP.1.into();
    }
    all
}

/// The account of the controllers and its rights in this cluster.
fn rbac(settings: &Settings) -> Vec<Value> {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": NAME, "namespace": settings.namespace, "labels": labels()},
    });
    let mut objects = vec![account];
    objects.extend(site_roles(Place::Control, settings));
    if settings.infra_kubeconfig.is_none() {
        objects.extend(site_roles(Place::Infra, settings));
    }
    if settings.webhook {
        objects.extend(webhook_roles(&settings.namespace));
    }
    objects
}

/// The roles of one site, for the account of the controllers.
pub fn site_roles(place: Place, settings: &Settings) -> Vec<Value> {
    let namespace = if place == Place::Infra { &settings.infra } else { &settings.machines };
    let subject = Subject::Account(&settings.namespace, NAME);
    let families: &[&'static Family] = if settings.fleet { &FAMILIES } else { &[settings.family] };
    rights::roles(place, families, &Names { namespace, subject, hosts: settings.hosts })
}

/// What the webhook needs to vouch for itself: its own Secret, and its own configurations.
fn webhook_roles(namespace: &str) -> Vec<Value> {
    let subject = Subject::Account(namespace, NAME);
    let secret = [
        json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": [WEBHOOK_SECRET], "verbs": ["get", "patch"]}),
        // What is not there yet has no name to be limited to.
        json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}),
    ];
    let configurations = json!({
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        "resourceNames": [NAME],
        "verbs": ["list", "patch", "watch"],
    });
    let own = rights::role("trellis-webhook", Some(namespace), &secret, subject);
    own.into_iter().chain(rights::role("trellis-webhook", None, &[configurations], subject)).collect()
}

/// The webhook configurations. The authority is written into them by the controllers.
fn webhooks(namespace: &str, kinds: &[Named]) -> Vec<Value> {
    let configuration = |kind: &str, verb: &str, path: &str, failure: &str| {
        let hooks: Vec<Value> =
            kinds.iter().map(|named| hook(namespace, *named, verb, path, failure)).collect();
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": NAME, "labels": labels()}, "webhooks": hooks,
        })
    };
    vec![
        // What is not filled in means the same.
        configuration("MutatingWebhookConfiguration", "fill", MUTATE, "Ignore"),
        configuration("ValidatingWebhookConfiguration", "check", VALIDATE, "Fail"),
    ]
}

fn hook(namespace: &str, named: Named, verb: &str, path: &str, failure: &str) -> Value {
    let (group, version, plural, _) = named;
    json!({
        "name": format!("{verb}.{plural}.{group}"),
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": namespace, "name": NAME, "path": path, "port": 443}},
        "rules": [{
            "apiGroups": [group], "apiVersions": [version], "operations": ["CREATE", "UPDATE"],
            "resources": [plural], "scope": "Namespaced",
        }],
        "matchConditions": policies::conditions(named),
        "matchPolicy": "Equivalent",
        "failurePolicy": failure,
        "sideEffects": "None",
        "timeoutSeconds": 5,
    })
}

/// What everything of ours is labelled with.
fn labels() -> Value {
    json!({"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "controller"})
}

/// The families that have definitions of their own beside ours.
const FOREIGN: [&Family; 2] = [&KKP, &OPENSHIFT];
