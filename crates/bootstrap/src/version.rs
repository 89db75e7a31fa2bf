//! Versions of Kubernetes, and of what belongs to each.

use trellis_model::version::KubernetesVersion;

/// What belongs to a minor version of Kubernetes.
struct Release {
    minor: u32,
    /// The newest patch that is known to exist.
    patch: u32,
    /// Tags of images.
    etcd: &'static str,
    pause: &'static str,
}

/// The minor versions that can be bootstrapped. All have etcd 3.6 or later, whose flags differ from those before.
const RELEASES: &[Release] = &[
    Release { minor: 34, patch: 2, etcd: "3.6.4-0", pause: "3.10.1" },
    Release { minor: 35, patch: 0, etcd: "3.6.6-0", pause: "3.10.1" },
    Release { minor: 36, patch: 0, etcd: "3.6.6-0", pause: "3.10.1" },
    Release { minor: 37, patch: 1, etcd: "3.7.0-0", pause: "3.10.2" },
];

/// A version that can be bootstrapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    /// With all three numbers: `1.37.1`.
    pub(crate) kubernetes: String,
    pub(crate) etcd: &'static str,
    pub(crate) pause: &'static str,
}

/// The version of Kubernetes cannot be bootstrapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Kubernetes {asked} cannot be bootstrapped: there are {}", known())]
pub struct UnknownVersion {
    asked: KubernetesVersion,
}

fn known() -> String {
    RELEASES.iter().map(|release| format!("1.{}", release.minor)).collect::<Vec<_>>().join(", ")
}

impl Version {
    /// What belongs to a version; the newest where none is asked for.
    pub(crate) fn of(asked: Option<KubernetesVersion>) -> Result<Self, UnknownVersion> {
        let newest = RELEASES.last().map_or(0, |release| release.minor);
        let asked = asked.unwrap_or(KubernetesVersion { major: 1, minor: newest, patch: None });
        let release = RELEASES.iter().find(|release| asked.major == 1 && release.minor == asked.minor);
        let release = release.ok_or(UnknownVersion { asked })?;
        let patch = asked.patch.unwrap_or(release.patch);
        Ok(Self {
            kubernetes: format!("1.{}.{patch}", asked.minor),
            etcd: release.etcd,
            pause: release.pause,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_filled_in_and_a_strange_version_refused() {
        let of = |text: &str| Version::of(Some(text.parse().unwrap()));
        assert_eq!(of("1.37").unwrap().kubernetes, "1.37.1");
        assert_eq!(of("1.35.7").unwrap().kubernetes, "1.35.7");
        assert_eq!(Version::of(None).unwrap(), of("1.37").unwrap());
        assert!(of("1.20.1").unwrap_err().to_string().contains("1.34, 1.35"));
    }
}
