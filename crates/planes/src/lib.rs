//! What runs in a guest that is a control plane.
//!
//! A guest whose user data starts a kubelet and leaves static pods of etcd and the API server on its disk becomes a
//! member of its tenant's control plane: [`ControlPlanes`] reads the command lines out of the manifests and the files
//! they name, as the real programs would, and nothing else. Members of etcd find each other by name over the fabric,
//! with TLS on both sides; without a quorum they answer nothing. What they keep is one lab per cluster, which every
//! API server shows with the certificate of its own disk.
//!
//! Beside it, [`MachineConfigServers`], [`Balancers`] and [`Kubeadm`] are what the other units and static pods of such
//! guests start.
//!
//! A control plane that does not come up says why on the console of its guest.

mod apiserver;
mod balancer;
mod config_server;
mod etcd;
mod kubeadm;
mod manager;
mod manifest;
mod program;
mod tls;
mod web;

pub use balancer::Balancers;
pub use config_server::MachineConfigServers;
pub use etcd::Quorum;
pub use kubeadm::Kubeadm;
pub use program::{ControlPlanes, programs};
