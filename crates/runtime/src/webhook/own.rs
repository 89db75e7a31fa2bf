//! An authority of our own for a webhook, kept in a Secret that all replicas share.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use super::{Identity, WebhookError};
use crate::client::{Error, Selection, Site};
use crate::{Cache, Clock, Key, Meta, Resource, narrow};

const SECRET: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
/// The configurations that hold whom a server believes.
const CONFIGURATIONS: [Resource; 2] = [
    Resource::cluster(
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
    ),
    Resource::cluster(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
    ),
];
/// Until when a certificate is good, on the Secret.
const NOT_AFTER: &str = "trellis.dev/not-after";
/// How long a certificate is good, and the authority with it: both are made anew together.
const LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);
/// How long before its end it is made anew.
const BEFORE: SignedDuration = SignedDuration::from_hours(120 * 24);

/// When a write that failed is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// An authority of our own, and the certificate it vouches for.
#[derive(Debug, Clone)]
pub struct OwnAuthority {
    /// Where the Secret is.
    pub site: Site,
    /// The Secret.
    pub secret: Key,
    /// The names the certificate is for.
    pub names: Vec<String>,
    /// The source of time.
    pub clock: Clock,
}

/// What is kept, and until when it is good.
#[derive(Debug)]
struct Kept {
    identity: Identity,
    not_after: Timestamp,
    version: Option<String>,
}

impl OwnAuthority {
    /// The identity all replicas share, made if there is none or it is about to end, and when to ask again.
    pub async fn identity(&self) -> Result<(Identity, Timestamp), WebhookError> {
        // Another replica may be quicker: then its certificate is ours.
        for _ in 0..3 {
            let kept = self.kept().await?;
            if let Some(kept) = &kept
                && self.clock.now() < kept.not_after - BEFORE
            {
                return Ok((kept.identity.clone(), kept.not_after - BEFORE));
            }
            let made = self.make(kept.as_ref())?;
            match self.keep(&made).await {
                Ok(()) => return Ok((made.identity, made.not_after - BEFORE)),
                Err(Error::AlreadyExists(_) | Error::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(WebhookError::Make)
    }

    async fn kept(&self) -> Result<Option<Kept>, WebhookError> {
        let Some(secret) = self.site.find::<Value>(&SECRET, &self.secret).await? else { return Ok(None) };
        let text = |key: &str| {
            let bytes = STANDARD.decode(secret["data"][key].as_str()?).ok()?;
            String::from_utf8(bytes).ok()
        };
        let metadata = &secret["metadata"];
        let not_after = metadata["annotations"][NOT_AFTER].as_str().and_then(|text| text.parse().ok());
        let version = metadata["resourceVersion"].as_str().map(str::to_owned);
        let identity = Identity {
            certificate: text("tls.crt").unwrap_or_default(),
            key: text("tls.key").unwrap_or_default(),
            authority: text("ca.crt"),
        };
        // What somebody spoiled is made anew.
        let good = super::Keys::new(identity.clone()).is_ok() && identity.authority.is_some();
        let not_after = not_after.filter(|_| good).unwrap_or(Timestamp::UNIX_EPOCH);
        Ok(Some(Kept { identity, not_after, version }))
    }

    /// A new authority and a certificate; the old authority is believed until the last replica shows the new one.
    fn make(&self, before: Option<&Kept>) -> Result<Kept, WebhookError> {
        let now = self.clock.now();
        let not_after = now + LIFE;
        let mut made = certified(&self.names, now - SignedDuration::from_hours(24), not_after)
            .map_err(|_| WebhookError::Make)?;
        if let Some(before) = before
            && before.not_after > now
            && let Some(old) = &before.identity.authority
            && let Some(authority) = &mut made.authority
        {
            authority.push_str(old.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap_or_default());
        }
        let version = before.and_then(|before| before.version.clone());
        Ok(Kept { identity: made, not_after, version })
    }

    async fn keep(&self, kept: &Kept) -> Result<(), Error> {
        let Identity { certificate, key, authority } = &kept.identity;
        let encode = |text: &str| STANDARD.encode(text);
        let mut metadata = json!({
            "name": self.secret.name(),
            "namespace": self.secret.namespace(),
            "annotations": {NOT_AFTER: kept.not_after.to_string()},
        });
        let data = json!({
            "tls.crt": encode(certificate),
            "tls.key": encode(key),
            "ca.crt": encode(authority.as_deref().unwrap_or_default()),
        });
        if let Some(version) = &kept.version {
            metadata["resourceVersion"] = version.as_str().into();
            let patch = json!({"metadata": metadata, "data": data});
            return self.site.merge_patch::<Value>(&SECRET, &self.secret, &patch).await.map(drop);
        }
        let secret = json!({"metadata": metadata, "type": "kubernetes.io/tls", "data": data});
        self.site.create::<Value>(&SECRET, self.secret.namespace(), &secret).await.map(drop)
    }
}

/// A configuration, as far as it says where the webhook is and whom to believe.
#[derive(Debug, PartialEq, Deserialize)]
struct Configuration {
    metadata: Meta,
    #[serde(default)]
    webhooks: Vec<Value>,
}
narrow!(Configuration);

/// Tells the server whom to believe, as long as it runs: writes the authority into the webhook configurations of a name
/// whenever one comes, changes, or the authority does. Those that are not there are waited for.
pub async fn keep_trusted(site: &Site, name: &str, mut authority: watch::Receiver<Option<String>>) {
    let selection = Selection::default().fields(&format!("metadata.name={name}"));
    let caches = CONFIGURATIONS.map(|resource| Cache::<Configuration>::new(resource, selection.clone()));
    let changed = Arc::new(Notify::new());
    for cache in &caches {
        let changed = Arc::clone(&changed);
        cache.listen(move |_| changed.notify_one());
    }
    let [checks, fills] = &caches;
    let write = async {
        loop {
            let wanted = authority.borrow_and_update().clone();
            let mut again = false;
            for cache in &caches {
                for configuration in cache.all() {
                    if let Some(wanted) = &wanted
                        && let Err(error) = trust(site, cache, &configuration, wanted).await
                    {
                        tracing::warn!(%error, configuration = name, "the server is not told whom to believe");
                        again = true;
                    }
                }
            }
            tokio::select! {
                () = changed.notified() => {}
                told = authority.changed() => if told.is_err() { return },
                () = tokio::time::sleep(RETRY), if again => {}
            }
        }
    };
    tokio::select! {
        () = checks.run(site, 0) => {}
        () = fills.run(site, 0) => {}
        () = write => {}
    }
}

async fn trust(
    site: &Site,
    cache: &Cache<Configuration>,
    configuration: &Configuration,
    authority: &str,
) -> Result<(), Error> {
    let bundle = STANDARD.encode(authority);
    let mut operations = Vec::new();
    for (index, hook) in configuration.webhooks.iter().enumerate() {
        if hook["clientConfig"]["caBundle"].as_str() == Some(&bundle) {
            continue;
        }
        let at = format!("/webhooks/{index}");
        operations.push(json!({"op": "test", "path": format!("{at}/name"), "value": hook["name"]}));
        operations.push(json!({"op": "add", "path": format!("{at}/clientConfig/caBundle"), "value": bundle}));
    }
    if !operations.is_empty() {
        let key = &configuration.metadata.key;
        cache.written(site.json_patch(cache.resource(), key, &operations).await?);
    }
    Ok(())
}

fn certified(names: &[String], from: Timestamp, until: Timestamp) -> Result<Identity, rcgen::Error> {
    let day = |moment: Timestamp| {
        let date = moment.to_zoned(jiff::tz::TimeZone::UTC).date();
        let part = |part: i8| u8::try_from(part).unwrap_or(1);
        rcgen::date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day()))
    };
    let mut of_authority = CertificateParams::default();
    of_authority.distinguished_name.push(DnType::CommonName, "trellis-webhook-authority");
    of_authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    of_authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (of_authority.not_before, of_authority.not_after) = (day(from), day(until));
    let authority_key = KeyPair::generate()?;
    let authority = of_authority.self_signed(&authority_key)?.pem();
    let mut params = CertificateParams::new(names.to_vec())?;
    let first = names.first().map_or("trellis-webhook", String::as_str);
    params.distinguished_name.push(DnType::CommonName, first.chars().take(64).collect::<String>());
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    (params.not_before, params.not_after) = (day(from), day(until));
    let key = KeyPair::generate()?;
    // The authority's own key is not kept: whoever gets hold of the Secret cannot vouch for anything else.
    let certificate = params.signed_by(&key, &Issuer::new(of_authority, authority_key))?;
    Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem(), authority: Some(authority) })
}
