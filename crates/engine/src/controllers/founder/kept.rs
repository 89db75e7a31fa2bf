//! What was made once and is kept in Secrets beside the record.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use trellis_bootstrap::Bundle;
use trellis_platform_kubevirt as kubevirt;
use trellis_runtime::Key;
use trellis_runtime::client::Error;

use super::{Founder, SECRETS, Trouble, chance};
use crate::install::{Founding, founding};

/// The key of the keys and certificates in their Secret.
pub(super) const BUNDLE: &str = "bundle.json";
/// The key of a kubeconfig in its Secret.
pub(super) const KUBECONFIG: &str = "value";
/// The annotation of the founding that says when the members took over.
pub(super) const HANDED_OVER: &str = "trellis.dev/handed-over";
/// The annotation of the founding that says from when on tokens count that the bootstrap machine is shown.
pub(super) const OPENED: &str = "trellis.dev/tokens-count-from";
/// The annotation of the founding that says that there has been a bootstrap machine.
pub(super) const BOOTSTRAP_MADE: &str = "trellis.dev/bootstrap-machine-made";

/// What was kept in a Secret.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) data: BTreeMap<String, Vec<u8>>,
    pub(super) annotations: BTreeMap<String, String>,
}

impl Kept {
    /// What a Secret holds; the error says what is wrong with it, and nothing of what is in it.
    pub(super) fn of(secret: &Value) -> Result<Self, &'static str> {
        let mut kept = Self::default();
        for (name, value) in secret["data"].as_object().into_iter().flatten() {
            let bytes = value.as_str().and_then(|text| STANDARD.decode(text).ok());
            kept.data.insert(name.clone(), bytes.ok_or("its data is no base64")?);
        }
        for (name, value) in secret["metadata"]["annotations"].as_object().into_iter().flatten() {
            kept.annotations.insert(name.clone(), value.as_str().unwrap_or_default().to_owned());
        }
        Ok(kept)
    }
}

impl Founder {
    /// The Secret of a part.
    pub(super) fn secret(&self, part: &str) -> Key {
        Key::new(&self.namespace, &format!("{}-{part}", self.cluster.name))
    }

    /// The keys and certificates.
    pub(super) fn bundle(&self) -> Result<Arc<Bundle>, Trouble> {
        let missing = || Trouble::Secret(self.secret("pki").name().to_owned(), "it is not there");
        self.state.lock().bundle.clone().ok_or_else(missing)
    }

    /// Creates a Secret; one that is there stays as it is.
    pub(super) async fn store(&self, part: &str, data: &Value, annotations: &Value) -> Result<(), Error> {
        let key = self.secret(part);
        let labels = json!({kubevirt::CLUSTER_LABEL: self.cluster.name});
        let metadata = json!({"name": key.name(), "labels": labels, "annotations": annotations});
        let secret = json!({"metadata": metadata, "type": "Opaque", "stringData": data});
        match self.control.create::<Value>(&SECRETS, &self.namespace, &secret).await {
            Err(Error::AlreadyExists(_)) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Signs anew what ends soon, and brings what holds it up to date. What was signed before counts until it ends, so that
    /// it does no harm when whoever comes after a crash does it once more.
    pub(super) async fn renew_certificates(&self) -> Result<(), Trouble> {
        let mut bundle = (*self.bundle()?).clone();
        let renewed = bundle.renew(&mut chance(), self.clock.now())?;
        tracing::info!(cluster = %self.cluster.name, ?renewed, "certificates are renewed");
        self.replace("etcd", &founding::etcd_credentials(&bundle)?).await?;
        if let Some(text) = self.admin_kubeconfig(&bundle)? {
            self.replace("kubeconfig", &json!({KUBECONFIG: text.expose()})).await?;
        }
        // Last: as long as it is not there, all of it is done again.
        self.replace("pki", &json!({BUNDLE: json!(bundle).to_string()})).await?;
        self.state.lock().bundle = Some(Arc::new(bundle));
        Ok(())
    }

    /// Changes what a Secret holds, if it is there.
    async fn replace(&self, part: &str, data: &Value) -> Result<(), Error> {
        let patch = json!({"stringData": data});
        match self.control.merge_patch::<Value>(&SECRETS, &self.secret(part), &patch).await {
            Ok(_) | Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Notes something on the Secret of the founding.
    pub(super) async fn note(&self, annotations: &Value) -> Result<(), Error> {
        let patch = json!({"metadata": {"annotations": annotations}});
        let _: Value = self.control.merge_patch(&SECRETS, &self.secret("founding"), &patch).await?;
        Ok(())
    }

    /// Reads what was made before.
    pub(super) async fn load(&self) -> Result<(), Trouble> {
        if self.state.lock().loaded {
            return Ok(());
        }
        let bundle = match self.read("pki").await? {
            Some(secret) => {
                let unreadable = || Trouble::Secret(self.secret("pki").name().to_owned(), "it holds no keys");
                let bytes = secret.data.get(BUNDLE).ok_or_else(unreadable)?;
                Some(Arc::new(serde_json::from_slice(bytes).map_err(|_| unreadable())?))
            }
            None => None,
        };
        let kept = self.read("founding").await?;
        let founding = match &kept {
            Some(secret) => {
                Some(Arc::new(Founding::of_secret(self.secret("founding").name(), &secret.data)?))
            }
            None => None,
        };
        let (etcd, kubeconfig) = (self.read("etcd").await?, self.read("kubeconfig").await?);
        let since = self.said_before().await?;
        let notes = kept.map(|secret| secret.annotations).unwrap_or_default();
        let mut state = self.state.lock();
        state.bundle = bundle;
        state.founding = founding;
        state.handed_over = notes.contains_key(HANDED_OVER);
        state.bootstrap_made = notes.contains_key(BOOTSTRAP_MADE);
        state.opened = notes.get(OPENED).and_then(|text| text.parse::<Timestamp>().ok());
        state.etcd_credentials = etcd.is_some();
        state.kubeconfig = kubeconfig.is_some();
        state.since = state.since.or(since);
        state.loaded = true;
        Ok(())
    }

    async fn read(&self, part: &str) -> Result<Option<Kept>, Trouble> {
        let key = self.secret(part);
        let Some(secret) = self.control.find::<Value>(&SECRETS, &key).await? else { return Ok(None) };
        Ok(Some(Kept::of(&secret).map_err(|what| Trouble::Secret(key.name().to_owned(), what))?))
    }
}
