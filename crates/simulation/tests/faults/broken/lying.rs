//! Controllers that see what is not there.

use bytes::{Bytes, BytesMut};
use http::Method;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;

use super::{Answer, Sent, caught};

/// What becomes of each line a watch tells, and of each other answer; nothing for what is not shown.
type Lens = fn(&str) -> Option<String>;

/// Shows a controller the objects of a kind through a lens.
async fn through(sent: Sent, resource: &str, lens: Lens) -> Answer {
    let looks = sent.path.split('?').next().unwrap_or_default().split('/').any(|part| part == resource);
    let answer = sent.forward().await;
    if !looks || sent.method == Method::DELETE {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    parts.headers.remove(http::header::CONTENT_LENGTH);
    let lines = futures::stream::unfold((body, BytesMut::new()), move |(mut body, mut rest)| async move {
        loop {
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = rest.split_to(end + 1);
                if let Some(shown) = lens(&String::from_utf8_lossy(&line)) {
                    return Some((Ok::<_, tower::BoxError>(Frame::data(Bytes::from(shown))), (body, rest)));
                }
                continue;
            }
            match body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        rest.extend_from_slice(&data);
                    }
                }
                // What has no end of a line is no watch, but one object.
                _ if !rest.is_empty() => {
                    let last = rest.split();
                    let shown = lens(&String::from_utf8_lossy(&last))?;
                    return Some((Ok(Frame::data(Bytes::from(shown))), (body, rest)));
                }
                _ => return None,
            }
        }
    });
    http::Response::from_parts(parts, StreamBody::new(lines).boxed_unsync())
}

#[test]
fn a_surge_that_is_computed_from_another_number() {
    caught("rolling-update", "surge", |sent: Sent| {
        through(sent, "machinepools", |line| Some(line.replace("\"maxSurge\":1", "\"maxSurge\":2")))
    });
}

#[test]
fn a_pool_that_takes_machines_away_before_others_serve() {
    caught("rolling-update", "availability", |sent: Sent| {
        through(sent, "machinepools", |line| {
            Some(line.replace("\"maxUnavailable\":0", "\"maxUnavailable\":1"))
        })
    });
}

#[test]
fn a_drain_that_overlooks_pods() {
    caught("scale-down", "drained-before-stop", |sent: Sent| {
        let pods = sent.site == "tenant";
        through(sent, if pods { "pods" } else { "nothing" }, |line| {
            let overlooked = line.contains("\"app\":\"web\"");
            (!overlooked).then(|| line.to_owned())
        })
    });
}
