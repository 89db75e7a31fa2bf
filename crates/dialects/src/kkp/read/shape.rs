//! CPU and memory: written out, or an instance type or flavor.

use std::num::NonZeroU32;

use trellis_api::kkp::cloud::Matcher;
use trellis_model::flavor::catalogue;
use trellis_model::machine::{Compute, Cpu, InfraScope, InfraShape, Memory, Shape, Topology};
use trellis_model::names::FlavorName;
use trellis_model::quantity::{Bytes, MilliCpu};

use super::generations::Settings;
use crate::path::FieldPath;
use crate::shared::{At, Reader, choose};

const INSTANCETYPES: &[(&str, InfraScope)] = &[
    ("VirtualMachineInstancetype", InfraScope::Namespace),
    ("VirtualMachineClusterInstancetype", InfraScope::Cluster),
];
const PREFERENCES: &[(&str, InfraScope)] = &[
    ("VirtualMachinePreference", InfraScope::Namespace),
    ("VirtualMachineClusterPreference", InfraScope::Cluster),
];

/// The shape of the machine.
pub(super) fn shape(reader: &mut Reader<'_, '_>, settings: &Settings) -> Shape {
    if let Some(instancetype) = &settings.instancetype
        && let Some(shape) = infra_shape(reader, "template.shape", instancetype, INSTANCETYPES)
    {
        say_unused(reader, settings, "the instance type says how much CPU and memory a machine has");
        if let Some(flavor) = &settings.flavor {
            let message = "this is not used: the instance type goes before it";
            reader.cx.warning("not-used", &flavor.at, message, "remove `flavor`");
        }
        return Shape::Instancetype(shape);
    }
    if let Some(name) = &settings.flavor {
        if let Some(flavor) = known_flavor(&name.value) {
            reader.origin("template.shape", &name.at);
            say_unused(reader, settings, "the flavor says how much CPU and memory a machine has");
            return Shape::Flavor(flavor);
        }
        let names: Vec<String> = catalogue().keys().map(ToString::to_string).collect();
        let message = format!("there is no flavor `{}`, so `template` is used instead", name.value);
        let help = format!("name an `instancetype`, or one of {}", names.join(", "));
        reader.cx.warning("unknown-flavor", &name.at, message, &help);
    }
    Shape::Custom(Box::new(compute(reader, settings)))
}

fn known_flavor(name: &str) -> Option<FlavorName> {
    FlavorName::new(name).ok().filter(|name| catalogue().contains_key(name))
}

/// A preference of the infra cluster.
pub(super) fn preference(reader: &mut Reader<'_, '_>, settings: &Settings) -> Option<InfraShape> {
    infra_shape(reader, "template.preference", settings.preference.as_ref()?, PREFERENCES)
}

fn infra_shape(
    reader: &mut Reader<'_, '_>,
    model_path: &str,
    matcher: &At<Matcher>,
    kinds: &[(&str, InfraScope)],
) -> Option<InfraShape> {
    let At { at, value } = matcher;
    if value.infer_from_volume.as_deref().is_some_and(|volume| !volume.is_empty()) {
        let message = "what it is must be known before the machine is made";
        reader.cx.error("unsupported", &at.child("inferFromVolume"), message, "write its `name`");
    }
    if value.revision_name.as_deref().is_some_and(|name| !name.is_empty()) {
        let message = "this is not used: KubeVirt saves a copy for each VM itself";
        reader.cx.warning("not-used", &at.child("revisionName"), message, "remove `revisionName`");
    }
    if value.name.is_empty() {
        return None;
    }
    let scope = if let Some(kind) = value.kind.as_deref().filter(|kind| !kind.is_empty()) {
        choose(reader.cx, &at.child("kind"), kind, kinds)?
    } else {
        let message =
            format!("nothing says where `{}` lives, so the whole infra cluster's is taken", value.name);
        let words: Vec<String> = kinds.iter().map(|(kind, _)| format!("`kind: {kind}`")).collect();
        reader.cx.notice("scope-assumed", at, message, &format!("add {}", words.join(" or ")));
        InfraScope::Cluster
    };
    reader.origin(model_path, at);
    Some(InfraShape { name: reader.cx.parse(&at.child("name"), &value.name)?, scope })
}

fn say_unused(reader: &mut Reader<'_, '_>, settings: &Settings, why: &str) {
    let given = [&settings.cpus, &settings.memory].map(|text| text.as_ref().map(|text| text.at.clone()));
    let cores = settings.cores.as_ref().map(|cores| cores.at.clone());
    for at in given.into_iter().chain([cores]).flatten() {
        let message = format!("`{}` is not used: {why}", at.last_key().unwrap_or_default());
        reader.cx.warning("not-used", &at, message, "remove it");
    }
}

fn compute(reader: &mut Reader<'_, '_>, settings: &Settings) -> Compute {
    reader.origin("template.shape", &settings.at);
    let mut cpu = Cpu::default();
    if let (Some(cpus), Some(cores)) = (&settings.cpus, &settings.cores) {
        let message = "`cpus` sets CPU time aside and `vcpus.cores` does not; a machine can have one of them";
        let help = format!("remove `cpus: {}` or `vcpus.cores: {}`", cpus.value, cores.value);
        reader.cx.error("choose-one", &cores.at, message, &help);
    }
    if let Some(cores) = &settings.cores {
        reader.origin("template.shape.custom.cpu", &cores.at);
        let one = NonZeroU32::MIN;
        cpu.topology =
            NonZeroU32::new(cores.value).map(|cores| Topology { sockets: one, cores, threads: one });
    } else {
        // What cannot be read was complained about; with a stand-in the rest can still be checked.
        let read = reader.parse("template.shape.custom.cpu", settings.cpus.as_ref());
        cpu.request = read.or_else(|| is_unreadable(reader, settings, "cpus").then_some(MilliCpu::whole(1)));
        cpu.limit = cpu.request;
    }
    let read = reader.parse("template.shape.custom.memory", settings.memory.as_ref());
    let bytes = read.or_else(|| is_unreadable(reader, settings, "memory").then_some(Bytes::gibi(1)));
    Compute { cpu, memory: Memory { request: bytes, limit: bytes, ..Memory::default() } }
}

/// Whether an amount that was not read is there all the same: it is no amount, or a reference.
fn is_unreadable(reader: &Reader<'_, '_>, settings: &Settings, key: &str) -> bool {
    let text = if key == "cpus" { &settings.cpus } else { &settings.memory };
    let places = [settings.at.child(key), settings.at.child("template").child(key)];
    let refers =
        |at: &FieldPath| ["secretKeyRef", "configMapKeyRef"].iter().any(|way| reader.cx.has(&at.child(way)));
    text.is_some() || places.iter().any(refers)
}
