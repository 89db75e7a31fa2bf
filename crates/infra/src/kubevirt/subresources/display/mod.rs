//! The screen of a machine, and a still of it.

mod font;
mod picture;
mod png;
mod rfb;

use http::{HeaderValue, StatusCode, header};
use serde_json::Value;

use super::stream::{Caller, carry};
use super::{Answer, Asked, Refusal};
use crate::object::Object as _;
use crate::service::{Call, empty, full};

/// Whether an instance has a screen.
fn check(vmi: &Value) -> Result<(), Refusal> {
    if vmi.at("/spec/domain/devices/autoattachGraphicsDevice") == &Value::Bool(false) {
        return Err(Refusal::bad("No graphics devices are present."));
    }
    Ok(())
}

/// Whether a query asks for something.
fn asks(query: &str, name: &str) -> bool {
    query
        .split('&')
        .any(|part| part.split_once('=').is_some_and(|(key, value)| key == name && value == "true"))
}

impl Asked {
    pub(super) async fn vnc(&self, call: Call) -> Answer {
        let vmi = self.vmi().await?;
        check(&vmi)?;
        let machine = self.machine(&vmi)?;
        if asks(call.request.uri().query().unwrap_or_default(), "preserveSession")
            && machine.display.is_taken()
        {
            return Err(self.vmi_conflict("Active VNC connection. Request denied."));
        }
        let caller = Caller::of(call.request)?;
        let session = machine.display.take();
        Ok(caller.accept(|socket| async move {
            let (near, far) = tokio::io::duplex(1024 * 1024);
            let serve = async {
                if let Err(error) = rfb::serve(&machine, far).await {
                    tracing::debug!(%error, "a viewer left");
                }
            };
            tokio::join!(carry(socket, near, session.ended()), serve);
        }))
    }

    pub(super) async fn screenshot(&self) -> Answer {
        let vmi = self.vmi().await?;
        check(&vmi)?;
        let machine = self.machine(&vmi)?;
        let mut response = empty(StatusCode::OK);
        *response.body_mut() = full(png::encode(&picture::of(&machine)));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("image/png"));
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn some_instances_have_no_screen() {
        let vmi = json!({"spec": {"domain": {"devices": {"autoattachGraphicsDevice": false}}}});
        assert_eq!(check(&vmi).unwrap_err().to_string(), "No graphics devices are present.");
        assert_eq!(check(&json!({})), Ok(()));
        assert!(asks("a=b&preserveSession=true", "preserveSession") && !asks("", "preserveSession"));
    }
}
