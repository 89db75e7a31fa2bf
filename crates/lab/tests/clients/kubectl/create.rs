//! `kubectl create`, with each kind it has a verb for, and the other commands that make objects.

use base64::Engine as _;
use serde_json::{Value, json};

use super::Kubectl;
use crate::context::config_map;
use crate::support::Result;
use crate::support::json::has;

super::scenarios![
    config_maps,
    secrets,
    roles,
    workloads,
    services,
    ingresses,
    policies,
    namespaces,
    accounts_and_tokens,
    from_files,
    generated_names,
    dry_runs,
    run_a_pod,
    expose,
    autoscale,
    bad_input,
];

async fn config_maps(k: Kubectl) -> Result {
    k.file("settings.properties", "a=1\nb=2\n")?;
    k.file("env", "X=1\nY=two words\n")?;
    assert_eq!(
        k.ok("create configmap a --from-literal=k=v --from-literal=n=1").await?,
        "configmap/a created\n"
    );
    assert_eq!(k.json("get cm a").await?["data"], json!({"k": "v", "n": "1"}));
    k.ok("create cm b --from-file=settings.properties --from-file=other=env").await?;
    let stored = k.json("get cm b").await?;
    has(&stored["data"], &json!({"settings.properties": "a=1\nb=2\n", "other": "X=1\nY=two words\n"}));
    k.ok("create cm c --from-env-file=env").await?;
    assert_eq!(k.json("get cm c").await?["data"], json!({"X": "1", "Y": "two words"}));
    k.ok("create cm d --append-hash --from-literal=k=v").await?;
    assert!(k.ok("get cm -o name").await?.contains("configmap/d-"));
    let complaint = k.fails("create cm a --from-literal=k=v").await?;
    assert_eq!(complaint, "error: failed to create configmap: configmaps \"a\" already exists\n");
    Ok(())
}

async fn secrets(k: Kubectl) -> Result {
    k.file("password", "hush")?;
    assert_eq!(
        k.ok("create secret generic g --from-literal=user=me --from-file=password").await?,
        "secret/g created\n"
    );
    let stored = k.json("get secret g").await?;
    has(&stored, &json!({"type": "Opaque", "data": {"user": "bWU=", "password": "aHVzaA=="}}));
    k.ok("create secret docker-registry d --docker-server=example.com --docker-username=u --docker-password=p --docker-email=e@example.com").await?;
    let stored = k.json("get secret d").await?;
    assert_eq!(stored["type"], "kubernetes.io/dockerconfigjson");
    let config = base64::engine::general_purpose::STANDARD
        .decode(stored["data"][".dockerconfigjson"].as_str().unwrap_or_default())?;
    let config: Value = serde_json::from_slice(&config)?;
    assert_eq!(config["auths"]["example.com"]["username"], "u");
    let identity = crate::support::certificates::Authority::new("tls")?.server("x", &[])?;
    identity.write(k.home.path(), "tls")?;
    k.ok("create secret tls t --cert=tls.crt --key=tls.key").await?;
    let table = k.ok("get secret t").await?;
    assert!(table.contains("kubernetes.io/tls   2"), "{table}");
    let table = k.ok("describe secret g").await?;
    assert!(table.contains("password:  4 bytes"), "{table}");
    let complaint = k.fails("create secret generic bad --type=kubernetes.io/tls --from-literal=a=b").await?;
    assert!(
        complaint.contains("data[tls.crt]: Required value")
            && complaint.contains("data[tls.key]: Required value"),
        "{complaint}"
    );
    Ok(())
}

async fn roles(k: Kubectl) -> Result {
    let unique = &k.cx.unique;
    k.ok("create role r --verb=get,list --resource=pods,deployments.apps/scale --resource-name=one").await?;
    let rules = k.json("get role r").await?["rules"].clone();
    has(
        &rules[0],
        &json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"], "resourceNames": ["one"]}),
    );
    has(&rules[1], &json!({"apiGroups": ["apps"], "resources": ["deployments/scale"]}));
    k.ok("create rolebinding rb --role=r --user=alice --group=devs --serviceaccount=default:default").await?;
    let binding = k.json("get rolebinding rb").await?;
    has(
        &binding,
        &json!({"roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}}),
    );
    assert_eq!(binding["subjects"].as_array().map(Vec::len), Some(3));
    let table = k.ok("get rolebinding rb -o wide").await?;
    assert!(table.contains("Role/r") && table.contains("default/default"), "{table}");
    assert_eq!(
        k.ok(&format!("create clusterrole {unique} --verb=get --non-resource-url=/metrics,/logs/*")).await?,
        format!("clusterrole.rbac.authorization.k8s.io/{unique} created\n")
    );
    k.ok(&format!("create clusterrole {unique}-sum --aggregation-rule=sum-of={unique}")).await?;
    k.ok(&format!("create clusterrolebinding {unique} --clusterrole={unique} --group=devs")).await?;
    let complaint = k.fails("create role bad --verb=get --resource=nonsense").await?;
    assert!(complaint.contains("the server doesn't have a resource type \"nonsense\""), "{complaint}");
    k.ok(&format!("delete clusterrole {unique} {unique}-sum")).await?;
    k.ok(&format!("delete clusterrolebinding {unique}")).await?;
    Ok(())
}

async fn workloads(k: Kubectl) -> Result {
    assert_eq!(
        k.ok("create deployment d --image=example.com/a:1 --image=example.com/b:1 --replicas=2").await?,
        "deployment.apps/d created\n"
    );
    let stored = k.json("get deploy d").await?;
    has(
        &stored,
        &json!({"spec": {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}}, "metadata": {"generation": 1}}),
    );
    assert_eq!(stored["spec"]["template"]["spec"]["containers"][1]["name"], "b");
    k.ok("create deployment p --image=example.com/a:1 --port=8080 -- sleep 1").await?;
    k.ok("create job j --image=example.com/a:1 -- true").await?;
    let job = k.json("get job j").await?;
    has(
        &job["spec"],
        &json!({"completions": 1, "parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed"}),
    );
    assert!(job["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"].is_string());
    assert_eq!(
        k.ok("create cronjob c --image=example.com/a:1 --schedule='*/5 * * * *' -- date").await?,
        "cronjob.batch/c created\n"
    );
    assert_eq!(k.ok("create job from --from=cronjob/c").await?, "job.batch/from created\n");
    let job = k.json("get job from").await?;
    assert_eq!(job["metadata"]["ownerReferences"][0]["kind"], "CronJob");
    assert_eq!(job["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"], "manual");
    let table = k.ok("get cronjob c").await?;
    assert!(table.contains("*/5 * * * *   <none>     False     0        <none>"), "{table}");
    let complaint = k.fails("create cronjob bad --image=example.com/a:1 --schedule=nonsense").await?;
    assert!(complaint.contains("spec.schedule: Invalid value: \"nonsense\""), "{complaint}");
    Ok(())
}

async fn services(k: Kubectl) -> Result {
    assert_eq!(k.ok("create service clusterip c --tcp=80:8080 --tcp=443").await?, "service/c created\n");
    let service = k.json("get svc c").await?;
    has(
        &service["spec"],
        &json!({"type": "ClusterIP", "selector": {"app": "c"}, "sessionAffinity": "None", "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster"}),
    );
    assert!(service["spec"]["clusterIP"].as_str().is_some_and(|ip| ip.starts_with("10.")), "{service}");
    k.ok("create service clusterip h --clusterip=None --tcp=80").await?;
    assert_eq!(k.ok("get svc h -o jsonpath={.spec.clusterIPs}").await?, "[\"None\"]");
    k.ok("create service nodeport n --tcp=80:8080").await?;
    let port = k.ok("get svc n -o jsonpath={.spec.ports[0].nodePort}").await?;
    assert!((30000..=32767).contains(&port.parse::<u16>()?), "{port}");
    k.ok("create service loadbalancer l --tcp=80").await?;
    let table = k.ok("get svc l").await?;
    assert!(table.contains("LoadBalancer") && table.contains("<pending>"), "{table}");
    k.ok("create service externalname e --external-name=example.com").await?;
    let table = k.ok("get svc e").await?;
    assert!(table.contains("ExternalName   <none>       example.com"), "{table}");
    let ip = service["spec"]["clusterIP"].as_str().unwrap_or_default();
    let complaint = k.fails(&format!("create service clusterip same --tcp=80 --clusterip={ip}")).await?;
    assert!(complaint.contains(&format!("spec.clusterIPs: Invalid value: [\"{ip}\"]: failed to allocate IP {ip}: provided IP is already allocated")), "{complaint}");
    let complaint = k.fails("create service clusterip bad --tcp=70000").await?;
    assert!(complaint.contains("70000"), "{complaint}");
    Ok(())
}

async fn ingresses(k: Kubectl) -> Result {
    let line = "create ingress i --class=fast --rule='shop.example.com/cart*=cart:80,tls=secret' --rule='/=web:http' --default-backend=web:http --annotation a=b";
    assert_eq!(k.ok(line).await?, "ingress.networking.k8s.io/i created\n");
    let stored = k.json("get ing i").await?;
    has(
        &stored["spec"],
        &json!({"ingressClassName": "fast", "defaultBackend": {"service": {"name": "web", "port": {"name": "http"}}}}),
    );
    assert_eq!(stored["spec"]["rules"][0]["http"]["paths"][0]["pathType"], "Prefix");
    let table = k.ok("get ing").await?;
    assert!(table.contains("shop.example.com"), "{table}");
    Ok(())
}

async fn policies(k: Kubectl) -> Result {
    k.ok("create poddisruptionbudget one --selector=app=web --min-available=50%").await?;
    k.ok("create pdb two --selector=app=web --max-unavailable=1").await?;
    let table = k.ok("get pdb").await?;
    assert!(table.contains("50%") && table.contains("N/A"), "{table}");
    let complaint = k.fails("create quota q --hard=cpu=1,pods=2 --scopes=BestEffort").await?;
    assert_eq!(
        complaint,
        "error: failed to create quota: ResourceQuota \"q\" is invalid: spec.scopes: Invalid value: \
         [\"BestEffort\"]: unsupported scope applied to resource\n"
    );
    k.ok("create quota q --hard=cpu=1,memory=1G,pods=2,count/configmaps=5").await?;
    has(
        &k.json("get quota q").await?["spec"]["hard"],
        &json!({"cpu": "1", "memory": "1G", "count/configmaps": "5"}),
    );
    k.ok("create quota s --hard=pods=2 --scopes=BestEffort").await?;
    let unique = &k.cx.unique;
    k.ok(&format!(
        "create priorityclass {unique} --value=1000 --description='quite high' --preemption-policy=Never"
    ))
    .await?;
    let table = k.ok(&format!("get priorityclass {unique}")).await?;
    assert!(table.contains("1000    false"), "{table}");
    let complaint = k.fails(&format!("create priorityclass {unique}-2 --value=2000000000")).await?;
    assert!(
        complaint.contains("maximum allowed value of a user defined priority is 1000000000"),
        "{complaint}"
    );
    k.ok(&format!("delete priorityclass {unique}")).await?;
    Ok(())
}

async fn namespaces(k: Kubectl) -> Result {
    let name = format!("{}-more", k.cx.unique);
    assert_eq!(k.ok(&format!("create namespace {name}")).await?, format!("namespace/{name} created\n"));
    let stored = k.json(&format!("get ns {name}")).await?;
    has(&stored, &json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}));
    assert_eq!(stored["metadata"]["labels"]["kubernetes.io/metadata.name"], name.as_str());
    let complaint = k.fails(&format!("create ns {name}")).await?;
    assert_eq!(
        complaint,
        format!("Error from server (AlreadyExists): namespaces \"{name}\" already exists\n")
    );
    let complaint = k.fails("create ns UPPER").await?;
    assert!(complaint.starts_with("The Namespace \"UPPER\" is invalid: metadata.name: Invalid value: \"UPPER\": a lowercase RFC 1123 label"), "{complaint}");
    assert_eq!(k.ok(&format!("delete ns {name}")).await?, format!("namespace \"{name}\" deleted\n"));
    k.fails(&format!("get ns {name}")).await?;
    Ok(())
}

async fn accounts_and_tokens(k: Kubectl) -> Result {
    assert_eq!(k.ok("create serviceaccount robot").await?, "serviceaccount/robot created\n");
    let token = k
        .ok("create token robot --duration=20m --audience=https://kubernetes.default.svc.cluster.local")
        .await?;
    let who = k.ok(&format!("auth whoami --token={} -o json", token.trim())).await;
    // A client certificate of the kubeconfig would win over the token, so ask the server about it.
    drop(who);
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token.trim()}});
    let reviewed: Value =
        serde_json::from_str(&k.ok_with("create -o json -f -", &review.to_string()).await?)?;
    has(
        &reviewed["status"],
        &json!({"authenticated": true, "user": {"username": format!("system:serviceaccount:{}:robot", k.cx.ns)}}),
    );
    let request: Value = serde_json::from_str(&k.ok("create token robot -o json").await?)?;
    has(&request, &json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}));
    k.ok("create secret generic holder").await?;
    let bound: Value = serde_json::from_str(
        &k.ok("create token robot --bound-object-kind=Secret --bound-object-name=holder -o json").await?,
    )?;
    assert_eq!(bound["spec"]["boundObjectRef"]["name"], "holder");
    let complaint = k.fails("create token ghost").await?;
    assert_eq!(complaint, "error: failed to create token: serviceaccounts \"ghost\" not found\n");
    let complaint = k.fails("create token robot --duration=1s").await?;
    assert!(complaint.contains("may not specify a duration less than 10 minutes"), "{complaint}");
    Ok(())
}

async fn from_files(k: Kubectl) -> Result {
    let text = format!("{}\n---\n{}", config_map("a", "1"), config_map("b", "1"));
    assert_eq!(k.ok_with("create -f -", &text).await?, "configmap/a created\nconfigmap/b created\n");
    let complaint = k.feed("create -f -", &text).await?.fails();
    assert_eq!(
        complaint,
        "Error from server (AlreadyExists): error when creating \"STDIN\": configmaps \"a\" already exists\n\
         Error from server (AlreadyExists): error when creating \"STDIN\": configmaps \"b\" already exists\n"
    );
    let saved = k.json("get cm a --show-managed-fields").await?;
    assert_eq!(saved["metadata"]["managedFields"][0]["manager"], "kubectl-create");
    k.ok_with("create --save-config --field-manager=mine -f -", &config_map("c", "1").to_string()).await?;
    let saved = k.json("get cm c --show-managed-fields").await?;
    assert!(saved["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"].is_string());
    assert_eq!(saved["metadata"]["managedFields"][0]["manager"], "mine");
    Ok(())
}

async fn generated_names(k: Kubectl) -> Result {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}});
    let name = k.ok_with("create -o name -f -", &map.to_string()).await?;
    let suffix = name.trim().strip_prefix("configmap/gen-").unwrap_or_default();
    assert_eq!(suffix.len(), 5, "{name}");
    assert!(suffix.chars().all(|letter| "bcdfghjklmnpqrstvwxz2456789".contains(letter)), "{name}");
    let complaint = k.feed("apply -f -", &map.to_string()).await?.fails();
    assert!(complaint.contains("from gen-: cannot use generate name with apply"), "{complaint}");
    Ok(())
}

async fn dry_runs(k: Kubectl) -> Result {
    assert_eq!(
        k.ok("create deployment d --image=example.com/a --dry-run=server").await?,
        "deployment.apps/d created (server dry run)\n"
    );
    let shown: Value = serde_json::from_str(
        &k.ok("create deployment d --image=example.com/a --dry-run=server -o json").await?,
    )?;
    has(
        &shown["spec"],
        &json!({"revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {"type": "RollingUpdate"}}),
    );
    assert_eq!(
        k.ok("create ns not-kept --dry-run=server").await?,
        "namespace/not-kept created (server dry run)\n"
    );
    k.fails("get ns not-kept").await?;
    k.fails("get deploy d").await?;
    Ok(())
}

async fn run_a_pod(k: Kubectl) -> Result {
    k.cx.until_pods_are_admitted().await?;
    assert_eq!(
        k.ok("run p --image=example.com/a:1 --port=80 --env=A=b --labels=app=p").await?,
        "pod/p created\n"
    );
    let pod = k.json("get pod p").await?;
    has(
        &pod["spec"],
        &json!({"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "serviceAccountName": "default", "terminationGracePeriodSeconds": 30}),
    );
    has(&pod["status"], &json!({"phase": "Pending", "qosClass": "BestEffort"}));
    assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
    let complaint = k.fails("run p --image=example.com/a:1").await?;
    assert_eq!(complaint, "Error from server (AlreadyExists): pods \"p\" already exists\n");
    let complaint = k.fails("run p2 --image='not an image'").await?;
    assert!(complaint.contains("invalid reference format"), "{complaint}");
    assert!(k.ok("get pod p -o yaml").await?.contains("kube-api-access-"), "the token is mounted");
    Ok(())
}

async fn expose(k: Kubectl) -> Result {
    k.ok("create deployment d --image=example.com/a:1 --port=8080").await?;
    assert_eq!(k.ok("expose deployment d --port=80 --target-port=8080").await?, "service/d exposed\n");
    let service = k.json("get svc d").await?;
    assert_eq!(service["spec"]["selector"], json!({"app": "d"}));
    assert_eq!(service["spec"]["ports"][0], json!({"port": 80, "protocol": "TCP", "targetPort": 8080}));
    k.ok("expose svc d --name=e --type=NodePort --port=81").await?;
    let complaint = k.fails("expose deployment d --port=80").await?;
    assert_eq!(complaint, "Error from server (AlreadyExists): services \"d\" already exists\n");
    Ok(())
}

async fn autoscale(k: Kubectl) -> Result {
    k.ok("create deployment d --image=example.com/a:1").await?;
    let said = k.ok("autoscale deployment d --min=2 --max=5 --cpu=70%").await?;
    assert_eq!(said, "horizontalpodautoscaler.autoscaling/d autoscaled\n");
    let table = k.ok("get hpa d").await?;
    assert!(table.contains("Deployment/d"), "{table}");
    let v1 = k.json("get horizontalpodautoscalers.v1.autoscaling d").await?;
    has(
        &v1,
        &json!({"apiVersion": "autoscaling/v1", "spec": {"minReplicas": 2, "maxReplicas": 5, "targetCPUUtilizationPercentage": 70}}),
    );
    let v2 = k.json("get horizontalpodautoscalers.v2.autoscaling d").await?;
    has(
        &v2["spec"]["metrics"][0]["resource"],
        &json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}),
    );
    Ok(())
}

async fn bad_input(k: Kubectl) -> Result {
    let complaint = k.fails("create configmap Not_A_Name").await?;
    assert!(complaint.contains("metadata.name: Invalid value: \"Not_A_Name\""), "{complaint}");
    let complaint = k.fails("create deployment d --image=''").await?;
    assert!(!complaint.is_empty());
    let complaint = k
        .feed(
            "create -f -",
            &json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "1bad"}, "spec": {"ports": []},
            })
            .to_string(),
        )
        .await?
        .fails();
    assert_eq!(complaint, "The Service \"1bad\" is invalid: spec.ports: Required value\n");
    let complaint = k.fails("create configmap c --from-literal=a=b -n no-such-namespace").await?;
    assert_eq!(complaint, "error: failed to create configmap: namespaces \"no-such-namespace\" not found\n");
    let complaint = k
        .feed(
            "create -f -",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: many}\n",
        )
        .await?
        .fails();
    assert!(complaint.contains("Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"), "{complaint}");
    Ok(())
}
