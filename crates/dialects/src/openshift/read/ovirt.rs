//! What machines on oVirt have in common, in an install-config and in the machine API.

use std::num::NonZeroU32;

use trellis_api::openshift::pools::{AutoPinning, OvirtCpu};
use trellis_model::machine::{Compute, Cpu, HugepageSize, Memory, Topology};
use trellis_model::quantity::Bytes;

use crate::path::FieldPath;
use crate::shared::{At, Reader};

/// CPU and memory, each where it stands.
pub(super) struct Sizes {
    pub(super) cpu: Option<At<OvirtCpu>>,
    pub(super) memory_mb: Option<At<u32>>,
    pub(super) hugepages: Option<At<u32>>,
}

/// That many cores of one socket.
pub(super) fn cores(cores: u32) -> OvirtCpu {
    OvirtCpu { sockets: None, cores: Some(cores), threads: None }
}

/// CPU and memory of a machine.
pub(super) fn compute(reader: &mut Reader<'_, '_>, sizes: &Sizes) -> Compute {
    let topology = sizes.cpu.as_ref().map(|cpu| topology(reader, cpu));
    let guest = sizes.memory_mb.as_ref().map(|memory| {
        reader.origin("template.shape.custom.memory", &memory.at);
        Bytes::mebi(memory.value)
    });
    Compute {
        cpu: Cpu { topology, ..Cpu::default() },
        memory: Memory { guest, hugepages: hugepages(reader, sizes.hugepages.as_ref()), ..Memory::default() },
    }
}

fn topology(reader: &mut Reader<'_, '_>, cpu: &At<OvirtCpu>) -> Topology {
    reader.origin("template.shape.custom.cpu", &cpu.at);
    let mut part = |key: &str, number: Option<u32>, may_be_zero: bool| {
        if number == Some(0) && !may_be_zero {
            let message = format!("a machine cannot have 0 {key}");
            reader.cx.error("invalid-value", &cpu.at.child(key), message, "write at least 1");
        }
        number.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
    };
    Topology {
        sockets: part("sockets", cpu.value.sockets, false),
        cores: part("cores", cpu.value.cores, false),
        threads: part("threads", cpu.value.threads, true),
    }
}

fn hugepages(reader: &mut Reader<'_, '_>, pages: Option<&At<u32>>) -> Option<HugepageSize> {
    let pages = pages?;
    reader.origin("template.shape.custom.memory.hugepages", &pages.at);
    match pages.value {
        0 => None,
        2048 => Some(HugepageSize::Mebi2),
        1_048_576 => Some(HugepageSize::Gibi1),
        other => {
            let message = format!("huge pages are of 2048 or 1048576 kibibytes, not of {other}");
            reader.cx.error("invalid-value", &pages.at, message, "write 2048 or 1048576");
            None
        }
    }
}

/// Whether machines are pinned to the topology of their host.
pub(super) fn pins(policy: AutoPinning) -> bool {
    policy == AutoPinning::ResizeAndPin
}

/// Complains that an instance type stands beside what it takes the place of.
pub(super) fn instance_type_conflict(reader: &mut Reader<'_, '_>, at: &FieldPath) {
    let message = "an instance type says how much CPU and memory a machine has, and both are given as well";
    reader.cx.error("choose-one", at, message, "keep the instance type, or CPU and memory");
}

/// Complains about groups that nobody makes.
pub(super) fn check_groups(reader: &mut Reader<'_, '_>, groups: &At<Vec<String>>, known: &[&str]) {
    for (index, group) in
        groups.value.iter().enumerate().filter(|(_, group)| !known.contains(&group.as_str()))
    {
        let message = format!("there is no affinity group `{group}` in `platform.ovirt.affinityGroups`");
        let help = match crate::suggest::closest(group, known) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "add it there, unless the engine has it already".to_owned(),
        };
        reader.cx.warning("unknown-group", &groups.at.index(index), message, &help);
    }
}
