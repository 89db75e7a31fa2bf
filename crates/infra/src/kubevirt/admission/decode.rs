//! What cannot even be read: numbers that the types of KubeVirt have no room for.
//!
//! The definitions let any whole number through; it is virt-api that cannot decode what is negative or too large, and
//! says so in the words of its JSON library before anything is judged.

use serde_json::Value;

use crate::object::Object as _;

/// Fields of a domain that are natural numbers of 32 bits, by the type they are in.
const IN_DOMAIN: [(&str, &str); 5] = [
    ("CPU", "cpu.cores"),
    ("CPU", "cpu.sockets"),
    ("CPU", "cpu.threads"),
    ("CPU", "cpu.maxSockets"),
    ("DiskIOThreads", "ioThreads.supplementalPoolThreadCount"),
];
/// The same of an instancetype.
const IN_INSTANCETYPE: [(&str, &str); 2] =
    [("CPUInstancetype", "cpu.guest"), ("CPUInstancetype", "cpu.maxSockets")];

/// Why the spec of an instance, which is at `place` of its object, cannot be read.
pub fn instance(object: &Value, place: &str) -> Option<String> {
    let spec = object.at(&format!("/{}", place.replace('.', "/")));
    let domain = spec.at("/domain");
    let natural = IN_DOMAIN.iter().find_map(|(kind, field)| {
        problem(domain, field, u32::MAX.into(), kind, &format!("{place}.domain"), "uint32")
    });
    natural.or_else(|| {
        let lists = [("Disk", "disks"), ("Interface", "interfaces")];
        lists.iter().find_map(|(kind, list)| {
            let place = format!("{place}.domain.devices.{list}");
            let devices = domain.list(&format!("/devices/{list}"));
            devices.iter().find_map(|device| problem(device, "bootOrder", u64::MAX, kind, &place, "uint"))
        })
    })
}

/// Why an instancetype cannot be read.
pub fn instancetype(object: &Value) -> Option<String> {
    IN_INSTANCETYPE
        .iter()
        .find_map(|(kind, field)| problem(&object["spec"], field, u32::MAX.into(), kind, "spec", "uint32"))
}

fn problem(from: &Value, field: &str, most: u64, kind: &str, place: &str, number: &str) -> Option<String> {
    let given = from.at(&format!("/{}", field.replace('.', "/")));
    if !given.is_number() || given.as_u64().is_some_and(|given| given <= most) {
        return None;
    }
    Some(format!(
        "json: cannot unmarshal number {given} into Go struct field {kind}.{place}.{field} of type {number}"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_natural_numbers_are_read() {
        let vm =
            |cores: Value| json!({"spec": {"template": {"spec": {"domain": {"cpu": {"cores": cores}}}}}});
        let told = instance(&vm(json!(-1)), "spec.template.spec").unwrap();
        assert_eq!(
            told,
            "json: cannot unmarshal number -1 into Go struct field CPU.spec.template.spec.domain.cpu.cores of type uint32"
        );
        assert!(instance(&vm(json!(4_294_967_296_u64)), "spec.template.spec").is_some());
        for fine in [json!(0), json!(4_294_967_295_u64), Value::Null] {
            assert_eq!(instance(&vm(fine), "spec.template.spec"), None);
        }
        let disks =
            json!({"spec": {"domain": {"devices": {"disks": [{"bootOrder": 1}, {"bootOrder": -1}]}}}});
        assert!(
            instance(&disks, "spec")
                .unwrap()
                .contains("Disk.spec.domain.devices.disks.bootOrder of type uint")
        );
        assert!(instancetype(&json!({"spec": {"cpu": {"guest": -2}}})).unwrap().contains("spec.cpu.guest"));
        assert_eq!(instancetype(&json!({"spec": {"cpu": {"guest": 2}}})), None);
    }
}
