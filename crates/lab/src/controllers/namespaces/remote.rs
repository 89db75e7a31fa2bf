//! What other servers have in a namespace that is ending.

use http::Method;
use serde_json::Value;

use super::conditions::Remains;
use super::{FINALIZER_ESTIMATE, counted_name};
use crate::attributes::User;
use crate::names::GroupResource;
use crate::server::Server;
use crate::server::aggregate::RemoteResource;

/// Asks other servers to delete what they have in a namespace.
pub(super) async fn clear(server: &Server, user: &User, namespace: &str, remains: &mut Remains) {
    if !server.has_remote() {
        return;
    }
    for service in server.remote_services() {
        for resource in server.remote_resources(&service) {
            if resource.verbs.iter().any(|verb| verb == "delete") {
                let outcome = clear_resource(server, user, &service, &resource, namespace, remains).await;
                remains.failures.extend(outcome.err());
            }
        }
    }
}

async fn clear_resource(
    server: &Server,
    user: &User,
    service: &Value,
    resource: &RemoteResource,
    namespace: &str,
    remains: &mut Remains,
) -> Result<(), String> {
    let RemoteResource { group, version, name, verbs } = resource;
    let path = format!("/apis/{group}/{version}/namespaces/{namespace}/{name}");
    let has = |verb: &str| verbs.iter().any(|known| known == verb);
    let ask = async |method: Method, path: &str| match server.ask_remote(service, user, method, path).await? {
        // A resource that does not do that after all.
        (404 | 405, _) => Ok(Value::Null),
        (code, answer) if code < 300 => Ok(answer),
        (code, answer) => {
            Err(answer["message"].as_str().map_or_else(|| format!("{path}: {code}"), str::to_owned))
        }
    };
    let items = |list: &Value| list["items"].as_array().cloned().unwrap_or_default();
    if has("deletecollection") {
        ask(Method::DELETE, &format!("{path}?propagationPolicy=Background")).await?;
    } else if has("list") {
        for item in items(&ask(Method::GET, &path).await?) {
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            ask(Method::DELETE, &format!("{path}/{name}?propagationPolicy=Background")).await?;
        }
    }
    let left = if has("list") { items(&ask(Method::GET, &path).await?) } else { Vec::new() };
    if left.is_empty() {
        return Ok(());
    }
    remains.objects.push((counted_name(&GroupResource::new(group, name)), left.len()));
    let finalizers = left.iter().filter_map(|item| item["metadata"]["finalizers"].as_array()).flatten();
    let finalizers: Vec<&str> = finalizers.filter_map(Value::as_str).collect();
    if finalizers.is_empty() {
        return Err(format!(
            "unexpected items still remain in namespace: {namespace} for gvr: {group}/{version}, Resource={name}"
        ));
    }
    for finalizer in &finalizers {
        remains.count_finalizer(finalizer);
    }
    remains.estimate = remains.estimate.max(FINALIZER_ESTIMATE);
    Ok(())
}
