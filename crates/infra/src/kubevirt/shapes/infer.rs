//! Finding out from a volume which shape the machine that boots from it should have.

use serde_json::{Value, json};

use super::find::{INSTANCETYPE, PREFERENCE, Side};
use crate::client::{Client, Identity};
use crate::context::Context;
use crate::kinds::{DATA_SOURCE, DATA_VOLUME, PVC};
use crate::object::{Key, Object as _};

/// Why nothing can be found out.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unknown {
    message: String,
    /// Whether a machine may ask for this to be passed over.
    ignorable: bool,
}

impl Unknown {
    fn ignorable(message: impl Into<String>) -> Self {
        Self { message: message.into(), ignorable: true }
    }

    fn firm(message: impl Into<String>) -> Self {
        Self { message: message.into(), ignorable: false }
    }
}

/// Replaces matchers that say `inferFromVolume` by what the volume says. The message where it says nothing.
pub async fn infer(context: &Context, vm: &mut Value, namespace: &str) -> Result<(), String> {
    let client = context.client(Identity::VIRT_API);
    for side in [&INSTANCETYPE, &PREFERENCE] {
        let matcher = vm["spec"][side.matcher].clone();
        let volume = matcher.text("/inferFromVolume");
        if volume.is_empty() {
            continue;
        }
        let ignore = matcher.text("/inferFromVolumeFailurePolicy") == "Ignore";
        match of_volume(&client, side, vm, volume, namespace).await {
            Ok((name, kind)) => {
                if ignore && side.matcher == INSTANCETYPE.matcher {
                    // The memory was only there in case nothing could be found out.
                    vm.unset("/spec/template/spec/domain/memory");
                }
                let mut found = json!({"name": name});
                if !kind.is_empty() {
                    found["kind"] = kind.into();
                }
                vm["spec"][side.matcher] = found;
            }
            Err(unknown) if unknown.ignorable && ignore => vm.unset(&format!("/spec/{}", side.matcher)),
            Err(unknown) => return Err(unknown.message),
        }
    }
    Ok(())
}

type Named = (String, String);

async fn of_volume(
    client: &Client,
    side: &Side,
    vm: &Value,
    name: &str,
    namespace: &str,
) -> Result<Named, Unknown> {
    let volume = vm.list("/spec/template/spec/volumes").iter().find(|volume| volume["name"] == name);
    let Some(volume) = volume else {
        return Err(Unknown::firm(format!("unable to find volume {name} to infer defaults")));
    };
    if volume["persistentVolumeClaim"].is_object() {
        let claim = Key::new(namespace, volume.text("/persistentVolumeClaim/claimName"));
        return of_claim(client, side, &claim).await;
    }
    if volume["dataVolume"].is_object() {
        return of_data_volume(client, side, vm, &Key::new(namespace, volume.text("/dataVolume/name"))).await;
    }
    Err(Unknown::ignorable(format!("unable to infer defaults from volume {name} as type is not supported")))
}

fn of_labels(side: &Side, object: &Value) -> Result<Named, Unknown> {
    let name = object.label(side.label);
    if name.is_empty() {
        return Err(Unknown::ignorable(format!(
            "unable to find required {} label on the volume",
            side.label
        )));
    }
    Ok((name.to_owned(), object.label(&format!("{}-kind", side.label)).to_owned()))
}

async fn of_claim(client: &Client, side: &Side, key: &Key) -> Result<Named, Unknown> {
    match client.get(&PVC, key).await {
        Ok(Some(claim)) => of_labels(side, &claim),
        Ok(None) => Err(Unknown::firm(format!("persistentvolumeclaims \"{}\" not found", key.name))),
        Err(failure) => Err(Unknown::firm(failure.message)),
    }
}

async fn of_data_volume(client: &Client, side: &Side, vm: &Value, key: &Key) -> Result<Named, Unknown> {
    let template = vm.list("/spec/dataVolumeTemplates").iter().find(|one| one.name() == key.name);
    if let Some(template) = template {
        return of_data_volume_spec(client, side, template, &key.namespace).await;
    }
    match client.get(&DATA_VOLUME, key).await {
        Ok(Some(volume)) => match of_labels(side, &volume) {
            Err(_) => of_data_volume_spec(client, side, &volume, &key.namespace).await,
            named => named,
        },
        // A volume whose content is there may be gone; its claim has the same name.
        Ok(None) => of_claim(client, side, key).await,
        Err(failure) => Err(Unknown::firm(failure.message)),
    }
}

async fn of_data_volume_spec(
    client: &Client,
    side: &Side,
    volume: &Value,
    namespace: &str,
) -> Result<Named, Unknown> {
    let claim = volume.at("/spec/source/pvc");
    if claim.is_object() {
        return of_claim(client, side, &key_of(claim, namespace)).await;
    }
    let reference = volume.at("/spec/sourceRef");
    match reference.text("/kind") {
        "DataSource" => of_data_source(client, side, &key_of(reference, namespace)).await,
        "" => Err(Unknown::ignorable(
            "unable to infer defaults from DataVolumeSpec as DataVolumeSource is not supported",
        )),
        other => Err(Unknown::ignorable(format!(
            "unable to infer defaults from DataVolumeSourceRef as Kind {other} is not supported"
        ))),
    }
}

async fn of_data_source(client: &Client, side: &Side, key: &Key) -> Result<Named, Unknown> {
    let source = match client.get(&DATA_SOURCE, key).await {
        Ok(Some(source)) => source,
        Ok(None) => {
            return Err(Unknown::firm(format!("datasources.cdi.kubevirt.io \"{}\" not found", key.name)));
        }
        Err(failure) => return Err(Unknown::firm(failure.message)),
    };
    if let Ok(named) = of_labels(side, &source) {
        return Ok(named);
    }
    let claim = source.at("/spec/source/pvc");
    if claim.is_object() {
        return of_claim(client, side, &key_of(claim, &key.namespace)).await;
    }
    Err(Unknown::ignorable(
        "unable to infer defaults from DataSource that doesn't provide DataVolumeSourcePVC",
    ))
}

/// What a reference with a name and perhaps a namespace means.
fn key_of(reference: &Value, namespace: &str) -> Key {
    let own = reference.text("/namespace");
    Key::new(if own.is_empty() { namespace } else { own }, reference.text("/name"))
}
