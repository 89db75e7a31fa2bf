//! The webhook of `trellis controller`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use trellis_engine::admission;
use trellis_model::names::{NamespaceName, ObjectName};
use trellis_runtime::webhook::{self, Keys, OwnAuthority};
use trellis_runtime::{Clock, Key, Site, Tasks};

use crate::exit::Failure;

/// Whether, where and with which certificate objects are checked before they are stored.
#[derive(Debug, Args)]
#[expect(clippy::struct_field_names, reason = "the names of fields are those of flags")]
pub(crate) struct Webhook {
    /// Where to answer the API server's questions about machine objects, over TLS: /validate refuses what cannot be
    /// used, with every problem at its field, and /mutate fills in what is left out.
    #[arg(long, value_name = "ADDRESS")]
    webhook_listen: Option<SocketAddr>,
    /// The folder with tls.crt and tls.key, which are read again when they change, and ca.crt, if it is there, for the
    /// webhook configurations. Without it the controller makes an authority and a certificate of its own, and keeps
    /// them in a Secret that its replicas share.
    #[arg(long, value_name = "DIR", requires = "webhook_listen")]
    webhook_cert_dir: Option<PathBuf>,
    /// The Service through which the API server asks, for the names in a certificate of our own.
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "trellis-system/trellis", value_parser = service)]
    webhook_service: (NamespaceName, ObjectName),
    /// The Secret with a certificate of our own, in the namespace of the Service.
    #[arg(long, value_name = "NAME", default_value = "trellis-webhook")]
    webhook_secret: ObjectName,
    /// The webhook configurations that are told whom to believe.
    #[arg(long, value_name = "NAME", default_value = "trellis")]
    webhook_configuration: ObjectName,
}

fn service(text: &str) -> Result<(NamespaceName, ObjectName), String> {
    let (namespace, name) = text.split_once('/').ok_or("write it as NAMESPACE/NAME")?;
    let namespace = namespace.parse().map_err(|error| format!("{error}"))?;
    Ok((namespace, name.parse().map_err(|error| format!("{error}"))?))
}

impl Webhook {
    /// Begins to answer, if it is asked for; with these tasks it ends.
    pub(crate) async fn start(&self, control: &Site, clock: Clock, tasks: &mut Tasks) -> Result<(), Failure> {
        let Some(address) = self.webhook_listen else { return Ok(()) };
        let refused = |error: webhook::WebhookError| Failure::Refused(error.to_string());
        let keys = if let Some(folder) = &self.webhook_cert_dir {
            Arc::new(Keys::of_folder(folder).map_err(refused)?)
        } else {
            let own = self.own(control, clock, address);
            let (identity, renew) = own.identity().await.map_err(refused)?;
            let keys = Arc::new(Keys::new(identity).map_err(refused)?);
            let shown = Arc::clone(&keys);
            tasks.background("webhook certificate", async move { renewed(&own, &shown, renew).await });
            keys
        };
        let listening =
            webhook::Webhook::listen(address, Arc::clone(&keys), admission::review).await.map_err(refused)?;
        tracing::info!(address = %listening.address()?, "answers admission reviews");
        let (site, name) = (control.clone(), self.webhook_configuration.to_string());
        tasks.background("webhook trust", async move {
            webhook::keep_trusted(&site, &name, keys.authority()).await;
        });
        let stop = tasks.stop().clone();
        tasks.essential("webhook", async move { listening.run(&stop).await });
        Ok(())
    }

    fn own(&self, control: &Site, clock: Clock, address: SocketAddr) -> OwnAuthority {
        let (namespace, name) = &self.webhook_service;
        let (namespace, name) = (namespace.as_str(), name.as_str());
        let mut names =
            vec![format!("{name}.{namespace}.svc"), format!("{name}.{namespace}.svc.cluster.local")];
        if !address.ip().is_unspecified() {
            names.push(address.ip().to_string());
        }
        let secret = Key::new(namespace, self.webhook_secret.as_str());
        OwnAuthority { site: control.clone(), secret, names, clock }
    }
}

/// Shows another certificate in time, for ever.
async fn renewed(own: &OwnAuthority, keys: &Keys, mut renew: jiff::Timestamp) {
    loop {
        tokio::time::sleep(own.clock.until(renew)).await;
        match own.identity().await.and_then(|(identity, next)| keys.show(identity).map(|()| next)) {
            Ok(next) => renew = next,
            Err(error) => {
                tracing::warn!(%error, "the webhook keeps its certificate");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// When a certificate that cannot be renewed is tried again; it is good for months still.
const RETRY: std::time::Duration = std::time::Duration::from_mins(10);
