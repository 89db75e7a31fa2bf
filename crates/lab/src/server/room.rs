//! Room on the stack for requests about deep objects.
//!
//! Wherever an object is walked over, each of its levels takes some of the stack, and an overflow ends the process.
//! Hardly any object has more than twenty levels, so only where there are deep ones is more of it taken.

use std::pin::Pin;

use super::Server;
use crate::store::DEEP;

/// With less of the stack left than this, more is taken.
const LEFT: usize = 8 << 20;
/// How much that is.
const MORE: usize = 16 << 20;

/// Does what a request asks for, with the room its body and what is stored may need.
pub(super) async fn with_room<F: Future>(server: &Server, body: &[u8], mut work: Pin<&mut F>) -> F::Output {
    let deep = may_be_deep(body);
    std::future::poll_fn(move |context| {
        if deep || server.store().holds_deep() {
            stacker::maybe_grow(LEFT, MORE, || work.as_mut().poll(context))
        } else {
            work.as_mut().poll(context)
        }
    })
    .await
}

/// True for every text that is a deep object in JSON or YAML, and for few others: a level needs a bracket, or a
/// place further to the right.
fn may_be_deep(text: &[u8]) -> bool {
    let (mut open, mut indent, mut leads) = (0_usize, 0_usize, true);
    for byte in text {
        match byte {
            b'{' | b'[' => open += 1,
            b'}' | b']' => open = open.saturating_sub(1),
            b'\n' | b'\r' => (indent, leads) = (0, true),
            b' ' | b'-' | b'?' if leads => {}
            _ => leads = false,
        }
        if leads {
            indent += 1;
        }
        if open + indent > DEEP {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_texts_are_found_in_all_their_forms() {
        let lines: Vec<_> = (0..DEEP + 2).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
        for deep in ["{\"a\":".repeat(DEEP + 1), "[".repeat(DEEP + 1), "- ".repeat(DEEP + 1), lines.concat()]
        {
            assert!(may_be_deep(deep.as_bytes()), "{deep}");
        }
        let flat = "{\"a\":{\"b\":[1,2]},\n  \"c\": \"------------------------------------\"}".repeat(DEEP);
        assert!(!may_be_deep(flat.as_bytes()));
    }
}
