//! What an importer does: gets the bytes, looks at them, and says what is on the volume then.

use base64::Engine as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::checksum::Checksum;
use super::fetch::{self, Asking, FetchError};
use super::format::Look;
use crate::cdi::names::{self, hex};
use crate::cdi::worker::{self, pod};
use crate::client::Client;
use crate::context::Context;
use crate::kinds::{CONFIG_MAP, SECRET};
use crate::object::{Key, Object as _};
use crate::stages::Profile;
use crate::world::images::Image;
use crate::world::volumes::Content;

/// The exit code of an importer that needs scratch space.
pub(crate) const SCRATCH_NEEDED: i64 = 42;

/// Why an import comes to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// It has to be begun anew with scratch space.
    #[error("scratch space required and none found")]
    ScratchNeeded,
    /// There is nothing to be had.
    #[error("Unable to connect to {kind} data source: {source}")]
    Connect {
        /// The kind of source.
        kind: String,
        /// What happened.
        source: FetchError,
    },
    /// What was had is of no use.
    #[error("Unable to process data: {0}")]
    Process(String),
    /// What the table of stages says.
    #[error("{0}")]
    Staged(String),
}

/// Whether a message of an importer means that no other attempt can be better.
pub(super) fn is_fatal(message: &str) -> bool {
    message.contains("checksum mismatch")
}

/// One attempt of an import.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'a> {
    /// What everybody is given.
    pub context: &'a Context,
    /// The client of CDI.
    pub client: &'a Client,
    /// The pod it runs in.
    pub pod: &'a Value,
    /// The claim to be filled.
    pub claim: &'a Value,
    /// How much fits on it, in bytes.
    pub room: u64,
}

impl Job<'_> {
    /// Brings the content in.
    pub(crate) async fn run(&self) -> Result<Content, Failure> {
        let url = self.claim.annotation(names::ENDPOINT);
        let images = &self.context.world.images;
        match self.claim.annotation(names::SOURCE) {
            "none" => {
                self.pace("import.blank", self.room).await?;
                Ok(Content { virtual_size: self.room, ..Content::default() })
            }
            "http" => match images.get(url) {
                Some(image) => self.described(&image).await,
                None => self.fetch(url).await,
            },
            "registry" => {
                if self.claim.annotation(names::REGISTRY_METHOD) != "node" && !pod::has_scratch(self.pod) {
                    return Err(Failure::ScratchNeeded);
                }
                self.described(&images.of_registry(url)).await
            }
            // Nobody here speaks these protocols: what they would bring depends on the address.
            _ => self.described(&images.of_registry(url)).await,
        }
    }

    async fn pace(&self, stage: &str, bytes: u64) -> Result<(), Failure> {
        worker::pace(self.context, self.pod, self.claim, stage, bytes).await.map_err(Failure::Staged)
    }

    fn fits(&self, size: u64) -> Result<(), Failure> {
        if size <= self.room {
            return Ok(());
        }
        Err(Failure::Process(format!(
            "Virtual image size {size} is larger than the reported available storage {}. A larger PVC is required.",
            self.room
        )))
    }

    async fn described(&self, image: &Image) -> Result<Content, Failure> {
        self.fits(image.content.virtual_size)?;
        self.pace("import.copy", image.size).await?;
        if let Some(checksum) = self.checksum()? {
            // Without the bytes only the sum that is written down can be compared.
            if checksum != image.content.digest && checksum.starts_with("sha256:") {
                let found = &image.content.digest;
                return Err(Failure::Process(format!(
                    "checksum mismatch: expected {checksum}, calculated {found}"
                )));
            }
        }
        Ok(image.content.clone())
    }

    fn checksum(&self) -> Result<Option<&str>, Failure> {
        let text = self.claim.annotation(names::CHECKSUM);
        if text.is_empty() {
            return Ok(None);
        }
        Checksum::parse(text).map_err(|error| Failure::Process(error.to_string()))?;
        Ok(Some(text))
    }

    async fn fetch(&self, url: &str) -> Result<Content, Failure> {
        let connect = |source| Failure::Connect { kind: "http".to_owned(), source };
        let checksum = self.checksum()?.and_then(|text| Checksum::parse(text).ok());
        let asking = self.asking().await.map_err(connect)?;
        let mut answer = fetch::get(url, &asking).await.map_err(connect)?;
        let (mut look, mut hash) = (Look::default(), Sha256::new());
        let mut sum = checksum.as_ref().map(Checksum::sum);
        let mut received: u64 = 0;
        let broken = |error: &dyn std::error::Error| Failure::Process(error.to_string());
        while let Some(bytes) = answer.next().await.map_err(|error| broken(&error))? {
            received += bytes.len() as u64;
            hash.update(&bytes);
            if let Some(sum) = &mut sum {
                sum.update(&bytes);
            }
            look.update(&bytes).map_err(|error| broken(&error))?;
            self.tell(received, answer.length);
        }
        if answer.length.is_some_and(|length| length != received) {
            return Err(Failure::Process("unexpected EOF".to_owned()));
        }
        if let (Some(checksum), Some(sum)) = (&checksum, sum) {
            checksum.check(sum).map_err(Failure::Process)?;
        }
        let shape = look.finish().map_err(|error| broken(&error))?;
        let is_archive = self.claim.annotation(names::CONTENT_TYPE) == "archive";
        if !is_archive && shape.format == "qcow2" && !shape.packing.is_empty() && !pod::has_scratch(self.pod)
        {
            return Err(Failure::ScratchNeeded);
        }
        let virtual_size = if is_archive { received } else { shape.virtual_size };
        self.fits(virtual_size)?;
        self.pace("import.copy", received).await?;
        let digest = format!("sha256:{}", hex(&hash.finalize()));
        // What somebody serves as the image of a disk is taken for one that boots, unless there is nothing in it.
        Ok(Content { virtual_size, digest, bootable: !is_archive && !shape.is_blank })
    }

    /// Tells how much was received, where that is all that takes time.
    fn tell(&self, received: u64, length: Option<u64>) {
        if let Some(length) = length.filter(|length| *length > 0)
            && self.context.stages.profile() == Profile::Instant
        {
            #[expect(clippy::cast_precision_loss, reason = "a percentage needs no more")]
            let percent = 100.0 * received as f64 / length as f64;
            self.context.world.transfers.set_progress(self.pod.uid(), percent);
        }
    }

    /// How to ask the server, from the objects the claim names.
    async fn asking(&self) -> Result<Asking, FetchError> {
        let claim = self.claim;
        let mut asking =
            Asking { trust_all: claim.annotation(names::INSECURE) == "true", ..Asking::default() };
        let secret = claim.annotation(names::SECRET);
        if !secret.is_empty() {
            let secret = self.object(&SECRET, secret).await?;
            let part = |name: &str| decoded(&secret["data"][name]);
            asking.login = Some((part("accessKeyId"), part("secretKey")));
        }
        let bundle = claim.annotation(names::CERT_CONFIG_MAP);
        if !bundle.is_empty() {
            let bundle = self.object(&CONFIG_MAP, bundle).await?;
            let parts = bundle["data"].as_object().into_iter().flatten();
            asking.authorities = parts.filter_map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("\n");
        }
        let numbered = |prefix: &'static str| {
            let texts = (0..).map(move |index| claim.annotation(&format!("{prefix}.{index}")));
            texts.take_while(|text| !text.is_empty())
        };
        asking.headers = numbered(names::EXTRA_HEADERS).map(ToOwned::to_owned).collect();
        for name in numbered(names::SECRET_EXTRA_HEADERS) {
            let secret = self.object(&SECRET, name).await?;
            let lines = secret["data"].as_object().into_iter().flatten();
            asking.headers.extend(lines.map(|(_, value)| decoded(value)));
        }
        Ok(asking)
    }

    async fn object(&self, kind: &'static crate::kinds::Kind, name: &str) -> Result<Value, FetchError> {
        let key = Key::new(self.claim.namespace(), name);
        let found = self.client.get(kind, &key).await;
        let found = found.map_err(|error| FetchError::Certificates(error.to_string()))?;
        found.ok_or_else(|| FetchError::Certificates(format!("{} {key} not found", kind.kind)))
    }
}

/// A text of a secret.
fn decoded(value: &Value) -> String {
    let bytes = base64::engine::general_purpose::STANDARD.decode(value.as_str().unwrap_or_default());
    String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
}
