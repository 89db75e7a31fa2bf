//! DataSources and DataImportCrons.

use serde_json::{Value, json};
use trellis_infra::kinds::{DATA_IMPORT_CRON, DATA_SOURCE, DATA_VOLUME};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::world::images::Image;
use trellis_infra::world::volumes::Content;

use super::{content, until_phase, volume};
use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(a_data_source_is_ready_with_its_claim),
        scenario!(an_import_cron_imports_what_is_new),
        scenario!(an_import_cron_goes_by_the_clock).with(|_| {}),
    ]
}

fn pointing(cx: &Cx, name: &str) -> Value {
    json!({"pvc": {"namespace": cx.namespace, "name": name}})
}

async fn a_data_source_is_ready_with_its_claim(cx: Cx) -> Result {
    let key = cx.key("s");
    let source = json!({"metadata": {"name": "s"}, "spec": {"source": pointing(&cx, "a")}});
    cx.create(&DATA_SOURCE, source).await?;
    let reason = |reason: &'static str| move |source: &Value| source.condition("Ready")["reason"] == reason;
    cx.until(&DATA_SOURCE, &key, reason("NotFound")).await?;
    // What refers to it waits for it to lead somewhere.
    let reference = json!({"kind": "DataSource", "name": "s"});
    let clone = json!({"metadata": {"name": "b"}, "spec": {"sourceRef": reference, "storage": {}}});
    cx.create(&DATA_VOLUME, clone).await?;
    cx.until_event("b", "CloneWithoutSource").await?;
    cx.create(&DATA_VOLUME, volume("a", "2Gi", super::registry())).await?;
    let ready = cx.until(&DATA_SOURCE, &key, |source| source.condition_holds("Ready")).await?;
    assert_eq!(ready.at("/status/source"), &pointing(&cx, "a"));
    until_phase(&cx, &cx.key("b"), "Succeeded").await?;
    assert_eq!(content(&cx, &cx.key("b")).await?, content(&cx, &cx.key("a")).await?);
    let itself = json!({"dataSource": {"namespace": cx.namespace, "name": "c"}});
    cx.create(&DATA_SOURCE, json!({"metadata": {"name": "c"}, "spec": {"source": itself}})).await?;
    cx.until(&DATA_SOURCE, &cx.key("c"), reason("SelfReference")).await?;
    Ok(())
}

fn image(digit: char) -> Image {
    let digest = format!("sha256:{}", digit.to_string().repeat(64));
    Image { size: 1 << 20, content: Content { virtual_size: 1 << 20, digest, bootable: true } }
}

fn cron(url: &str, schedule: &str) -> Value {
    json!({
        "metadata": {"name": "c"},
        "spec": {
            "managedDataSource": "os", "schedule": schedule, "importsToKeep": 1, "retentionPolicy": "None",
            "template": {"spec": {
                "source": {"registry": {"url": url}},
                "storage": {"resources": {"requests": {"storage": "1Gi"}}},
            }},
        },
    })
}

async fn an_import_cron_imports_what_is_new(cx: Cx) -> Result {
    let url = format!("docker://images/{}", cx.namespace);
    cx.infra.context().world.images.set(&url, image('1'));
    cx.create(&DATA_IMPORT_CRON, cron(&url, "0 0 * * *")).await?;
    let first = cx.key("os-111111111111");
    until_phase(&cx, &first, "Succeeded").await?;
    let done = cx.until(&DATA_IMPORT_CRON, &cx.key("c"), |cron| cron.condition_holds("UpToDate")).await?;
    assert_eq!(done.text("/status/currentImports/0/DataVolumeName"), first.name);
    assert_eq!(done.text("/status/lastImportedPVC/name"), first.name);
    let source = cx.until(&DATA_SOURCE, &cx.key("os"), |source| source.condition_holds("Ready")).await?;
    assert_eq!(source.at("/spec/source"), &pointing(&cx, &first.name));
    let refused = cx.client.merge(&DATA_IMPORT_CRON, &cx.key("c"), &json!({"spec": {"schedule": ""}})).await;
    let refused = refused.err().ok_or("it was let through")?.to_string();
    assert!(refused.contains("Cannot update DataImportCron Spec"), "{refused}");
    cx.client.delete(&DATA_IMPORT_CRON, &cx.key("c"), "").await?;
    cx.until_gone(&DATA_VOLUME, &first).await?;
    cx.until_gone(&DATA_SOURCE, &cx.key("os")).await
}

async fn an_import_cron_goes_by_the_clock(cx: Cx) -> Result {
    let url = format!("docker://images/{}", cx.namespace);
    let images = &cx.infra.context().world.images;
    images.set(&url, image('1'));
    cx.create(&DATA_IMPORT_CRON, cron(&url, "*/30 * * * *")).await?;
    let (first, second) = (cx.key("os-111111111111"), cx.key("os-222222222222"));
    cx.until(&DATA_IMPORT_CRON, &cx.key("c"), |cron| cron.condition_holds("UpToDate")).await?;
    images.set(&url, image('2'));
    assert!(cx.client.get(&DATA_VOLUME, &second).await?.is_none(), "nobody has asked yet");
    let now = cx.infra.context().clock.now();
    tokio::time::sleep(std::time::Duration::from_secs(30 * 60 - now.as_second().unsigned_abs() % 1800)).await;
    until_phase(&cx, &second, "Succeeded").await?;
    // The name leads to the new one, and the old one is not kept.
    let moved = |source: &Value| source.at("/spec/source") == &pointing(&cx, &second.name);
    cx.until(&DATA_SOURCE, &cx.key("os"), moved).await?;
    cx.until_gone(&DATA_VOLUME, &Key::new(&cx.namespace, &first.name)).await
}
