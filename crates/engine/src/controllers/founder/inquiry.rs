//! Finding out why a cluster does not get on, from what can be seen without looking into its machines.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio_rustls::TlsConnector;
use trellis_bootstrap::names::MACHINE_CONFIG_PORT;
use trellis_bootstrap::pki::Authority;
use trellis_bootstrap::server::{MACHINE_HEADER, SIGHTINGS_PATH, Sightings};
use trellis_bootstrap::tokens::{Bearer, LONGEST};
use trellis_model::Pool;
use trellis_platform_kubevirt as kubevirt;
use trellis_runtime::Key;

use super::{Founder, chance, founding, is_running};
use crate::controllers::tenant::Tenant;
use crate::etcd::{Dial as _, PortForward, exchange};
use crate::install::milestones::Findings;
use crate::install::{Facts, Presence};

/// How long the server has for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The kind of the policies that isolate a cluster.
const NETWORK_POLICY: &str = "NetworkPolicy";

impl Founder {
    /// Finds out what can be found out.
    pub(super) async fn inquire(&self, tenant: &Tenant, facts: &Facts) -> Findings {
        let machines = tenant.control.machines.cache.all();
        let ours = machines.iter().filter(|machine| tenant.is_ours(machine));
        let mut said = BTreeMap::new();
        let mut running = std::collections::BTreeSet::new();
        for machine in ours {
            let name = machine.metadata.name();
            if is_running(tenant, name) {
                running.insert(name.to_owned());
            }
            let status = machine.status_json();
            let conditions = status.get("conditions").and_then(Value::as_array);
            let ready = conditions.into_iter().flatten().find(|one| one["type"] == "Ready");
            let not_ready = ready.filter(|one| one["status"] != "True");
            if let Some(message) = not_ready.and_then(|one| one["message"].as_str()) {
                said.insert(name.to_owned(), message.to_owned());
            }
        }
        said.extend(self.bootstrap_says(tenant));
        let mut wrong = self.not_as_wished(tenant);
        if facts.serves && self.is_unpublished().await {
            wrong.push(
                "what the control plane serves configurations from was gone, and is made again".to_owned(),
            );
        }
        Findings {
            wrong,
            server: if facts.bootstrap == Presence::Present {
                self.ask_bootstrap(tenant).await
            } else {
                None
            },
            running,
            said,
        }
    }

    /// What KubeVirt says of the bootstrap machine while it does not run.
    fn bootstrap_says(&self, tenant: &Tenant) -> Option<(String, String)> {
        let name = founding::bootstrap_name(&self.cluster);
        if is_running(tenant, &name) {
            return None;
        }
        let vm = tenant.infra.machines.cache.get(&Key::new(&tenant.infra.namespace, &name))?;
        let trouble = vm.failure.as_ref().or(vm.unschedulable.as_ref());
        let said = trouble.map_or_else(|| format!("{:?}", vm.status), |trouble| trouble.message.to_string());
        Some((name, said))
    }

    /// What all machines share and is missing or other than it was applied: who changes it is faster than we put it
    /// right, or we may not.
    fn not_as_wished(&self, tenant: &Tenant) -> Vec<String> {
        let readings = tenant.readings();
        let pools: Vec<&Pool> = readings.iter().map(|reading| &*reading.pool).collect();
        let policies = tenant.infra.shared.iter().find(|shared| shared.kind() == NETWORK_POLICY);
        let mut wrong = Vec::new();
        for object in kubevirt::render_cluster(&self.cluster, &pools) {
            let json = object.to_json();
            let key = Key::new(object.namespace(), object.name());
            let kind = json["kind"].as_str().unwrap_or_default();
            let is = match kind {
                "Service" => self
                    .services
                    .get(&key)
                    .map(|one| serde_json::json!(one.selector()) == json["spec"]["selector"]),
                NETWORK_POLICY => policies
                    .and_then(|policies| policies.cache.get(&key))
                    .map(|policy| Value::Object(policy.spec_json()) == json["spec"]),
                _ => continue,
            };
            let name = key.name();
            match (is, kind) {
                (Some(true), _) => {}
                (None, _) => wrong.push(format!("the {kind} {name} is not there")),
                (Some(false), "Service") => {
                    wrong.push(format!(
                        "the Service {name} does not select the machines of the control plane"
                    ));
                }
                (Some(false), _) => wrong.push(format!("the {kind} {name} is not what it was made as")),
            }
        }
        wrong
    }

    /// Asks the server on the bootstrap machine whom it has seen; nothing where there is nobody to ask.
    pub(super) async fn ask_bootstrap(&self, tenant: &Tenant) -> Option<Result<Sightings, String>> {
        self.bootstrap_machine(tenant)?;
        let asked = tokio::time::timeout(PATIENCE, self.sightings(tenant)).await;
        Some(asked.unwrap_or_else(|_| Err("it takes too long".to_owned())))
    }

    async fn sightings(&self, tenant: &Tenant) -> Result<Sightings, String> {
        let bundle = self.bundle().map_err(|trouble| trouble.to_string())?;
        let key = bundle.token_key().map_err(|error| error.to_string())?;
        let token = key.issue(Bearer::Keeper, LONGEST, &mut chance(), self.clock.now());
        let authority = bundle.authority(Authority::MachineConfig).map_err(|error| error.to_string())?;
        let tls = trusting(&authority.certificate)?;
        let host = founding::names(&self.cluster).api_int;
        let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
        let dial = PortForward { site: self.infra.clone(), namespace: tenant.infra.namespace.clone() };
        let stream = dial.dial(&founding::bootstrap_name(&self.cluster), MACHINE_CONFIG_PORT).await?;
        let stream =
            TlsConnector::from(tls).connect(name, stream).await.map_err(|error| error.to_string())?;
        let request = Request::get(SIGHTINGS_PATH)
            .header("host", host)
            .header("authorization", format!("Bearer {}", token.expose()))
            .header(MACHINE_HEADER, "controller")
            .body(Full::new(Bytes::new()))
            .map_err(|error| error.to_string())?;
        match exchange(stream, request).await? {
            (200, answer) => serde_json::from_value(answer).map_err(|error| error.to_string()),
            (code, _) => Err(format!("it answers {code}")),
        }
    }
}

/// A TLS configuration that trusts one authority.
fn trusting(authority: &str) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
