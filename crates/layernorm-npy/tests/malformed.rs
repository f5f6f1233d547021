//! Every way in which a file can be malformed, with its error.

mod common;

use common::file;
use half::f16;
use layernorm_npy::{Array, Data, Error, MAX_HEADER_LEN, Order};

const SUPPORTED: &str = "the supported types are float16, float32, float64, int32, int64 and uint8";

fn error(bytes: &[u8]) -> String {
    let from_bytes = Array::from_bytes(bytes).unwrap_err().to_string();
    // How much longer a stream is than requested is not known; everything else is the same.
    let from_reader = Array::from_reader(bytes).unwrap_err().to_string();
    if !from_bytes.contains("after the data") {
        assert_eq!(from_bytes, from_reader);
    }
    from_bytes
}

/// The error of a version 1.0 file with this header and eight bytes of data.
fn header_error(header: &str) -> String {
    error(&file(1, header.as_bytes(), &[0; 8]))
}

/// The error of a header that is valid except for its shape.
fn shape_error(shape: &str) -> String {
    header_error(&format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}"))
}

/// The error of a header that is valid except for its type.
fn descr_error(descr: &str) -> String {
    header_error(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2,), }}"))
}

#[test]
fn before_the_header() {
    assert_eq!(error(b""), "the magic string is truncated: expected 8 bytes, found 0");
    assert_eq!(error(b"\x93NUMP"), "the magic string is truncated: expected 8 bytes, found 5");
    assert_eq!(
        error(b"PK\x03\x04 zipped"),
        "not an .npy file: expected it to begin with \"\\x93NUMPY\", found \"PK\\x03\\x04 z\""
    );
    for (major, minor) in [(0, 0), (1, 1), (2, 3), (4, 0), (255, 255)] {
        let mut bytes = b"\x93NUMPY".to_vec();
        bytes.extend([major, minor, 0, 0, 0, 0]);
        assert_eq!(error(&bytes), format!("expected format version 1.0, 2.0 or 3.0, found {major}.{minor}"));
    }
    assert_eq!(error(b"\x93NUMPY\x01\x00v"), "the length of the header is truncated: expected 2 bytes, found 1");
    assert_eq!(
        error(b"\x93NUMPY\x02\x00v\x00\x00"),
        "the length of the header is truncated: expected 4 bytes, found 3"
    );
}

#[test]
fn header_length() {
    assert_eq!(error(b"\x93NUMPY\x01\x00v\x00{'descr'"), "the header is truncated: expected 118 bytes, found 8");
    assert_eq!(
        error(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}"),
        "the header is too long: expected at most 10000 bytes, found 4294967295"
    );

    let dictionary = "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }";
    let longest = format!("{dictionary:<width$}", width = MAX_HEADER_LEN);
    for major in [1, 2, 3] {
        assert!(Array::from_bytes(&file(major, longest.as_bytes(), &[0])).is_ok());
        assert_eq!(
            error(&file(major, format!("{longest} ").as_bytes(), &[0])),
            "the header is too long: expected at most 10000 bytes, found 10001"
        );
    }
}

/// The message for a header that is malformed at a character.
fn at(offset: usize, expected: &str, found: &str) -> String {
    format!("the header is malformed at character {offset}: expected {expected}, found {found:?}")
}

#[test]
fn dictionary() {
    let unended = "a closed string without escapes";
    for (header, expected) in [
        ("", at(0, "'{'", "")),
        ("  \n", at(3, "'{'", "")),
        ("[1, 2]", at(0, "'{'", "[1, 2]")),
        ("{", at(1, "a key in quotes", "")),
        ("{, }", at(1, "a key in quotes", ", }")),
        ("{descr: 1}", at(1, "a key in quotes", "descr: 1}")),
        ("{'descr", at(1, unended, "'descr")),
        ("{'d\\x65': 1}", at(1, unended, "'d\\x65': 1}")),
        ("{'de\nscr': 1}", at(1, unended, "'de\nscr': 1}")),
        ("{'descr\": 1}", at(1, unended, "'descr\": 1}")),
        ("{'descr' '<f4'}", at(9, "':'", "'<f4'}")),
        ("{'descr': 4}", at(10, "a type in quotes", "4}")),
        ("{'descr': '<f4' 's'}", at(16, "',' or '}'", "'s'}")),
        ("{'descr': '<f4',, }", at(16, "a key in quotes", ", }")),
        ("{'fortran_order': 0}", at(18, "True or False", "0}")),
        ("{'fortran_order': Falsey}", at(18, "True or False", "Falsey}")),
    ] {
        assert_eq!(header_error(header), expected, "{header:?}");
    }
    let whole = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
    for (after, offset, found) in [(" # {", 56, "# {"), ("\0", 55, "\0"), ("}", 55, "}")] {
        assert_eq!(header_error(&format!("{whole}{after}")), at(offset, "nothing after the dictionary", found));
    }
}

#[test]
fn keys() {
    assert_eq!(
        header_error("{'extra': 1, 'descr': '<f4'}"),
        at(1, "the key descr, fortran_order or shape", "'extra': 1, 'descr': '<f")
    );
    assert_eq!(header_error("{'descr': '<f4', 'descr': '<f4'}"), at(17, "each key once", "'descr': '<f4'}"));
    for (header, missing) in [
        ("{}", "descr"),
        ("{'fortran_order': True, 'shape': ()}", "descr"),
        ("{'descr': '<f4', 'shape': (2,), }", "fortran_order"),
        ("{'descr': '<f4', 'fortran_order': True}", "shape"),
    ] {
        assert_eq!(header_error(header), format!("the header has no key '{missing}'"));
    }
}

#[test]
fn text_encodings() {
    // The same byte is a letter in Latin-1 and invalid in UTF-8.
    let header = b"{'\xe9': 1}";
    assert_eq!(
        error(&file(2, header, b"")),
        "the header is malformed at character 1: expected the key descr, fortran_order or shape, found \"'é': 1}\""
    );
    assert_eq!(
        error(&file(3, header, b"")),
        "the header is malformed at character 2: expected UTF-8, found \"byte 0xe9\""
    );
    assert_eq!(
        error(&file(3, "{'é': 1}".as_bytes(), b"")),
        "the header is malformed at character 1: expected the key descr, fortran_order or shape, found \"'é': 1}\""
    );
}

#[test]
fn shapes() {
    let digits = "a length of zero or more in decimal digits";
    for (shape, expected) in [
        ("[2]", at(50, "a tuple of whole numbers", "[2]}")),
        ("2", at(50, "a tuple of whole numbers", "2}")),
        ("(2)", at(52, "','", ")}")),
        ("(,)", at(51, digits, ",)}")),
        ("(2,,)", at(53, digits, ",)}")),
        ("(-1,)", at(51, digits, "-1,)}")),
        ("(True,)", at(51, digits, "True,)}")),
        ("(0x2,)", at(52, "','", "x2,)}")),
        ("(02,)", at(51, digits, "02,)}")),
        ("(2.0,)", at(52, "','", ".0,)}")),
        ("(1, 2 3)", at(56, "',' or ')'", "3)}")),
        ("(2, ", at(54, digits, "}")),
        ("(18446744073709551616,)", at(51, "a length that fits into a machine word", "18446744073709551616,)}")),
    ] {
        assert_eq!(shape_error(shape), expected, "{shape:?}");
    }
}

#[cfg(target_pointer_width = "64")]
#[test]
fn shapes_too_large() {
    assert_eq!(shape_error(&format!("({})", "1,".repeat(65))), "expected at most 64 dimensions, found 65");
    // The bytes must fit, not only the elements, and so must the strides of empty arrays.
    for shape in
        [vec![usize::MAX], vec![1 << 31, 1 << 32], vec![1 << 61], vec![usize::MAX, 0], vec![0, 1 << 32, 1 << 32]]
    {
        let text: String = shape.iter().map(|length| format!("{length},")).collect();
        assert_eq!(
            shape_error(&format!("({text})")),
            format!("shape {shape:?} of float32 has more bytes than can be addressed")
        );
    }
}

#[test]
fn types() {
    for (descr, shown) in [
        ("'|O'", "\"|O\" (Python objects)"),
        ("'|b1'", "\"|b1\" (boolean)"),
        ("'<c8'", "\"<c8\" (complex)"),
        ("'<f16'", "\"<f16\" (float)"),
        ("'<i2'", "\"<i2\" (signed integer)"),
        ("'<u4'", "\"<u4\" (unsigned integer)"),
        ("'|S5'", "\"|S5\" (byte string)"),
        ("'<U1'", "\"<U1\" (string)"),
        ("'<M8[ns]'", "\"<M8[ns]\" (datetime)"),
        ("'<m8'", "\"<m8\" (timedelta)"),
        ("'|V2'", "\"|V2\" (void)"),
        ("''", "\"\""),
        ("'<'", "\"<\""),
        ("'<<f4'", "\"<<f4\" (float)"),
        ("'é4'", "\"Ã©4\""),
        ("[('a', '<f4'), ('b', '<i4')]", "\"[('a', '<f4'), ('b', '<i4')]\" (structured)"),
        ("('<f4', (2,))", "\"('<f4', (2,))\" (structured)"),
        ("[('a]\\'', '<f4')]", "\"[('a]\\\\'', '<f4')]\" (structured)"),
    ] {
        assert_eq!(descr_error(descr), format!("elements of type {shown} are not supported; {SUPPORTED}"), "{descr}");
    }
}

#[test]
fn long_types_are_cut() {
    let Error::UnsupportedDType { descr } =
        Array::from_bytes(&file(1, format!("{{'descr': [{}", "('a', '<f4'), ".repeat(100)).as_bytes(), b""))
            .unwrap_err()
    else {
        panic!("expected an unsupported type");
    };
    assert_eq!(descr.chars().count(), 81);
    assert!(descr.ends_with('…'));
}

#[test]
fn data_length() {
    let header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
    for found in 0..8 {
        assert_eq!(
            error(&file(1, header, &[0; 8][..found])),
            format!("the data is truncated: expected 8 bytes, found {found}")
        );
    }
    let long = file(1, header, &[0; 20]);
    assert_eq!(error(&long), "extra bytes after the data: expected 8 bytes, found at least 20");
    assert_eq!(
        Array::from_reader(&long[..]).unwrap_err().to_string(),
        "extra bytes after the data: expected 8 bytes, found at least 9"
    );
    let empty = b"{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}";
    assert_eq!(error(&file(1, empty, b"\n")), "extra bytes after the data: expected 0 bytes, found at least 1");
    // More than one piece, cut in the middle of an element.
    let header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (100000,)}";
    assert_eq!(
        error(&file(1, header, &vec![0; 700_003])),
        "the data is truncated: expected 800000 bytes, found 700003"
    );
}

/// If memory were allocated for what the header claims, these would abort.
#[cfg(target_pointer_width = "64")]
#[test]
fn claims_take_no_memory() {
    for length in [1_u64 << 40, 1 << 50, (1 << 60) - 1] {
        let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({length},)}}");
        assert_eq!(
            error(&file(1, header.as_bytes(), &[0; 8])),
            format!("the data is truncated: expected {} bytes, found 8", length * 8)
        );
    }
}

#[test]
fn arrays_in_memory() {
    let message = |result: Result<Array, Error>| result.unwrap_err().to_string();
    assert_eq!(message(Array::new([2, 3], vec![0_i64; 5])), "shape [2, 3] has 6 elements, found 5");
    assert_eq!(message(Array::new([], Vec::<u8>::new())), "shape [] has 1 elements, found 0");
    assert_eq!(message(Array::new([1; 65], vec![0_u8])), "expected at most 64 dimensions, found 65");
    assert_eq!(
        message(Array::from_data([usize::MAX, 2], Order::Fortran, Data::U8(vec![]))),
        format!("shape [{}, 2] of uint8 has more bytes than can be addressed", usize::MAX)
    );

    let array = Array::new([1], vec![f16::ONE]).unwrap();
    let error = array.as_slice::<f64>().unwrap_err();
    assert_eq!(error.to_string(), "expected an array of float64, found float16");
    let error = array.into_vec::<u8>().unwrap_err();
    assert_eq!(error.to_string(), "expected an array of uint8, found float16");
}
