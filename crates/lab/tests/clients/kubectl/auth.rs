//! `kubectl auth` and `kubectl certificate`.

use base64::Engine as _;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use super::Kubectl;
use crate::support::Result;
use crate::support::certificates::subject;
use crate::support::json::has;

super::scenarios![can_i, can_i_lists, impersonation, whoami, reconcile, forbidden, certificates];

async fn can_i(k: Kubectl) -> Result {
    assert_eq!(k.ok("auth can-i create pods").await?, "yes\n");
    assert_eq!(k.ok("auth can-i '*' '*'").await?, "yes\n");
    assert_eq!(k.ok("auth can-i get /healthz").await?, "yes\n");
    let said = k.run("auth can-i create pods --as=nobody").await?;
    assert!(!said.success);
    assert_eq!(said.stdout, "no\n");
    k.ok("create role reader --verb=get,list --resource=pods,pods/log").await?;
    k.ok("create rolebinding reader --role=reader --user=nobody").await?;
    let asked = |what: &str| format!("auth can-i {what} --as=nobody");
    assert_eq!(k.ok(&asked("get pods")).await?, "yes\n");
    assert_eq!(k.ok(&asked("get pods --subresource=log")).await?, "yes\n");
    for what in ["delete pods", "get pods --subresource=exec", "get pods -A", "get secrets"] {
        assert_eq!(k.run(&asked(what)).await?.stdout, "no\n", "{what}");
    }
    k.ok("create role named --verb=update --resource=configmaps --resource-name=one").await?;
    k.ok("create rolebinding named --role=named --group=writers").await?;
    let asked = |what: &str| format!("auth can-i {what} --as=nobody --as-group=writers");
    assert_eq!(k.ok(&asked("update configmaps/one")).await?, "yes\n");
    assert_eq!(k.run(&asked("update configmaps/two")).await?.stdout, "no\n");
    let said = k.run("auth can-i frobnicate nonsense").await?;
    assert!(said.stderr.contains("Warning: the server doesn't have a resource type 'nonsense'"), "{said:?}");
    assert!(said.stderr.contains("Warning: verb 'frobnicate' is not a known verb"), "{said:?}");
    Ok(())
}

async fn can_i_lists(k: Kubectl) -> Result {
    k.ok("create role reader --verb=get --resource=pods").await?;
    k.ok("create rolebinding reader --role=reader --user=lister").await?;
    let table = k.ok("auth can-i --list --as=lister").await?;
    assert!(table.starts_with("Resources "), "{table}");
    assert!(table.lines().any(|line| line.starts_with("pods ") && line.ends_with("[get]")), "{table}");
    assert!(table.contains("selfsubjectreviews.authentication.k8s.io"), "{table}");
    assert!(table.contains("[/healthz]"), "{table}");
    Ok(())
}

async fn impersonation(k: Kubectl) -> Result {
    let complaint = k.fails("get pods --as=mallory --as-group=evil").await?;
    assert_eq!(
        complaint,
        format!(
            "Error from server (Forbidden): pods is forbidden: User \"mallory\" cannot list resource \"pods\" in API group \"\" in the namespace \"{}\"\n",
            k.cx.ns
        )
    );
    let complaint = k.fails("get nodes --as=mallory").await?;
    assert_eq!(
        complaint,
        "Error from server (Forbidden): nodes is forbidden: User \"mallory\" cannot list resource \"nodes\" in API group \"\" at the cluster scope\n"
    );
    let complaint = k.fails("delete cm x --as=mallory").await?;
    assert!(complaint.contains("configmaps \"x\" is forbidden: User \"mallory\" cannot delete resource \"configmaps\" in API group \"\" in the namespace"), "{complaint}");
    let who: Value = serde_json::from_str(
        &k.ok("auth whoami -o json --as=mallory --as-group=evil --as-uid=42 --as-user-extra=scope=a").await?,
    )?;
    has(
        &who["status"]["userInfo"],
        &json!({"username": "mallory", "uid": "42", "groups": ["evil", "system:authenticated"], "extra": {"scope": ["a"]}}),
    );
    Ok(())
}

async fn whoami(k: Kubectl) -> Result {
    let table = k.ok("auth whoami").await?;
    assert!(table.starts_with("ATTRIBUTE ") && table.contains("system:masters"), "{table}");
    let account = format!("system:serviceaccount:{}:robot", k.cx.ns);
    let who: Value = serde_json::from_str(&k.ok(&format!("auth whoami -o json --as={account}")).await?)?;
    assert_eq!(who["status"]["userInfo"]["username"], account.as_str());
    let groups = who["status"]["userInfo"]["groups"].to_string();
    assert!(
        groups.contains("system:serviceaccounts")
            && groups.contains(&format!("system:serviceaccounts:{}", k.cx.ns)),
        "{groups}"
    );
    Ok(())
}

async fn reconcile(k: Kubectl) -> Result {
    let role = |rules: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r", "namespace": k.cx.ns}, "rules": rules}).to_string()
    };
    let one = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let two = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let said = k.ok_with("auth reconcile -f -", &role(one.clone())).await?;
    assert!(said.contains("role.rbac.authorization.k8s.io/r reconciled"), "{said}");
    k.ok_with("auth reconcile -f -", &role(two.clone())).await?;
    assert_eq!(k.json("get role r").await?["rules"].as_array().map(Vec::len), Some(2));
    k.ok_with("auth reconcile --remove-extra-permissions -f -", &role(two.clone())).await?;
    assert_eq!(k.json("get role r").await?["rules"], two);
    Ok(())
}

async fn forbidden(k: Kubectl) -> Result {
    // Nobody gives away what they do not have.
    k.ok("create role maker --verb=create,get --resource=roles,rolebindings").await?;
    k.ok("create rolebinding maker --role=maker --user=climber").await?;
    let complaint = k.fails("create role all --verb=delete --resource=secrets --as=climber").await?;
    assert!(complaint.contains("is forbidden: user \"climber\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"delete\"]}"), "{complaint}");
    let complaint = k.fails("create rolebinding all --clusterrole=admin --user=climber --as=climber").await?;
    assert!(complaint.contains("is attempting to grant RBAC permissions not currently held"), "{complaint}");
    Ok(())
}

async fn certificates(k: Kubectl) -> Result {
    let unique = &k.cx.unique;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = subject("jane", &["devs"]);
    let request = params.serialize_request(&key)?.pem()?;
    let object = |name: &str| {
        json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {
            "request": base64::engine::general_purpose::STANDARD.encode(&request),
            "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"], "expirationSeconds": 3600,
        },
    }).to_string()
    };
    let line = k.ok_with("create -f -", &object(unique)).await?;
    assert_eq!(line, format!("certificatesigningrequest.certificates.k8s.io/{unique} created\n"));
    let table = k.ok(&format!("get csr {unique}")).await?;
    assert!(table.contains("kubernetes.io/kube-apiserver-client") && table.contains("Pending"), "{table}");
    let line = k.ok(&format!("certificate approve {unique}")).await?;
    assert_eq!(line, format!("certificatesigningrequest.certificates.k8s.io/{unique} approved\n"));
    let stored = k.json(&format!("get csr {unique}")).await?;
    has(
        &stored["status"]["conditions"][0],
        &json!({"type": "Approved", "status": "True", "reason": "KubectlApprove"}),
    );
    let complaint = k.fails(&format!("certificate deny {unique}")).await?;
    assert!(complaint.contains("is already Approved"), "{complaint}");
    k.ok_with("create -f -", &object(&format!("{unique}-no"))).await?;
    k.ok(&format!("certificate deny {unique}-no")).await?;
    let table = k.ok(&format!("get csr {unique}-no")).await?;
    assert!(table.contains("Denied"), "{table}");
    k.ok(&format!("delete csr {unique} {unique}-no")).await?;
    Ok(())
}
