//! The controllers as they run: their namespace, pods, Service and what guards them.

use serde_json::{Value, json};

use crate::{NAME, Settings, WEBHOOK_SECRET, labels};

const METRICS: u16 = 8080;
const WEBHOOK: u16 = 9443;

/// The namespace, in which nothing may run that the controllers do not need either.
pub(crate) fn namespace(settings: &Settings) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": settings.namespace, "labels": {
            "app.kubernetes.io/name": NAME, "pod-security.kubernetes.io/enforce": "restricted",
        }},
    })
}

/// The Deployment, its Service and its disruption budget.
pub(crate) fn workload(settings: &Settings) -> Vec<Value> {
    vec![
        deployment(settings, &json!(settings.replicas), &resources(), &arguments(settings), mounts(settings)),
        service(settings),
        budget(settings),
    ]
}

/// What the controllers take; a machine costs some kilobytes.
pub(crate) fn resources() -> Value {
    json!({"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}})
}

/// What the controllers are told.
pub(crate) fn arguments(settings: &Settings) -> Vec<String> {
    let mut arguments = vec!["controller".to_owned()];
    let mut say = |name: &str, value: &str| arguments.push(format!("--{name}={value}"));
    if settings.fleet {
        // Each TenantCluster says the rest itself.
        if !settings.machines.is_empty() {
            say("namespace", &settings.machines);
        }
    } else {
        if let Some(cluster) = &settings.cluster {
            say("cluster", cluster);
        }
        say("family", settings.family.name);
        say("namespace", &settings.machines);
        say("infra-namespace", &settings.infra);
    }
    say("listen", &format!("0.0.0.0:{METRICS}"));
    arguments.push("--log-json".to_owned());
    for (name, secret) in kubeconfigs(settings) {
        if secret.is_some() {
            arguments.push(kubeconfig_argument(name));
        }
    }
    if settings.webhook {
        arguments.extend(webhook_arguments(&settings.namespace));
    }
    arguments
}

pub(crate) fn kubeconfig_argument(name: &str) -> String {
    format!("--{name}-kubeconfig=/etc/trellis/{name}/kubeconfig")
}

pub(crate) fn webhook_arguments(namespace: &str) -> [String; 3] {
    [
        format!("--webhook-listen=0.0.0.0:{WEBHOOK}"),
        format!("--webhook-service={namespace}/{NAME}"),
        format!("--webhook-secret={WEBHOOK_SECRET}"),
    ]
}

/// The sites whose kubeconfigs may be in Secrets.
pub(crate) fn kubeconfigs(settings: &Settings) -> [(&'static str, Option<&str>); 2] {
    [("infra", settings.infra_kubeconfig.as_deref()), ("tenant", settings.tenant_kubeconfig.as_deref())]
}

/// Volumes and where they are mounted.
pub(crate) type Mounts = (Vec<Value>, Vec<Value>);

fn mounts(settings: &Settings) -> Mounts {
    let given = kubeconfigs(settings).into_iter().filter_map(|(name, secret)| Some(mount(name, secret?)));
    given.unzip()
}

pub(crate) fn mount(name: &str, secret: &str) -> (Value, Value) {
    (
        json!({"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}}),
        json!({"name": name, "mountPath": format!("/etc/trellis/{name}"), "readOnly": true}),
    )
}

pub(crate) fn deployment(
    settings: &Settings,
    replicas: &Value,
    resources: &Value,
    arguments: &[String],
    (volumes, volume_mounts): Mounts,
) -> Value {
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "metrics"}, "periodSeconds": 10});
    let mut container = json!({
        "name": "controller",
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments,
        "ports": [
            {"name": "metrics", "containerPort": METRICS, "protocol": "TCP"},
            {"name": "webhook", "containerPort": WEBHOOK, "protocol": "TCP"},
        ],
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "resources": resources,
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    });
    let mut pod = json!({
        "serviceAccountName": NAME,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels()}},
        }]}},
    });
    if !volumes.is_empty() {
        container["volumeMounts"] = volume_mounts.into();
        pod["volumes"] = volumes.into();
    }
    pod["containers"] = json!([container]);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": settings.namespace, "labels": labels()},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels()},
            // The webhook answers all the while.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": labels()}, "spec": pod},
        },
    })
}

pub(crate) fn service(settings: &Settings) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": NAME, "namespace": settings.namespace, "labels": labels()},
        "spec": {
            "selector": labels(),
            "ports": [
                {"name": "webhook", "port": 443, "targetPort": "webhook", "protocol": "TCP"},
                {"name": "metrics", "port": METRICS, "targetPort": "metrics", "protocol": "TCP"},
            ],
        },
    })
}

pub(crate) fn budget(settings: &Settings) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": NAME, "namespace": settings.namespace, "labels": labels()},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels()}},
    })
}

/// What tells Prometheus's operator where to look.
pub(crate) fn monitor(settings: &Settings) -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
        "metadata": {"name": NAME, "namespace": settings.namespace, "labels": labels()},
        "spec": {"selector": {"matchLabels": labels()}, "endpoints": [{"port": "metrics", "path": "/metrics"}]},
    })
}
