//! What kubectl tells about the server and its objects: `explain`, `api-resources`, `describe` and others.

use serde_json::{Value, json};

use super::{Kubectl, cells};
use crate::context::{config_map, deployment, pod};
use crate::support::Result;

super::scenarios![
    explain,
    explain_recursive,
    explain_custom_resources,
    api_resources,
    api_versions,
    version,
    cluster_info,
    describe,
    options,
];

async fn explain(k: Kubectl) -> Result {
    let text = k.ok("explain pods").await?;
    assert!(text.starts_with("KIND:       Pod\nVERSION:    v1\n\nDESCRIPTION:\n"), "{text}");
    for field in ["apiVersion\t<string>", "metadata\t<ObjectMeta>", "spec\t<PodSpec>", "status\t<PodStatus>"]
    {
        assert!(text.contains(&format!("\n  {field}\n")), "{field}: {text}");
    }
    let text = k.ok("explain pod.spec").await?;
    assert!(text.starts_with("KIND:       Pod\nVERSION:    v1\n\nFIELD: spec <PodSpec>\n"), "{text}");
    for field in [
        "activeDeadlineSeconds\t<integer>",
        "affinity\t<Affinity>",
        "automountServiceAccountToken\t<boolean>",
        "containers\t<[]Container> -required-",
        "imagePullSecrets\t<[]LocalObjectReference>",
        "nodeSelector\t<map[string]string>",
        "overhead\t<map[string]Quantity>",
        "restartPolicy\t<string>",
        "securityContext\t<PodSecurityContext>",
        "topologySpreadConstraints\t<[]TopologySpreadConstraint>",
        "volumes\t<[]Volume>",
    ] {
        assert!(text.contains(&format!("\n  {field}\n")), "{field}: {text}");
    }
    let text = k.ok("explain deployment.spec.template.spec.containers.image").await?;
    assert!(
        text.starts_with(
            "GROUP:      apps\nKIND:       Deployment\nVERSION:    v1\n\nFIELD: image <string>\n"
        ),
        "{text}"
    );
    let text = k.ok("explain pod.spec.restartPolicy").await?;
    assert!(text.contains("ENUM:\n    Always\n    Never\n    OnFailure\n"), "{text}");
    let text = k.ok("explain deployment.spec.strategy.rollingUpdate.maxSurge").await?;
    assert!(text.contains("FIELD: maxSurge <IntOrString>\n"), "{text}");
    let text = k.ok("explain pod.metadata.creationTimestamp").await?;
    assert!(text.contains("FIELD: creationTimestamp <string>\n"), "{text}");
    let text = k.ok("explain hpa --api-version=autoscaling/v1").await?;
    assert!(text.contains("VERSION:    v1\n"), "{text}");
    let text = k.ok("explain pod.spec.containers").await?;
    assert!(text.contains("  name\t<string> -required-\n"), "{text}");
    let complaint = k.fails("explain pod.spec.nonsense").await?;
    assert_eq!(complaint, "error: field \"nonsense\" does not exist\n");
    let complaint = k.fails("explain nonsense").await?;
    assert_eq!(complaint, "the server doesn't have a resource type \"nonsense\"\n");
    Ok(())
}

async fn explain_recursive(k: Kubectl) -> Result {
    let text = k.ok("explain service --recursive").await?;
    assert!(text.contains("  spec\t<ServiceSpec>\n    allocateLoadBalancerNodePorts\t<boolean>\n"), "{text}");
    assert!(text.contains("    ports\t<[]ServicePort>\n"), "{text}");
    let text = k.ok("explain crd.spec.versions.schema --recursive").await?;
    assert!(text.contains("JSONSchemaProps"), "{text}");
    Ok(())
}

async fn explain_custom_resources(k: Kubectl) -> Result {
    let group = &k.cx.group;
    let version = |name: &str, storage: bool, field: &str| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {
                "type": "object", "description": "A lamp.",
                "properties": {"spec": {
                    "type": "object", "description": "What it should be like.", "required": [field],
                    "properties": {
                        field: {"type": "integer", "description": "How bright."},
                        "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
                        "cables": {"type": "array", "items": {"type": "object", "properties": {"length": {"type": "number"}}}},
                        "notes": {"type": "object", "additionalProperties": {"type": "string"}},
                        "port": {"x-kubernetes-int-or-string": true},
                    },
                }},
            }},
        })
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("lamps.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "lamps", "kind": "Lamp"},
            "versions": [version("v1", true, "lumen"), version("v2", false, "candela")]},
    });
    k.ok_with("create -f -", &definition.to_string()).await?;
    k.ok(&format!("wait --for=condition=established crd/lamps.{group} --timeout=60s")).await?;
    // Its description is published some time after the kind is served.
    let start = std::time::Instant::now();
    let text = loop {
        let said = k.run(&format!("explain lamps.spec --api-version={group}/v1")).await?;
        if said.success && said.stdout.contains("lumen")
            || start.elapsed() > std::time::Duration::from_mins(1)
        {
            break said.ok();
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    };
    assert!(
        text.starts_with(&format!(
            "GROUP:      {group}\nKIND:       Lamp\nVERSION:    v1\n\nFIELD: spec <Object>\n\n"
        )),
        "{text}"
    );
    assert!(text.contains("DESCRIPTION:\n    What it should be like.\n"), "{text}");
    for field in [
        "cables\t<[]Object>\n",
        "colour\t<string>\n  enum: red, green\n",
        "lumen\t<integer> -required-\n    How bright.\n",
        "notes\t<map[string]string>\n",
        "port\t<Object>\n",
    ] {
        assert!(text.contains(field), "{field}: {text}");
    }
    let text = k.ok(&format!("explain lamps --api-version={group}/v2 --recursive")).await?;
    assert!(
        text.contains("candela\t<integer> -required-")
            && text.contains("managedFields\t<[]ManagedFieldsEntry>"),
        "{text}"
    );
    k.ok(&format!("delete crd lamps.{group}")).await?;
    Ok(())
}

async fn api_resources(k: Kubectl) -> Result {
    let table = k.ok("api-resources --no-headers").await?;
    let rows: Vec<String> = cells(&table).iter().map(|row| row.join(" ")).collect();
    for row in [
        "bindings v1 true Binding",
        "configmaps cm v1 true ConfigMap",
        "namespaces ns v1 false Namespace",
        "deployments deploy apps/v1 true Deployment",
        "horizontalpodautoscalers hpa autoscaling/v2 true HorizontalPodAutoscaler",
        "leases coordination.k8s.io/v1 true Lease",
        "endpointslices discovery.k8s.io/v1 true EndpointSlice",
        "customresourcedefinitions crd,crds apiextensions.k8s.io/v1 false CustomResourceDefinition",
        "selfsubjectreviews authentication.k8s.io/v1 false SelfSubjectReview",
        "validatingadmissionpolicies admissionregistration.k8s.io/v1 false ValidatingAdmissionPolicy",
        "volumeattributesclasses vac storage.k8s.io/v1 false VolumeAttributesClass",
    ] {
        assert!(rows.iter().any(|seen| seen == row), "{row}: {table}");
    }
    let names = k.ok("api-resources --namespaced=true --verbs=list,delete --api-group=apps -o name").await?;
    assert_eq!(
        names,
        "controllerrevisions.apps\ndaemonsets.apps\ndeployments.apps\nreplicasets.apps\nstatefulsets.apps\n"
    );
    let names = k.ok("api-resources --categories=all -o name").await?;
    assert!(
        names.contains("pods\n") && names.contains("jobs.batch\n") && !names.contains("configmaps"),
        "{names}"
    );
    Ok(())
}

async fn api_versions(k: Kubectl) -> Result {
    let versions = k.ok("api-versions").await?;
    for version in [
        "v1",
        "apps/v1",
        "batch/v1",
        "autoscaling/v2",
        "policy/v1",
        "rbac.authorization.k8s.io/v1",
        "apiregistration.k8s.io/v1",
        "networking.k8s.io/v1",
    ] {
        assert!(versions.lines().any(|line| line == version), "{version}: {versions}");
    }
    Ok(())
}

async fn version(k: Kubectl) -> Result {
    let version: Value = serde_json::from_str(&k.ok("version -o json").await?)?;
    let server = &version["serverVersion"];
    assert_eq!((&server["major"], &server["minor"]), (&json!("1"), &json!("37")));
    // What comes after a plus tells who built the server.
    assert!(server["gitVersion"].as_str().is_some_and(|text| text.starts_with("v1.37.1")), "{version}");
    let text = k.ok("version").await?;
    assert!(text.contains("Server Version: v1.37.1"), "{text}");
    Ok(())
}

async fn cluster_info(k: Kubectl) -> Result {
    let text = k.ok("cluster-info").await?;
    assert!(text.contains(&k.cx.target.base), "{text}");
    Ok(())
}

async fn describe(k: Kubectl) -> Result {
    k.cx.until_pods_are_admitted().await?;
    k.cx.create(k.cx.core("pods"), &pod("p")).await?;
    k.cx.create(k.cx.core("configmaps"), &config_map("a", "1")).await?;
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    k.ok("create service clusterip s --tcp=80").await?;
    k.ok("create quota q --hard=pods=5").await?;
    for (what, part) in [
        ("pod p", "QoS Class:                   BestEffort"),
        ("cm a", "key:\n----\n1\n"),
        ("deploy d", "StrategyType:           RollingUpdate"),
        ("svc s", "Session Affinity:         None"),
        ("quota q", "pods"),
        ("ns default", "Status:       Active"),
        ("sa default", "Name:                default"),
        ("clusterrole view", "PolicyRule:"),
        ("crd", ""),
        ("apiservice v1.apps", "Group Priority Minimum:"),
    ] {
        let text = k.ok(&format!("describe {what}")).await?;
        assert!(text.contains(part), "{what}: {text}");
    }
    let complaint = k.fails("describe pod ghost").await?;
    assert_eq!(complaint, "Error from server (NotFound): pods \"ghost\" not found\n");
    Ok(())
}

async fn options(k: Kubectl) -> Result {
    // The server is told how long it may take, and that is longer than this.
    let complaint = k.fails("get cm --request-timeout=nonsense").await?;
    assert!(complaint.contains("Invalid timeout value"), "{complaint}");
    k.ok("get cm --request-timeout=20s").await?;
    k.ok("get cm --server-print=false").await?;
    k.ok("get ns --show-kind --v=0").await?;
    Ok(())
}
