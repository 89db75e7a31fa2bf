//! Whether a pod may be evicted.

use serde_json::{Value, json};

use super::strategy;
use crate::client::Identity;
use crate::context::Context;
use crate::kinds::{POD, VMI};
use crate::kubevirt::names::{COMPONENT_LABEL, DOMAIN_ANNOTATION};
use crate::object::{Key, Object as _};
use crate::service::admission::{Review, Verdict};

/// What is said about the eviction of a launcher pod.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Say {
    /// It may go.
    Go,
    /// It stays, and the instance is marked as one to evacuate.
    Mark(String),
    /// It stays.
    Stay(String),
}

fn about_launcher(pod: &Value, vmi: &Value) -> Say {
    let is_migratable = vmi.condition_holds("LiveMigratable");
    match strategy(vmi) {
        "LiveMigrate" if !is_migratable => {
            return Say::Stay(format!(
                "VMI {} is configured with an eviction strategy but is not live-migratable",
                vmi.name()
            ));
        }
        "LiveMigrate" | "External" => {}
        "LiveMigrateIfPossible" if is_migratable => {}
        _ => return Say::Go,
    }
    let message = format!("Eviction triggered evacuation of VMI \"{}/{}\"", vmi.namespace(), vmi.name());
    if !vmi.text("/status/evacuationNodeName").is_empty() {
        return Say::Stay(format!("Evacuation in progress: {message}"));
    }
    if vmi.text("/status/nodeName") != pod.text("/spec/nodeName") {
        return Say::Stay("Eviction request for target Pod".to_owned());
    }
    Say::Mark(message)
}

fn is_launcher(pod: &Value) -> bool {
    pod.label(COMPONENT_LABEL) == "virt-launcher"
}

/// A pod that stays for now.
fn stay(message: impl Into<String>) -> Verdict {
    Verdict::denied(429, "TooManyRequests", message)
}

/// Answers whether a pod may be evicted.
pub(super) async fn review(context: &Context, review: Review) -> Verdict {
    let client = context.client(Identity::VIRT_API);
    let get = |key: Key| {
        let client = client.clone();
        async move { client.get(&POD, &key).await }
    };
    let Ok(Some(pod)) = get(Key::new(&review.namespace, &review.name)).await else { return Verdict::fine() };
    let owners = pod.list("/metadata/ownerReferences");
    let launcher = if pod.label(COMPONENT_LABEL) == "hotplug-disk" && owners.len() == 1 {
        match get(Key::new(&review.namespace, owners[0].text("/name"))).await {
            Ok(Some(launcher)) if is_launcher(&launcher) && !launcher.is_over() => launcher,
            Ok(_) => return Verdict::fine(),
            Err(failure) => return stay(format!("failed getting owner for hotplug pod: {failure}")),
        }
    } else if is_launcher(&pod) && !pod.is_over() {
        pod.clone()
    } else {
        return Verdict::fine();
    };
    let key = Key::new(&review.namespace, launcher.annotation(DOMAIN_ANNOTATION));
    if key.name.is_empty() {
        return Verdict::fine();
    }
    let vmi = match client.get(&VMI, &key).await {
        Ok(Some(vmi)) => vmi,
        Ok(None) if !is_launcher(&pod) => return Verdict::fine(),
        Ok(None) => {
            let name = &key.name;
            return stay(format!(
                "kubevirt failed getting the vmi: virtualmachineinstances.kubevirt.io \"{name}\" not found"
            ));
        }
        Err(failure) => return stay(format!("kubevirt failed getting the vmi: {failure}")),
    };
    if !is_launcher(&pod) {
        return stay(format!(
            "cannot evict hotplug pod: {} associated with running vmi: {} in namespace {}",
            pod.name(),
            vmi.name(),
            pod.namespace()
        ));
    }
    match about_launcher(&pod, &vmi) {
        Say::Go => Verdict::fine(),
        Say::Stay(message) => stay(message),
        Say::Mark(message) => {
            let node = pod.text("/spec/nodeName");
            let mark = json!([{"op": "add", "path": "/status/evacuationNodeName", "value": node}]);
            if !review.dry_run
                && let Err(failure) = client.json_patch(&VMI, &key, &mark).await
            {
                return stay(format!("kubevirt failed marking the vmi for eviction: {failure}"));
            }
            stay(message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vmi(strategy: &str, migratable: bool) -> Value {
        json!({
            "metadata": {"namespace": "n", "name": "m"}, "spec": {"evictionStrategy": strategy},
            "status": {
                "nodeName": "a",
                "conditions": [{"type": "LiveMigratable", "status": if migratable { "True" } else { "False" }}],
            },
        })
    }

    fn pod(node: &str) -> Value {
        json!({"spec": {"nodeName": node}})
    }

    #[test]
    fn the_strategy_decides() {
        let mark = Say::Mark("Eviction triggered evacuation of VMI \"n/m\"".to_owned());
        for (strategy, migratable, said) in [
            ("", true, Say::Go),
            ("None", true, Say::Go),
            ("LiveMigrate", true, mark.clone()),
            ("LiveMigrateIfPossible", true, mark.clone()),
            ("LiveMigrateIfPossible", false, Say::Go),
            ("External", false, mark),
        ] {
            assert_eq!(about_launcher(&pod("a"), &vmi(strategy, migratable)), said, "{strategy}");
        }
        let Say::Stay(message) = about_launcher(&pod("a"), &vmi("LiveMigrate", false)) else { panic!() };
        assert!(message.contains("not live-migratable"));
    }

    #[test]
    fn an_evacuation_is_begun_once_and_at_the_source() {
        let mut marked = vmi("External", false);
        marked.set("/status/evacuationNodeName", "a".into());
        let Say::Stay(message) = about_launcher(&pod("a"), &marked) else { panic!() };
        assert_eq!(message, "Evacuation in progress: Eviction triggered evacuation of VMI \"n/m\"");
        let target = about_launcher(&pod("b"), &vmi("External", false));
        assert_eq!(target, Say::Stay("Eviction request for target Pod".to_owned()));
    }
}
