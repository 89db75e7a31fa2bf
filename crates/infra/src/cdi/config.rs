//! The installation: the objects `CDI` and `CDIConfig`, and what they say.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::names;
use crate::client::{Client, Identity, Result};
use crate::clock::Clock;
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{CDI, CDI_CONFIG, CONFIG_MAP, STORAGE_CLASS};
use crate::object::{Condition, Key, Object as _};
use crate::roles::{self, Role, Rule};

/// The version that is emulated.
pub const VERSION: &str = "v1.66.0";
/// The share of a file system that is not there for files, where nobody says otherwise.
const OVERHEAD: &str = "0.06";
/// The config map with who vouches for the upload proxy.
const BUNDLE: &str = "cdi-uploadproxy-signer-bundle";

/// Where uploads are taken from outside the cluster, and who vouches for it.
#[derive(Debug, Clone, Copy)]
pub struct UploadAddress<'a> {
    /// The URL.
    pub url: &'a str,
    /// The certificate of its authority, as PEM.
    pub authority: &'a str,
}

/// Makes the objects of the installation.
pub async fn install(context: &Context, upload: Option<UploadAddress<'_>>) -> Result {
    let client = context.client(Identity::INSTALLER);
    let mut config = json!({"featureGates": ["HonorWaitForFirstConsumer"]});
    if let Some(upload) = upload {
        config["uploadProxyURLOverride"] = upload.url.into();
        let bundle = json!({
            "metadata": {"namespace": "cdi", "name": BUNDLE}, "data": {"ca-bundle.crt": upload.authority},
        });
        client.apply(&CONFIG_MAP, bundle).await?;
    }
    let cdi = json!({
        "metadata": {"name": "cdi"},
        "spec": {
            "config": config, "imagePullPolicy": "IfNotPresent",
            "infra": {"nodeSelector": {"kubernetes.io/os": "linux"}},
            "workload": {"nodeSelector": {"kubernetes.io/os": "linux"}},
        },
    });
    client.apply(&CDI, cdi).await?;
    roles::install(&client, &installed_roles()).await
}

/// The roles an installation brings: those of namespaces become part of `admin`, `edit` and `view`.
fn installed_roles() -> Vec<Role> {
    const KINDS: &[&str] = &[
        "datavolumes",
        "dataimportcrons",
        "datasources",
        "volumeimportsources",
        "volumeuploadsources",
        "volumeclonesources",
    ];
    const SETTINGS: &[&str] = &["cdiconfigs", "storageprofiles"];
    const READ: &[&str] = &["get", "list", "watch"];
    let group = "cdi.kubevirt.io";
    let clones = || Rule::new(group, &["datavolumes/source"], &["create"]);
    let settings = || Rule::new(group, SETTINGS, READ);
    let worked = || {
        vec![
            Rule::new(group, KINDS, &["*"]),
            clones(),
            settings(),
            Rule::new("upload.cdi.kubevirt.io", &["uploadtokenrequests"], &["*"]),
        ]
    };
    vec![
        Role::new("cdi.kubevirt.io:admin", worked()).part_of("admin"),
        Role::new("cdi.kubevirt.io:edit", worked()).part_of("edit"),
        // Who may look at a namespace may copy what is there.
        Role::new("cdi.kubevirt.io:view", vec![Rule::new(group, KINDS, READ), clones(), settings()])
            .part_of("view"),
        Role::new("cdi.kubevirt.io:config-reader", vec![settings()]).for_everybody(),
    ]
}

/// Keeps the installation's objects true.
#[derive(Debug)]
pub struct Installation {
    client: Client,
    clock: Clock,
}

impl Installation {
    /// The controller of the installation.
    pub fn new(context: &Context) -> Self {
        Self { client: context.client(Identity::CDI_CONTROLLER), clock: context.clock }
    }
}

impl Controller for Installation {
    const NAME: &'static str = "cdi-config";

    fn watches(&self) -> Vec<Watch> {
        let one = |_: &crate::client::Change| vec![Key::cluster("cdi")];
        vec![
            Watch::mapped(&self.client.cache(&CDI), one),
            Watch::mapped(&self.client.cache(&CDI_CONFIG), one),
            Watch::mapped(&self.client.cache(&STORAGE_CLASS), one),
            Watch::mapped(&self.client.cache(&CONFIG_MAP), |change| {
                let key = change.key();
                if key.namespace == "cdi" && key.name == BUNDLE {
                    vec![Key::cluster("cdi")]
                } else {
                    Vec::new()
                }
            }),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(cdi) = self.client.cache(&CDI).get(key) else { return Ok(Next::Done) };
        let deployed = deployed(&cdi, &self.clock.seconds());
        if deployed != *cdi {
            self.client.replace_status(&CDI, &deployed).await?;
        }
        let config = if let Some(config) = self.client.cache(&CDI_CONFIG).get(&Key::cluster("config")) {
            (*config).clone()
        } else {
            let labels = json!({names::APP: names::APP_VALUE, names::COMPONENT: ""});
            let object = json!({"metadata": {"name": "config", "labels": labels}, "spec": {}});
            self.client.create(&CDI_CONFIG, object).await?
        };
        let bundle = self.client.cache(&CONFIG_MAP).get(&Key::new("cdi", BUNDLE));
        let authority = bundle.as_ref().map_or("", |bundle| bundle.text("/data/ca-bundle.crt"));
        let classes = self.client.cache(&STORAGE_CLASS).list("");
        let wanted = configured(&config, &cdi, &classes, authority);
        if wanted != config {
            self.client.replace(&CDI_CONFIG, &wanted).await?;
        }
        Ok(Next::Done)
    }
}

/// The installation as it looks once everything runs.
fn deployed(cdi: &Value, now: &str) -> Value {
    let mut wanted = cdi.clone();
    wanted.add_finalizer("operator.cdi.kubevirt.io");
    for field in ["observedVersion", "operatorVersion", "targetVersion"] {
        wanted.set(&format!("/status/{field}"), VERSION.into());
    }
    wanted.set("/status/phase", "Deployed".into());
    for (kind, holds, reason, message) in [
        ("Available", true, "DeployCompleted", "Deployment Completed"),
        ("Progressing", false, "", ""),
        ("Degraded", false, "", ""),
    ] {
        Condition::new(kind, holds, reason, message).put(&mut wanted, now);
    }
    wanted
}

/// The configuration an installation asks for, with what came of it.
fn configured(config: &Value, cdi: &Value, classes: &[std::sync::Arc<Value>], authority: &str) -> Value {
    let mut wanted = config.clone();
    let spec = cdi.at("/spec/config").clone();
    wanted["spec"] = if spec.is_object() { spec } else { json!({}) };
    let spec = wanted["spec"].clone();
    let global = spec.text("/filesystemOverhead/global");
    let global = if overhead_of(global).is_some() { global } else { OVERHEAD };
    let per_class: BTreeMap<&str, &str> = classes
        .iter()
        .map(|class| {
            let own = spec["filesystemOverhead"]["storageClass"][class.name()].as_str().unwrap_or_default();
            (class.name(), if overhead_of(own).is_some() { own } else { global })
        })
        .collect();
    let named = spec.text("/scratchSpaceStorageClass");
    let scratch = classes.iter().find(|class| class.name() == named).or_else(|| default_class(classes));
    let url = spec.text("/uploadProxyURLOverride");
    let mut status = json!({
        "filesystemOverhead": {"global": global, "storageClass": per_class},
        "defaultPodResourceRequirements": pod_resources(&spec),
        "preallocation": spec.flag("/preallocation"),
        "scratchSpaceStorageClass": scratch.map_or("", |class| class.name()),
        "importProxy": {"HTTPProxy": "", "HTTPSProxy": "", "noProxy": "", "trustedCAProxy": ""},
        "imagePullSecrets": spec.list("/imagePullSecrets"),
    });
    if spec["importProxy"].is_object() {
        status["importProxy"] = spec["importProxy"].clone();
    }
    if !url.is_empty() {
        status["uploadProxyURL"] = url.into();
    }
    if !authority.is_empty() {
        status["uploadProxyCA"] = authority.into();
    }
    wanted["status"] = status;
    wanted
}

fn pod_resources(spec: &Value) -> Value {
    let mut resources = json!({
        "limits": {"cpu": "750m", "memory": "600M"}, "requests": {"cpu": "100m", "memory": "60M"},
    });
    for part in ["limits", "requests"] {
        for (name, amount) in spec["podResourceRequirements"][part].as_object().into_iter().flatten() {
            resources[part][name] = amount.clone();
        }
    }
    resources
}

/// The default class of storage: of several the youngest, then the first by name.
fn default_class(classes: &[std::sync::Arc<Value>]) -> Option<&std::sync::Arc<Value>> {
    default_by(classes, names::DEFAULT_CLASS)
}

/// The class an annotation marks as the default: of several the youngest, then the first by name.
pub fn default_by<'c>(
    classes: &'c [std::sync::Arc<Value>],
    annotation: &str,
) -> Option<&'c std::sync::Arc<Value>> {
    let marked = classes.iter().filter(|class| class.annotation(annotation) == "true");
    marked.min_by_key(|class| {
        (std::cmp::Reverse(class.text("/metadata/creationTimestamp").to_owned()), class.name().to_owned())
    })
}

/// A share of a file system, where it is one.
pub fn overhead_of(text: &str) -> Option<f64> {
    text.parse().ok().filter(|share| (0.0..1.0).contains(share))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn class(name: &str, created: &str, default: bool) -> Arc<Value> {
        Arc::new(json!({"metadata": {"name": name, "creationTimestamp": created, "annotations":
            {names::DEFAULT_CLASS: if default { "true" } else { "false" }}}}))
    }

    #[test]
    fn the_configuration_says_what_came_of_it() {
        let classes = [class("a", "1", false), class("b", "1", true), class("c", "2", true)];
        let cdi =
            json!({"spec": {"config": {"filesystemOverhead": {"storageClass": {"a": "0.1", "b": "7"}}}}});
        let wanted = configured(&json!({"spec": {}}), &cdi, &classes, "");
        let status = &wanted["status"];
        assert_eq!(status["filesystemOverhead"]["global"], "0.06");
        assert_eq!(
            status["filesystemOverhead"]["storageClass"],
            json!({"a": "0.1", "b": "0.06", "c": "0.06"})
        );
        assert_eq!(status["scratchSpaceStorageClass"], "c");
        assert_eq!(status.get("uploadProxyURL"), None);
    }
}
