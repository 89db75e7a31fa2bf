//! Images that can be had from outside without really fetching them: those of registries, and those of URLs that
//! somebody has described.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use sha2::{Digest as _, Sha256};

use super::volumes::Content;

/// How large a disk is in an image of a registry nobody has described.
const USUAL_SIZE: u64 = 1 << 30;

/// An image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Image {
    /// How many bytes have to be moved.
    pub size: u64,
    /// What is on the disk.
    pub content: Content,
}

/// The images by URL.
#[derive(Debug, Default)]
pub struct Images {
    known: RwLock<BTreeMap<String, Image>>,
}

impl Images {
    /// Describes an image, in place of what there was at the URL before.
    pub fn set(&self, url: &str, image: Image) {
        self.known.write().insert(url.to_owned(), image);
    }

    /// Takes an image away.
    pub fn remove(&self, url: &str) {
        self.known.write().remove(url);
    }

    /// The image at a URL, if somebody has described it.
    pub fn get(&self, url: &str) -> Option<Image> {
        self.known.read().get(url).cloned()
    }

    /// The image a registry has under a name. Every registry has every image; what is in it depends on the name.
    pub fn of_registry(&self, url: &str) -> Image {
        self.get(url).unwrap_or_else(|| {
            let content =
                Content { virtual_size: USUAL_SIZE, digest: Self::digest_of_name(url), bootable: true };
            Image { size: USUAL_SIZE / 4, content }
        })
    }

    fn digest_of_name(url: &str) -> String {
        use std::fmt::Write as _;
        let hash = Sha256::digest(url.as_bytes());
        hash.iter().fold("sha256:".to_owned(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}
