//! `kubectl edit`, with a script for an editor.

use serde_json::json;

use super::Kubectl;
use crate::context::{config_map, deployment};
use crate::support::Result;

super::scenarios![changes, no_change, invalid_change_is_kept_in_a_file, status, unknown_field, several];

impl Kubectl {
    /// Runs `edit` with a script that is given the file.
    async fn edit(&self, line: &str, script: &str) -> Result<super::Said> {
        let script = self.file("editor.sh", &format!("#!/bin/sh\n{script}\n"))?;
        self.run_with(&format!("edit {line}"), "KUBE_EDITOR", &format!("sh {script}")).await
    }
}

async fn changes(k: Kubectl) -> Result {
    k.cx.create(k.cx.core("configmaps"), &config_map("a", "1")).await?;
    let said = k.edit("cm a", "sed -i 's/key: \"1\"/key: \"2\"/' $1").await?.ok();
    assert_eq!(said, "configmap/a edited\n");
    assert_eq!(k.ok("get cm a -o jsonpath={.data.key}").await?, "2");
    let said = k.edit("cm a -o json", "sed -i 's/\"key\": \"2\"/\"key\": \"3\"/' $1").await?.ok();
    assert!(said.contains("\"key\": \"3\""), "{said}");
    let stored = k.json("get cm a --show-managed-fields").await?;
    assert_eq!(stored["data"]["key"], "3");
    assert_eq!(stored["metadata"]["managedFields"][1]["manager"], "kubectl-edit");
    Ok(())
}

async fn no_change(k: Kubectl) -> Result {
    k.cx.create(k.cx.core("configmaps"), &config_map("a", "1")).await?;
    let said = k.edit("cm a", "true").await?;
    assert!(said.stderr.contains("Edit cancelled, no changes made."), "{said:?}");
    Ok(())
}

async fn invalid_change_is_kept_in_a_file(k: Kubectl) -> Result {
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    // The second time the file comes back with the complaint on top, and nothing is changed.
    let said = k.edit("deploy d", "cp $1 $HOME/again; sed -i 's/replicas: 1/replicas: -1/' $1").await?;
    assert!(!said.success, "{said:?}");
    let again = std::fs::read_to_string(k.home.path().join("again"))?;
    assert!(
        again.contains("# deployments.apps \"d\" was not valid:\n# * spec.replicas: Invalid value: -1: must be greater than or equal to 0\n"),
        "{again}"
    );
    assert_eq!(k.ok("get deploy d -o jsonpath={.spec.replicas}").await?, "1");
    Ok(())
}

async fn status(k: Kubectl) -> Result {
    k.cx.create(k.cx.apis("apps/v1", "deployments"), &deployment("d")).await?;
    let said = k
        .edit("deploy d --subresource=status", "sed -i 's/^status:.*/status: {replicas: 3}/' $1")
        .await?
        .ok();
    assert_eq!(said, "deployment.apps/d edited\n");
    assert_eq!(k.ok("get deploy d -o jsonpath={.status.replicas}").await?, "3");
    Ok(())
}

async fn unknown_field(k: Kubectl) -> Result {
    k.cx.create(k.cx.core("configmaps"), &config_map("a", "1")).await?;
    let script = "cp $1 $HOME/again; grep -q wrong $1 || sed -i 's/^kind:/wrong: field\\nkind:/' $1";
    let said = k.edit("cm a", script).await?;
    assert!(said.stderr.contains("configmaps \"a\" is invalid"), "{said:?}");
    let again = std::fs::read_to_string(k.home.path().join("again"))?;
    assert!(again.contains("unknown field \"wrong\""), "{again}");
    Ok(())
}

async fn several(k: Kubectl) -> Result {
    for name in ["a", "b"] {
        let mut map = config_map(name, "1");
        map["metadata"]["labels"] = json!({"edit": "me"});
        k.cx.create(k.cx.core("configmaps"), &map).await?;
    }
    let said = k.edit("cm/a cm/b", "sed -i 's/key: \"1\"/key: \"2\"/' $1").await?.ok();
    assert_eq!(said, "configmap/a edited\nconfigmap/b edited\n");
    Ok(())
}
