//! What is written is read back unchanged, for every type, order and kind of shape.

use std::io::{self, Read};

use half::f16;
use layernorm_npy::{Array, DType, Data, Order, Scalar, read, to_writer};

const SHAPES: [&[usize]; 9] = [
    &[],
    &[0],
    &[1],
    &[7],
    &[2, 3],
    &[3, 0, 2],
    &[2, 1, 3, 1, 5],
    // More than one piece, and not a whole number of them. (Miri would take minutes.)
    if cfg!(miri) { &[17, 19] } else { &[257, 301] },
    &[1; 64],
];

/// Bits that differ in every byte, so that a byte in the wrong place shows.
fn pattern(index: usize) -> u64 {
    (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn round_trip<T: Scalar + PartialEq + std::fmt::Debug>(value: impl Fn(u64) -> T) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("array.npy");
    for shape in SHAPES {
        let values: Vec<T> = (0..shape.iter().product()).map(|i| value(pattern(i))).collect();
        for order in [Order::C, Order::Fortran] {
            let array = Array::from_data(shape, order, T::wrap(values.clone())).unwrap();
            array.write(&path).unwrap();
            let back = read(&path).unwrap();
            assert_eq!((back.shape(), back.dtype()), (shape, T::DTYPE));
            // If both orders are the same, C is read back.
            if shape.iter().filter(|&&length| length != 1).count() > 1 && !shape.contains(&0) {
                assert_eq!(back.order(), order);
                assert_eq!(back.strides(), array.strides());
            }
            assert!(back.as_slice::<T>().unwrap() == values, "{:?} {shape:?} {order:?}", T::DTYPE);
            assert!(back.into_vec::<T>().unwrap() == values);
        }
        layernorm_npy::write(&path, shape, &values).unwrap();
        let back = read(&path).unwrap();
        assert_eq!(back.order(), Order::C);
        assert!(back == Array::new(shape, values).unwrap());
    }
}

#[test]
fn every_type_order_and_shape() {
    // Not the bits of a NaN, which would not equal itself.
    round_trip(|bits| f16::from_bits(bits as u16 & !0x4000));
    round_trip(|bits| f32::from_bits(bits as u32 & !0x4000_0000));
    round_trip(|bits| f64::from_bits(bits & !0x4000_0000_0000_0000));
    round_trip(|bits| bits as i32);
    round_trip(|bits| bits as i64);
    round_trip(|bits| bits as u8);
}

/// NaNs keep their sign and payload, and zeros their sign.
#[test]
fn float_bits_are_kept() {
    let bits = [0x7fc0_0001_u32, 0xffc1_2345, 0x7f80_0000, 0x8000_0000, 1];
    let mut bytes = Vec::new();
    to_writer(&mut bytes, &[5], &bits.map(f32::from_bits)).unwrap();
    let back = Array::from_bytes(&bytes).unwrap().into_vec::<f32>().unwrap();
    assert_eq!(back.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), bits);

    let rows = if cfg!(miri) { 1 } else { 256 };
    let every: Vec<f16> = (0..=u16::MAX).take(rows * 256).map(f16::from_bits).collect();
    let mut bytes = Vec::new();
    to_writer(&mut bytes, &[rows, 256], &every).unwrap();
    let back = Array::from_bytes(&bytes).unwrap().into_vec::<f16>().unwrap();
    assert!(back.iter().map(|value| value.to_bits()).eq((0..=u16::MAX).take(rows * 256)));
}

#[test]
fn strides() {
    let strides = |shape: &[usize], order| {
        let data = Data::U8(vec![0; shape.iter().product()]);
        Array::from_data(shape, order, data).unwrap().strides()
    };
    assert_eq!(strides(&[], Order::C), []);
    assert_eq!(strides(&[], Order::Fortran), []);
    assert_eq!(strides(&[2, 3, 4], Order::C), [12, 4, 1]);
    assert_eq!(strides(&[2, 3, 4], Order::Fortran), [1, 2, 6]);
    assert_eq!(strides(&[4, 0, 2], Order::C), [2, 2, 1]);
    assert_eq!(strides(&[4, 0, 2], Order::Fortran), [1, 4, 4]);
}

#[test]
fn names_and_sizes() {
    let names: Vec<String> = DType::ALL.iter().map(DType::to_string).collect();
    assert_eq!(names, ["float16", "float32", "float64", "int32", "int64", "uint8"]);
    assert_eq!(DType::ALL.map(DType::size), [2, 4, 8, 4, 8, 1]);
    assert_eq!(format!("{:>8}", DType::U8), "   uint8");
    assert_eq!((Data::I32(vec![1, 2]).len(), Data::I32(vec![]).is_empty()), (2, true));
}

/// Returns one byte at a time, and is interrupted before each.
struct Trickle<'a>(&'a [u8], bool);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let most = buffer.len().min(1);
        self.0.read(&mut buffer[..most])
    }
}

#[test]
fn slow_readers() {
    let mut bytes = Vec::new();
    to_writer(&mut bytes, &[3, 2], &[1_i32, -2, 3, -4, 5, -6]).unwrap();
    let array = Array::from_reader(Trickle(&bytes, false)).unwrap();
    assert_eq!(array, Array::from_bytes(&bytes).unwrap());
}

/// Fails after its bytes.
struct Broken<'a>(&'a [u8]);

impl Read for Broken<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::other("line is dead")),
            bytes => Ok(bytes),
        }
    }
}

#[test]
fn broken_readers_and_writers() {
    let mut bytes = Vec::new();
    to_writer(&mut bytes, &[3], &[1_u8, 2, 3]).unwrap();
    for length in 0..=bytes.len() {
        let error = Array::from_reader(Broken(&bytes[..length])).unwrap_err();
        assert_eq!(error.to_string(), "cannot read: line is dead", "after {length} bytes");
    }
    for length in 0..bytes.len() {
        let error = to_writer(&mut vec![0; length][..], &[3], &[1_u8, 2, 3]).unwrap_err();
        assert_eq!(error.to_string(), "cannot write: failed to write whole buffer");
    }
}
