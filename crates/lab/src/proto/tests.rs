//! The codec against types made by hand: one field of every shape.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::encode::{encode_message, enveloped};
use super::wire::{put_bytes, put_message, put_number};
use super::*;
use crate::schema::{
    Embedding, Field, Instead, ListMerge, Node, Omit, Patch, Proto, Shape, TypeId, TypeRef, Types,
};

fn field(name: &str, of: TypeId, omit: Omit, number: u32, within: [u32; 2]) -> Field {
    Field {
        name: name.to_owned(),
        of,
        required: false,
        omit,
        default: None,
        proto: Some(Proto { number, delimited: true, within }),
        patch: Patch::default(),
    }
}

fn object(types: &mut Types, name: &str, mut fields: Vec<Field>) -> TypeId {
    fields.sort_by(|left, right| left.name.cmp(&right.name));
    let shape = Shape::Object { fields, atomic: false, preserve_unknown: false };
    types.add(Node { name: Some(name.to_owned()), shape })
}

/// `Everything` has a field of every shape; `JSONSchemaProps` refers to itself.
fn types() -> Types {
    let mut types = Types::default();
    let mut plain = |shape| types.add(Node { name: None, shape });
    let string = plain(Shape::String);
    let boolean = plain(Shape::Boolean);
    let int32 = plain(Shape::Integer(crate::schema::Width::W32));
    let int64 = plain(Shape::Integer(crate::schema::Width::W64));
    let double = plain(Shape::Number);
    let int_or_string = plain(Shape::IntOrString);
    let quantity = plain(Shape::Quantity);
    let time = plain(Shape::Time);
    let micro_time = plain(Shape::MicroTime);
    let duration = plain(Shape::Duration);
    let bytes = plain(Shape::Bytes);
    let raw = plain(Shape::Any(Embedding::Raw));
    let list = |items| Shape::List { items, merge: ListMerge::Atomic };
    let map = |values| Shape::Map { values, atomic: false };
    let strings = plain(list(string));
    let longs = plain(list(int64));
    let string_map = plain(map(string));
    let quantities = plain(map(quantity));
    let extra = plain(map(strings));
    let inner = object(
        &mut types,
        "Inner",
        vec![field("name", string, Omit::Zero, 1, [0, 0]), field("count", int32, Omit::Missing, 2, [0, 0])],
    );
    let inners = types.add(Node { name: None, shape: list(inner) });
    // The schema is the next node but three, so that it can be referred to before it is there.
    let schema = TypeId(u32::try_from(types.nodes.len()).unwrap() + 4);
    let or_bool =
        types.add(Node { name: None, shape: Shape::SchemaOr { schema, instead: Instead::Boolean } });
    let or_list = types.add(Node { name: None, shape: Shape::SchemaOr { schema, instead: Instead::List } });
    let or_texts = types.add(Node { name: None, shape: Shape::SchemaOr { schema, instead: Instead::Texts } });
    let dependencies = types.add(Node { name: None, shape: map(or_texts) });
    let made = object(
        &mut types,
        "JSONSchemaProps",
        vec![
            field("type", string, Omit::Zero, 5, [0, 0]),
            field("items", or_list, Omit::Missing, 24, [0, 0]),
            field("not", schema, Omit::Missing, 28, [0, 0]),
            field("additionalProperties", or_bool, Omit::Missing, 30, [0, 0]),
            field("dependencies", dependencies, Omit::Zero, 32, [0, 0]),
        ],
    );
    assert_eq!(made, schema);
    object(
        &mut types,
        "Everything",
        vec![
            field("text", string, Omit::Zero, 1, [0, 0]),
            field("always", string, Omit::Never, 2, [0, 0]),
            field("pointer", string, Omit::Missing, 3, [0, 0]),
            field("flag", boolean, Omit::Zero, 4, [0, 0]),
            field("small", int32, Omit::Zero, 5, [0, 0]),
            field("large", int64, Omit::Missing, 6, [0, 0]),
            field("fraction", double, Omit::Missing, 7, [0, 0]),
            field("port", int_or_string, Omit::Missing, 8, [0, 0]),
            field("cpu", quantity, Omit::Missing, 9, [0, 0]),
            field("at", time, Omit::Zero, 10, [0, 0]),
            field("exactly", micro_time, Omit::Missing, 11, [0, 0]),
            field("period", duration, Omit::Missing, 12, [0, 0]),
            field("data", bytes, Omit::Zero, 13, [0, 0]),
            field("free", raw, Omit::Missing, 14, [0, 0]),
            field("names", strings, Omit::Zero, 15, [0, 0]),
            field("numbers", longs, Omit::Zero, 16, [0, 0]),
            field("labels", string_map, Omit::Zero, 17, [0, 0]),
            field("limits", quantities, Omit::Zero, 18, [0, 0]),
            field("extra", extra, Omit::Zero, 19, [0, 0]),
            field("inners", inners, Omit::Zero, 20, [0, 0]),
            field("inner", inner, Omit::Zero, 21, [0, 0]),
            field("schema", schema, Omit::Missing, 22, [0, 0]),
            // Inline in JSON, a message in protobuf, and another one inside it.
            field("hostPath", string, Omit::Missing, 1, [200, 0]),
            field("emptyDir", inner, Omit::Missing, 2, [200, 0]),
            field("rule", string, Omit::Zero, 3, [200, 7]),
        ],
    );
    types
}

fn kind() -> Gvk {
    Gvk::new("example.com", "v1", "Everything")
}

fn read(types: &Types, bytes: &[u8]) -> Result<Value, DecodeError> {
    decode(bytes, &kind(), &|gvk: &Gvk| types.named(&gvk.kind))
}

fn everything(types: &Types) -> TypeRef<'_> {
    types.named("Everything").unwrap()
}

#[test]
fn every_shape_survives_the_way_there_and_back() {
    let types = types();
    let value = json!({
        "apiVersion": "example.com/v1", "kind": "Everything",
        "text": "a", "always": "", "pointer": "", "flag": true, "small": -5, "large": i64::MIN,
        "fraction": 2.5, "port": "http", "cpu": "100m", "at": "2026-11-16T05:50:59Z",
        "exactly": "2026-11-16T05:50:59.123456Z", "period": "1h0m0s", "data": "aGVsbG8=",
        "free": {"a": [1, null, {"b": "c"}]}, "names": ["x", ""], "numbers": [0, -1, 300],
        "labels": {"a": "1", "b": ""}, "limits": {"cpu": "1"}, "extra": {"scopes": ["a", "b"], "none": []},
        "inners": [{}, {"name": "n", "count": 0}], "inner": {"count": 7},
        "schema": {"type": "object", "items": [{"type": "a"}, {}], "additionalProperties": false,
                   "not": {"items": {"type": "b"}, "additionalProperties": {"type": "c"}},
                   "dependencies": {"x": ["y"], "z": {"type": "d"}}},
        "hostPath": "/x", "emptyDir": {}, "rule": "r",
    });
    let bytes = encode(&value, everything(&types));
    assert_eq!(read(&types, &bytes).unwrap(), value);
}

#[test]
fn what_go_always_writes_is_written_and_left_out_again() {
    let types = types();
    let bytes = encode_message(&json!({}), everything(&types));
    let mut expected = Vec::new();
    put_bytes(&mut expected, 1, b"");
    put_bytes(&mut expected, 2, b"");
    put_number(&mut expected, 4, 0);
    put_number(&mut expected, 5, 0);
    put_bytes(&mut expected, 10, b"");
    put_message(&mut expected, 21, |out| put_bytes(out, 1, b""));
    put_message(&mut expected, 200, |out| put_message(out, 7, |out| put_bytes(out, 3, b"")));
    assert_eq!(bytes, expected);
    let decoded = read(&types, &enveloped("", "", &bytes)).unwrap();
    assert_eq!(
        decoded,
        json!({"apiVersion": "example.com/v1", "kind": "Everything", "always": "", "inner": {}})
    );
}

#[test]
fn packed_numbers_repeated_messages_and_unknown_fields_are_understood() {
    let types = types();
    let mut message = Vec::new();
    put_bytes(&mut message, 16, &[1, 0xac, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
    put_message(&mut message, 21, |out| put_bytes(out, 1, b"first"));
    put_message(&mut message, 21, |out| put_number(out, 2, 3));
    put_number(&mut message, 999, 1);
    // A group with a field in it.
    message.extend_from_slice(&[0xa3, 0x3f, 0x08, 0x01, 0xa4, 0x3f]);
    put_message(&mut message, 17, |out| put_bytes(out, 1, b"only-key"));
    put_message(&mut message, 14, |out| {
        put_bytes(out, 1, &encode(&json!({"kind": "Inner", "name": "n"}), types.named("Inner").unwrap()));
    });
    let decoded = read(&types, &enveloped("v2", "Everything", &message)).unwrap();
    assert_eq!(
        decoded,
        json!({"apiVersion": "v2", "kind": "Everything", "numbers": [1, 300, -1], "inner": {"name": "first", "count": 3},
               "labels": {"only-key": ""}, "free": {"apiVersion": "", "kind": "Inner", "name": "n"}})
    );
}

#[test]
fn failures_have_the_words_of_the_real_server() {
    let types = types();
    let words = |bytes: &[u8]| read(&types, bytes).unwrap_err().status("Everything", bytes).message;
    assert_eq!(
        words(b""),
        "the object provided is unrecognized (must be of type Everything): empty data (<empty>)"
    );
    assert_eq!(
        words(b"abc"),
        "the object provided is unrecognized (must be of type Everything): provided data does not appear to be a \
         protobuf message, expected prefix [107 56 115 0] (616263)"
    );
    assert_eq!(
        words(b"k8s\0\x0a\xff"),
        "the object provided is unrecognized (must be of type Everything): unexpected EOF (6b3873000aff)"
    );
    assert_eq!(
        words(b"k8s\0\x0a\x05\x12\x03abc"),
        "abc in version \"v1\" cannot be handled as a Everything: no kind \"abc\" is registered for version \
         \"example.com/v1\" in scheme \"pkg/runtime/scheme.go:111\""
    );
    assert_eq!(
        words(b"k8s\0\x12\x02\x08\x03"),
        "Everything in version \"v1\" cannot be handled as a Everything: proto: wrong wireType = 0 for field Text"
    );
}

#[test]
fn deep_nesting_is_refused() {
    let types = types();
    let mut schema = Vec::new();
    for _ in 0..20_000 {
        let mut outer = Vec::new();
        put_bytes(&mut outer, 28, &schema);
        schema = outer;
    }
    let mut message = Vec::new();
    put_bytes(&mut message, 22, &schema);
    assert_eq!(read(&types, &enveloped("", "", &message)).unwrap_err().problem, Problem::TooDeep);
    let mut message = Vec::new();
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    put_message(&mut message, 14, |out| put_bytes(out, 1, deep.as_bytes()));
    assert_eq!(read(&types, &enveloped("", "", &message)).unwrap_err().problem, Problem::TooDeep);
}

#[test]
fn a_watch_event_is_a_frame_with_a_whole_body() {
    assert_eq!(
        watch_event("ADDED", b"k8s\0body"),
        b"\0\0\0\x13\x0a\x05ADDED\x12\x0a\x0a\x08k8s\0body".to_vec()
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let types = types();
        drop(read(&types, &bytes));
        let _either = read(&types, &enveloped("", "", &bytes));
    }

    #[test]
    fn damaged_bodies_are_read_or_refused(place in 0_usize..400, byte in any::<u8>(), cut in 0_usize..400) {
        let types = types();
        let value = json!({"text": "a", "free": {"a": 1}, "labels": {"a": "b"}, "port": 3, "numbers": [1, 2],
                           "schema": {"items": {"type": "x"}}, "limits": {"cpu": "1"}, "hostPath": "p"});
        let mut bytes = encode(&value, everything(&types));
        let length = bytes.len();
        bytes[place % length] = byte;
        bytes.truncate(length.saturating_sub(cut % 7));
        let _either = read(&types, &bytes);
    }

    #[test]
    fn numbers_and_texts_round_trip(small in any::<i32>(), large in any::<i64>(), text in ".*", list in proptest::collection::vec(any::<i64>(), 1..20), seconds in -62_000_000_000_i64..250_000_000_000) {
        let types = types();
        let at = crate::clock::seconds(jiff::Timestamp::from_second(seconds).unwrap());
        let value = json!({"apiVersion": "example.com/v1", "kind": "Everything", "always": text, "pointer": text,
            "small": small, "large": large, "numbers": list, "inner": {}, "at": at, "labels": {text.clone(): text}});
        let mut expected = value.clone();
        if small == 0 {
            expected.as_object_mut().unwrap().remove("small");
        }
        prop_assert_eq!(read(&types, &encode(&value, everything(&types))).unwrap(), expected);
    }
}

/// Pairs of lines: an object as JSON, and the same as protobuf in base64, both as the real server gave them.
#[test]
fn bytes_are_those_of_the_real_server() {
    use base64::Engine as _;
    let lines: Vec<&str> = include_str!("golden.txt").lines().collect();
    assert_eq!(lines.len(), 14);
    for pair in lines.chunks(2) {
        let object: Value = serde_json::from_str(pair[0]).unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(pair[1]).unwrap();
        let of = |gvk: &Gvk| crate::schema::builtin::kind_of(gvk);
        assert_eq!(decode(&bytes, &Gvk::new("", "", ""), &of).unwrap(), object);
        let version = object["apiVersion"].as_str().unwrap();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let gvk = Gvk::new(group, version, object["kind"].as_str().unwrap());
        assert_eq!(encode(&object, of(&gvk).unwrap()), bytes, "{}", object["kind"]);
    }
}
