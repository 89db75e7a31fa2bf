//! Names of infra objects: derived, never random, and never the same for two different things.

use trellis_model::canonical::{self, Revision};
use trellis_model::names::{DeviceName, FlavorName};
use trellis_model::volume::ROOT_DISK;
use trellis_model::{Cluster, Pool};

/// The longest name: it is also a label value, a host name and the name of a Service.
const MAX_LENGTH: usize = 63;
/// How many characters of a hash stand for what was cut off or left out: 40 bits.
const HASH_LENGTH: usize = 10;
/// A tail that is kept whole when a name is cut; a longer one is cut with the rest.
const MAX_TAIL: usize = 32;

/// The first characters of the hash of something.
pub(crate) fn short_hash(value: &impl serde::Serialize) -> String {
    let mut hash = canonical::hash(value);
    hash.truncate(HASH_LENGTH);
    hash
}

/// Head and tail, or if that is too long the beginning of the head, a hash of all of it, and the tail.
fn bounded(head: &str, tail: &str) -> String {
    let whole = format!("{head}{tail}");
    if whole.len() <= MAX_LENGTH {
        return whole;
    }
    let (head, tail) = if tail.len() <= MAX_TAIL { (head, tail) } else { (whole.as_str(), "") };
    // Model names are ASCII, so every index is a character boundary.
    let keep = MAX_LENGTH - HASH_LENGTH - 1 - tail.len();
    let beginning = head.get(..keep).unwrap_or(head).trim_end_matches('-');
    format!("{beginning}-{}{tail}", short_hash(&whole))
}

/// The beginning of all names of a cluster.
///
/// Several clusters may share a namespace, and `a-b` + `c` must not be called what `a` + `b-c` is. A
/// dash inside the cluster's name is therefore doubled: the first single dash ends it.
fn prefix(cluster: &str) -> String {
    cluster.replace('-', "--")
}

/// An object that belongs to a cluster as a whole.
pub(crate) fn of_cluster(cluster: &Cluster, what: &str) -> String {
    bounded(&format!("{}-{what}", prefix(cluster.name.as_str())), "")
}

/// A network made for the cluster.
pub(crate) fn tenant_network(cluster: &Cluster, network: &DeviceName) -> String {
    of_cluster(cluster, network.as_str())
}

/// The instance type and the preference of a flavor.
pub(crate) fn flavor(cluster: &Cluster, flavor: &FlavorName) -> String {
    of_cluster(cluster, flavor.as_str())
}

/// The golden volume of an image, by what it is made from.
pub(crate) fn golden(cluster: &Cluster, identity: &impl serde::Serialize) -> String {
    bounded(&format!("{}-image", prefix(cluster.name.as_str())), &format!("-{}", short_hash(identity)))
}

/// The Service of an endpoint such as `api`.
///
/// In a namespace named like the cluster the plain name is free for it, and makes
/// `<endpoint>.<cluster>.svc.cluster.local` resolve.
pub fn endpoint(cluster: &Cluster, endpoint: &str) -> String {
    if cluster.name.as_str() == cluster.infra_namespace() {
        endpoint.to_owned()
    } else {
        of_cluster(cluster, endpoint)
    }
}

/// The name of a machine: that of its pool if it has one, else cluster, pool, revision and number.
pub(crate) fn machine_name(cluster: &Cluster, pool: &Pool, revision: &Revision, ordinal: u32) -> String {
    match &pool.spec.machine_name {
        Some(name) => name.as_str().to_owned(),
        None => numbered(cluster.name.as_str(), pool.name.as_str(), revision.as_str(), ordinal),
    }
}

fn numbered(cluster: &str, pool: &str, revision: &str, ordinal: u32) -> String {
    bounded(&format!("{}-{pool}", prefix(cluster)), &format!("-{revision}-{ordinal}"))
}

/// The volume of a machine's root disk.
pub(crate) fn root_disk(machine: &str) -> String {
    bounded(machine, &format!("-{ROOT_DISK}"))
}

/// The volume of a further disk of a machine.
pub(crate) fn data_disk(machine: &str, disk: &DeviceName) -> String {
    bounded(machine, &format!("-{disk}"))
}

/// The Secret with a machine's user data, and its network data if it has any.
pub(crate) fn user_data(machine: &str) -> String {
    bounded(machine, "-user-data")
}

/// The Secret with a machine's network data alone, where the user data is somebody else's Secret.
pub(crate) fn network_data(machine: &str) -> String {
    bounded(machine, "-network-data")
}

/// A move of a run of a machine.
pub(crate) fn migration(machine: &str, instance_uid: &str, attempt: u32) -> String {
    bounded(machine, &format!("-move-{}-{attempt}", short_hash(&instance_uid)))
}

/// What tells a machine from every other: its namespace, cluster and name.
fn identity<'a>(cluster: &'a Cluster, machine: &'a str) -> (&'a str, &'a str, &'a str) {
    (cluster.infra_namespace(), cluster.name.as_str(), machine)
}

/// The firmware identifier of a machine that nobody has a Machine object of. Guests key licences and machine ids on it,
/// so that it is the same whenever the machine is rendered.
pub(crate) fn firmware_uuid(cluster: &Cluster, machine: &str) -> String {
    uuid(&canonical::hash(&identity(cluster, machine)))
}

/// The firmware identifier of the machine of a Machine object. A Node is known by it, and names are used again: another
/// Machine of the same name has another one, and the same Machine whose VM is made again has the same.
pub(crate) fn firmware_uuid_of(machine_uid: &str) -> String {
    uuid(&canonical::hash(&("machine", machine_uid)))
}

/// An identifier in the usual form, from the digits of a hash.
fn uuid(hex: &str) -> String {
    let digit = |i: usize| hex.as_bytes().get(i).copied().map_or('0', char::from);
    let part = |from: usize, to: usize| (from..to).map(digit).collect::<String>();
    // The two bits above the variant's free ones are `10`.
    let variant = match digit(16) {
        '0' | '4' | '8' | 'c' => '8',
        '1' | '5' | '9' | 'd' => '9',
        '2' | '6' | 'a' | 'e' => 'a',
        _ => 'b',
    };
    format!("{}-{}-5{}-{variant}{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

/// A hardware address for an interface, from the range that is free for such use.
pub(crate) fn mac_address(cluster: &Cluster, machine: &str, nic: &DeviceName) -> String {
    let hex = short_hash(&(identity(cluster, machine), nic));
    let mut mac = "02".to_owned();
    for (i, digit) in hex.chars().enumerate() {
        if i % 2 == 0 {
            mac.push(':');
        }
        mac.push(digit);
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tail_is_kept_and_a_long_name_ends_in_its_hash() {
        assert_eq!(bounded("demo-web", "-0"), "demo-web-0");
        let long = "a".repeat(70);
        let name = bounded(&long, "-12");
        assert_eq!(name.len(), MAX_LENGTH);
        assert!(name.starts_with("aaaa") && name.ends_with("-12"), "{name}");
        let name = bounded("m", &format!("-{long}"));
        assert!(name.len() <= MAX_LENGTH && name.starts_with("m-aaaa"), "{name}");
    }

    proptest! {
        /// The hardest inputs to tell apart: the same words, divided differently between cluster and pool.
        #[test]
        fn different_machines_have_different_names(
            words in prop::collection::vec("[a-c]{1,2}(-[a-c])?|[0-9]{1,2}|x{30}", 2..6),
            splits in (1_usize..5, 1_usize..5),
            revisions in ("[0-1]{2}", "[0-1]{2}"),
            ordinals in (0_u32..3, 0_u32..3),
        ) {
            let divided = |at: usize| {
                let (cluster, pool) = words.split_at(at.min(words.len() - 1));
                (cluster.join("-"), pool.join("-"))
            };
            let (a, b) = (divided(splits.0), divided(splits.1));
            let same = a == b && revisions.0 == revisions.1 && ordinals.0 == ordinals.1;
            let a = numbered(&a.0, &a.1, &revisions.0, ordinals.0);
            let b = numbered(&b.0, &b.1, &revisions.1, ordinals.1);
            prop_assert_eq!(a == b, same, "{} {}", a, b);
            prop_assert!(a.len() <= MAX_LENGTH && b.len() <= MAX_LENGTH);
        }

        #[test]
        fn cut_names_stay_dns_labels(head in "[a-z]([-a-z0-9]{0,80}[a-z0-9])?", tail in "(-[a-z0-9]{1,40})?") {
            let name = bounded(&head, &tail);
            prop_assert!(name.len() <= MAX_LENGTH);
            prop_assert!(!name.starts_with('-') && !name.ends_with('-'));
        }
    }
}
