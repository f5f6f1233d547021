//! No input makes the reader panic, and every array that it accepts can be written and read again.

use layernorm_npy::{Array, Data, Order};
use proptest::collection::vec;
use proptest::prelude::*;

/// Reads both ways, and checks that an accepted array can be written and read again.
fn read(bytes: &[u8]) -> Result<(), TestCaseError> {
    let from_bytes = Array::from_bytes(bytes);
    let from_reader = Array::from_reader(bytes);
    prop_assert_eq!(from_bytes.is_ok(), from_reader.is_ok());
    let Ok(array) = from_bytes else {
        // Messages contain bytes of the file.
        let _ = from_bytes.unwrap_err().to_string();
        return Ok(());
    };
    prop_assert_eq!(array.shape().iter().product::<usize>(), array.len());
    prop_assert_eq!(array.strides().len(), array.shape().len());

    let mut first = Vec::new();
    array.to_writer(&mut first).unwrap();
    let mut second = Vec::new();
    Array::from_bytes(&first).unwrap().to_writer(&mut second).unwrap();
    prop_assert_eq!(first, second);
    Ok(())
}

/// Bytes with a valid preamble, so that the header is reached.
fn preambled() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop_oneof![
        prop::sample::select(vec![
            "{",
            "}",
            "(",
            ")",
            "[",
            "]",
            ",",
            ":",
            "'",
            "\"",
            "\\",
            " ",
            "\n",
            "L",
            "u",
            "é",
            "'descr'",
            "'fortran_order'",
            "'shape'",
            "'<f4'",
            "'>i8'",
            "'|u1'",
            "'=f2'",
            "True",
            "False",
            "0",
            "1",
            "18446744073709551615",
            "4294967296",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,4}",
        "[0-9]{1,24}",
    ];
    (1..=3_u8, vec(pieces, 0..24), vec(any::<u8>(), 0..32)).prop_map(|(major, pieces, data)| {
        let header = pieces.concat().into_bytes();
        let mut bytes = b"\x93NUMPY".to_vec();
        bytes.extend([major, 0]);
        let length = (header.len() as u32).to_le_bytes();
        bytes.extend(&length[..if major == 1 { 2 } else { 4 }]);
        bytes.extend(header);
        bytes.extend(data);
        bytes
    })
}

/// Well-formed headers with arbitrary values.
fn well_formed() -> impl Strategy<Value = Vec<u8>> {
    let descr = "[<>=|]?([fiu][1248]|[a-zA-Z?][0-9]{0,2})";
    let shape = vec(prop_oneof![0..4_u64, any::<u64>(), Just(1 << 32), Just(u64::MAX)], 0..70);
    (descr, any::<bool>(), shape, vec(any::<u8>(), 0..64)).prop_map(|(descr, fortran, shape, data)| {
        let fortran = if fortran { "True" } else { "False" };
        let shape: String = shape.iter().map(|length| format!("{length},")).collect();
        let header = format!("{{'shape':({shape}),'descr':'{descr}','fortran_order':{fortran}}}");
        let mut bytes = b"\x93NUMPY\x02\x00".to_vec();
        bytes.extend((header.len() as u32).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    })
}

/// A valid file.
fn valid() -> impl Strategy<Value = Vec<u8>> {
    (vec(0..4_usize, 0..4), any::<bool>(), 0..6_u8).prop_map(|(shape, fortran, dtype)| {
        let count = shape.iter().product();
        let data = match dtype {
            0 => Data::F16(vec![half::f16::PI; count]),
            1 => Data::F32(vec![1.25; count]),
            2 => Data::F64(vec![-0.1; count]),
            3 => Data::I32(vec![-3; count]),
            4 => Data::I64(vec![1 << 40; count]),
            _ => Data::U8(vec![200; count]),
        };
        let order = if fortran { Order::Fortran } else { Order::C };
        let mut bytes = Vec::new();
        let array = Array::from_data(shape, order, data).unwrap();
        array.to_writer(&mut bytes).unwrap();
        bytes
    })
}

/// One change to a file.
#[derive(Clone, Debug)]
enum Change {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, u8),
    Remove(prop::sample::Index),
    Cut(prop::sample::Index),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::Set(at, byte) => *at.get_mut(bytes) = *byte,
            Self::Insert(at, byte) => bytes.insert(at.index(bytes.len() + 1), *byte),
            Self::Remove(at) => {
                bytes.remove(at.index(bytes.len()));
            }
            Self::Cut(at) => bytes.truncate(at.index(bytes.len())),
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => (index(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        2 => (index(), any::<u8>()).prop_map(|(at, byte)| Change::Insert(at, byte)),
        2 => index().prop_map(Change::Remove),
        1 => index().prop_map(Change::Cut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        // The same cases every time, so that a new failure comes from a change and not from chance.
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn arbitrary(bytes in vec(any::<u8>(), 0..300)) {
        read(&bytes)?;
    }

    #[test]
    fn arbitrary_headers(bytes in preambled()) {
        read(&bytes)?;
    }

    #[test]
    fn any_values(bytes in well_formed()) {
        read(&bytes)?;
    }

    #[test]
    fn mutated(mut bytes in valid(), changes in vec(change(), 1..4)) {
        for change in &changes {
            change.apply(&mut bytes);
        }
        read(&bytes)?;
    }

    #[test]
    fn unchanged(bytes in valid()) {
        prop_assert!(Array::from_bytes(&bytes).is_ok());
        read(&bytes)?;
    }
}

/// Every truncated file is an error, and so is every extra byte.
#[test]
fn every_prefix() {
    let mut bytes = Vec::new();
    let array = Array::new([2, 3], vec![1.0_f64; 6]).unwrap();
    array.to_writer(&mut bytes).unwrap();
    for length in 0..bytes.len() {
        assert!(Array::from_bytes(&bytes[..length]).is_err(), "{length} bytes");
    }
    assert_eq!(Array::from_bytes(&bytes).unwrap(), array);
    bytes.push(0);
    assert!(Array::from_bytes(&bytes).is_err());
}
