//! Controllers that leave out what matters, or never stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;

use super::{Sent, caught};

#[test]
fn a_delete_that_hits_whatever_has_the_name() {
    caught("scale-down", "delete-by-uid", |sent: Sent| async move {
        if sent.method != Method::DELETE {
            return sent.forward().await;
        }
        let mut options = sent.json();
        if let Some(options) = options.as_object_mut() {
            options.remove("preconditions");
        }
        Sent { body: options.to_string().into(), ..sent }.forward().await
    });
}

#[test]
fn a_controller_that_is_never_done() {
    let begun = AtomicBool::new(false);
    let begun = Arc::new(begun);
    caught("scale-up", "quiescence", move |sent: Sent| {
        let begun = Arc::clone(&begun);
        async move {
            let first = sent.site == "control"
                && sent.path.contains("/machines/")
                && !begun.swap(true, Ordering::Relaxed);
            if first {
                let path = sent.path.split('?').next().unwrap_or_default().replace("/status", "");
                let again = Sent {
                    site: sent.site,
                    method: Method::PATCH,
                    path,
                    headers: std::iter::once((
                        http::header::CONTENT_TYPE,
                        http::HeaderValue::from_static("application/merge-patch+json"),
                    ))
                    .collect(),
                    body: bytes::Bytes::from_static(b"{}"),
                    client: sent.client.clone(),
                };
                tokio::spawn(async move {
                    loop {
                        tokio::time::sleep(Duration::from_mins(2)).await;
                        again.forward().await;
                    }
                });
            }
            sent.forward().await
        }
    });
}
