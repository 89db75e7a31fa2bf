//! Images: imported once, checked, cloned, shown, and collected when nobody uses them.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use trellis_engine::controllers::Settings;
use trellis_engine::families::TRELLIS;
use trellis_infra::kinds::{DATA_VOLUME, VM};
use trellis_infra::object::{Key, Object as _};
use trellis_simulation::Make;

use crate::families::pool;
use crate::real::is_real;
use crate::rollout::{NEW, change, image, settled};
use crate::stage::{CLUSTER, CONTROL, MACHINE, POOL, Stage};

crate::everywhere!(
    pools_share_one_import_and_clone_it,
    an_image_nobody_uses_goes_after_its_grace,
    an_image_may_be_imported_for_each_machine_or_kept_by_others,
    a_wrong_checksum_stops_with_that_reason,
);

/// The volumes that belong to no machine, and those that do.
async fn volumes(stage: &Stage) -> (Vec<Value>, Vec<Value>) {
    let all = stage.world.person.list(&DATA_VOLUME, CLUSTER).await.unwrap();
    all.into_iter().partition(|volume| volume.label("trellis.dev/machine").is_empty())
}

fn named(name: &str, mut pool: Value) -> Value {
    pool["metadata"]["name"] = name.into();
    pool
}

async fn pools_share_one_import_and_clone_it() {
    let stage = Stage::start(&TRELLIS).await;
    stage.store_user_data(CONTROL, "join", "userData").await;
    let mut said = stage.world.person.cache(&MACHINE).changes();
    stage.create(&POOL, named("first", pool(1))).await;
    stage.create(&POOL, named("second", pool(1))).await;
    // The same image on other storage is another volume.
    let mut local = named("third", pool(1));
    local["spec"]["template"]["rootDisk"]["storage"] =
        json!({"class": "unknown", "accessMode": "ReadWriteOnce"});
    stage.create(&POOL, local).await;
    stage.until_nodes(3).await;
    let (golden, disks) = volumes(&stage).await;
    let classes = |volumes: &[Value]| {
        let mut classes: Vec<String> =
            volumes.iter().map(|one| one.text("/spec/storage/storageClassName").to_owned()).collect();
        classes.sort();
        classes
    };
    assert_eq!(classes(&golden), ["", "unknown"]);
    assert_eq!(disks.len(), 3);
    for disk in &disks {
        let source = disk.text("/spec/source/pvc/name");
        assert!(golden.iter().any(|one| one.name() == source), "{disk}");
        // The best its profile offers: the default class has snapshots, the other one can only be copied.
        let best = if disk.text("/spec/storage/storageClassName") == "unknown" { "copy" } else { "snapshot" };
        assert_eq!(disk.annotation("cdi.kubevirt.io/cloneType"), best, "{disk}");
    }
    // Meanwhile machines said how far the import was.
    let mut shown = Vec::new();
    while let Ok(change) = said.try_recv() {
        shown.extend(change.after.map(|one| one.condition("Ready").text("/message").to_owned()));
    }
    let importing = |text: &&String| text.contains("importing the image");
    // Where nothing takes time an import may be over before it is seen.
    assert!(is_real() || shown.iter().filter(importing).any(|text| text.contains(" %")), "{shown:?}");
}

async fn an_image_nobody_uses_goes_after_its_grace() {
    let grace = Duration::from_secs(if is_real() { 8 } else { 900 });
    let settings = Settings { image_grace: grace, ..Settings::default() };
    let stage = Stage::start_with(&TRELLIS, Make::default(), settings).await;
    stage.store_user_data(CONTROL, "join", "userData").await;
    stage.create(&POOL, pool(1)).await;
    settled(&stage, 1).await;
    let (before, _) = volumes(&stage).await;
    assert_eq!(before.len(), 1);
    let old = Key::of(&before[0]);
    change(&stage, &image(NEW)).await;
    settled(&stage, 1).await;
    // It is marked, and stays for as long as somebody may want it back.
    let marked = |one: &Value| !one.annotation("trellis.dev/unused-since").is_empty();
    stage.world.until(&DATA_VOLUME, &old, marked).await.unwrap();
    let since = tokio::time::Instant::now();
    while stage.world.person.get(&DATA_VOLUME, &old).await.unwrap().is_some() {
        assert!(since.elapsed() < grace + Duration::from_mins(1), "it is not collected");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(since.elapsed() + Duration::from_secs(2) >= grace, "it went after {:?}", since.elapsed());
    let (left, disks) = volumes(&stage).await;
    assert_eq!((left.len(), disks.len()), (1, 1));
    assert_eq!(disks[0].text("/spec/source/pvc/name"), left[0].name());
}

async fn an_image_may_be_imported_for_each_machine_or_kept_by_others() {
    let settings = Settings { image_grace: Duration::from_secs(1), ..Settings::default() };
    let stage = Stage::start_with(&TRELLIS, Make::default(), settings).await;
    stage.store_user_data(CONTROL, "join", "userData").await;
    // A volume that somebody prepared and looks after.
    let prepared = json!({
        "metadata": {"namespace": CLUSTER, "name": "prepared"},
        "spec": {
            "source": {"registry": {"url": "docker://registry.example/ubuntu:24.04"}},
            "storage": {"resources": {"requests": {"storage": "10Gi"}}},
        },
    });
    stage.world.person.create(&DATA_VOLUME, prepared).await.unwrap();
    let ready = |one: &Value| one.text("/status/phase") == "Succeeded";
    stage.world.until(&DATA_VOLUME, &Key::new(CLUSTER, "prepared"), ready).await.unwrap();
    let mut apart = named("apart", pool(2));
    apart["spec"]["template"]["image"]["delivery"] = "PerMachine".into();
    stage.create(&POOL, apart).await;
    let mut kept = named("kept", pool(1));
    kept["spec"]["template"]["image"]["source"] = json!({"pvc": {"name": "prepared"}});
    stage.create(&POOL, kept).await;
    stage.until_nodes(3).await;
    let (others, disks) = volumes(&stage).await;
    let names: Vec<&str> = others.iter().map(Value::name).collect();
    assert_eq!(names, ["prepared"], "no image is imported for sharing");
    for disk in &disks {
        match disk.label("trellis.dev/pool") {
            "apart" => {
                assert_eq!(disk.text("/spec/source/registry/url"), "docker://registry.example/ubuntu:24.04");
            }
            _ => assert_eq!(disk.text("/spec/source/pvc/name"), "prepared"),
        }
    }
    // What others keep stays, whoever goes.
    for name in ["apart", "kept"] {
        stage.world.person.merge(&POOL, &Stage::key(name), &json!({"spec": {"replicas": 0}})).await.unwrap();
    }
    stage.until_nodes(0).await;
    stage.quiet(Duration::from_mins(5)).await;
    let (others, disks) = volumes(&stage).await;
    assert_eq!((others.len(), disks.len()), (1, 0));
}

/// The beginning of a disk of 64 MiB, which is all there has to be of it.
fn disk() -> Vec<u8> {
    let mut image = b"QFI\xfb\0\0\0\x03".to_vec();
    image.extend([0; 16]);
    image.extend((64_u64 << 20).to_be_bytes());
    image.resize(100_000, 7);
    image
}

/// Serves the disk to whoever asks for anything; gives the address.
async fn serve() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut asked, body) = ([0; 4096], disk());
                let count = stream.read(&mut asked).await.unwrap_or_default();
                let body: &[u8] = if asked[..count].starts_with(b"HEAD") { &[] } else { &body };
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    disk().len()
                );
                // Whoever asked may have hung up.
                let _ = stream.write_all(&[head.as_bytes(), body].concat()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    format!("http://{address}/ubuntu.qcow2")
}

async fn a_wrong_checksum_stops_with_that_reason() {
    // The image comes through a socket, which virtual time does not wait for.
    if !is_real() {
        tokio::time::resume();
    }
    let stage = Stage::start_with(&TRELLIS, Make::default().on_machine_time(), Settings::default()).await;
    stage.store_user_data(CONTROL, "join", "userData").await;
    let (url, wrong) = (serve().await, format!("sha256:{}", "0".repeat(64)));
    let mut pool = pool(1);
    pool["spec"]["template"]["image"]["source"] = json!({"http": {"url": url, "checksum": wrong}});
    stage.create(&POOL, pool).await;
    let machines = stage.world.person.cache(&MACHINE);
    let mut changes = machines.changes();
    let stopped = async {
        loop {
            let found = machines.list(CONTROL).into_iter().find(|one| {
                let told = one.condition("Ready").text("/message").to_owned();
                one.text("/status/phase") == "ImageImporting" && told.contains("checksum mismatch")
            });
            if let Some(found) = found {
                return found;
            }
            changes.recv().await;
        }
    };
    let stopped = tokio::time::timeout(Duration::from_mins(1), stopped).await;
    let stopped = stopped.expect("no machine says why");
    assert_eq!(stopped.condition("Ready").text("/reason"), "ImageFailed", "{stopped}");
    stage.quiet(Duration::from_secs(4)).await;
    assert!(stage.world.person.list(&VM, CLUSTER).await.unwrap().is_empty(), "nothing is made of it");
    // With the right one it goes on.
    let right = {
        use sha2::Digest as _;
        sha2::Sha256::digest(disk())
            .iter()
            .fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
    };
    let patch = json!({"spec": {"template": {"image": {"source": {"http": {"checksum": right}}}}}});
    change(&stage, &patch).await;
    stage.until_nodes(1).await;
}
