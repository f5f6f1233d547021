//! Byte for byte what `numpy.save` of NumPy 2.4 writes, and what it reads.

mod common;

use common::file;
use half::f16;
use layernorm_npy::{Array, Data, Order, to_writer};

/// A file as `numpy.save` writes it: `dictionary`, padded to `length` bytes of preamble, then `data`.
fn saved(length: usize, dictionary: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(((length - 10) as u16).to_le_bytes());
    bytes.extend(format!("{dictionary:<width$}\n", width = length - 11).as_bytes());
    bytes.extend(data);
    bytes
}

/// Checks that `bytes` is read as `array` and `array` is written as `bytes`.
fn same(bytes: &[u8], array: &Array) {
    assert_eq!(&Array::from_bytes(bytes).unwrap(), array);
    let mut written = Vec::new();
    array.to_writer(&mut written).unwrap();
    assert_eq!(written.escape_ascii().to_string(), bytes.escape_ascii().to_string());
}

/// `numpy.save(f, numpy.arange(6, dtype='<f4').reshape(2, 3))`, the whole file.
#[test]
fn float32_matrix_to_the_byte() {
    let bytes = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\
        \x20                                                         \n\
        \x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80@\x00\x00\xa0@";
    assert_eq!(bytes.len(), 152);
    let values = vec![0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0];
    same(bytes, &Array::new([2, 3], values.clone()).unwrap());

    let mut written = Vec::new();
    to_writer(&mut written, &[2, 3], &values).unwrap();
    assert_eq!(written, bytes);
}

/// `numpy.array(1.5, dtype='<f2')`: no dimension, so no room to grow.
#[test]
fn float16_scalar() {
    let bytes = saved(128, "{'descr': '<f2', 'fortran_order': False, 'shape': (), }", b"\x00>");
    same(&bytes, &Array::new([], vec![f16::from_f32(1.5)]).unwrap());
}

/// `numpy.zeros((0,), '<f8')` and `numpy.zeros((4, 0, 2), '<i8')`.
#[test]
fn empty() {
    let bytes = saved(128, "{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }", b"");
    same(&bytes, &Array::new([0], Vec::<f64>::new()).unwrap());
    let bytes = saved(128, "{'descr': '<i8', 'fortran_order': False, 'shape': (4, 0, 2), }", b"");
    same(&bytes, &Array::new([4, 0, 2], Vec::<i64>::new()).unwrap());
}

/// `numpy.arange(3, dtype='u1')`.
#[test]
fn uint8_has_no_byte_order() {
    let bytes = saved(128, "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", &[0, 1, 2]);
    same(&bytes, &Array::new([3], vec![0_u8, 1, 2]).unwrap());
}

/// `numpy.asfortranarray(numpy.arange(6, dtype='<i4').reshape(2, 3))`.
#[test]
fn fortran_order_is_kept() {
    let bytes = saved(
        128,
        "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }",
        b"\x00\x00\x00\x00\x03\x00\x00\x00\x01\x00\x00\x00\x04\x00\x00\x00\x02\x00\x00\x00\x05\x00\x00\x00",
    );
    let data = Data::I32(vec![0, 3, 1, 4, 2, 5]);
    let array = Array::from_data([2, 3], Order::Fortran, data).unwrap();
    assert_eq!(array.strides(), [1, 2]);
    same(&bytes, &array);
}

/// NumPy calls an array C-ordered where both orders are the same.
#[test]
fn fortran_order_that_makes_no_difference_is_written_as_c() {
    for shape in [vec![], vec![2], vec![1, 2, 1], vec![3, 0, 2]] {
        let values = vec![7_u8; shape.iter().product()];
        let mut fortran = Vec::new();
        let array = Array::from_data(&shape[..], Order::Fortran, Data::U8(values.clone()));
        array.unwrap().to_writer(&mut fortran).unwrap();
        let mut c = Vec::new();
        to_writer(&mut c, &shape, &values).unwrap();
        assert_eq!(fortran, c, "{shape:?}");
    }
}

/// The length of the preamble that NumPy 2.4 writes for `numpy.zeros((1,) * n, 'u1')`. With 36 dimensions the text
/// ends on the boundary by itself, and NumPy adds 64 bytes anyway.
#[test]
fn padding() {
    for dimensions in 0..=64 {
        let expected = match dimensions {
            0..15 => 128,
            15..36 => 192,
            36..58 => 256,
            _ => 320,
        };
        let mut bytes = Vec::new();
        to_writer(&mut bytes, &vec![1; dimensions], &[0_u8]).unwrap();
        assert_eq!(bytes.len() - 1, expected, "{dimensions} dimensions");
    }
}

/// `numpy.arange(3, dtype='>f8')`, and one of every other type.
#[test]
fn big_endian() {
    let dictionary = |descr| format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1,), }}");
    let read = |descr, data: &[u8]| Array::from_bytes(&saved(128, &dictionary(descr), data)).unwrap();

    let bytes = saved(
        128,
        "{'descr': '>f8', 'fortran_order': False, 'shape': (3,), }",
        b"\x00\x00\x00\x00\x00\x00\x00\x00?\xf0\x00\x00\x00\x00\x00\x00@\x00\x00\x00\x00\x00\x00\x00",
    );
    assert_eq!(Array::from_bytes(&bytes).unwrap().as_slice::<f64>().unwrap(), [0.0, 1.0, 2.0]);

    assert_eq!(read(">f2", b"\x3e\x00").data(), &Data::F16(vec![f16::from_f32(1.5)]));
    assert_eq!(read(">f4", b"\x3f\xc0\x00\x00").data(), &Data::F32(vec![1.5]));
    assert_eq!(read(">i4", b"\xff\xff\xff\xfe").data(), &Data::I32(vec![-2]));
    assert_eq!(read(">i8", b"\0\0\0\0\0\0\x01\0").data(), &Data::I64(vec![256]));
    assert_eq!(read(">u1", b"\x07").data(), &Data::U8(vec![7]));
}

/// `=`, `|` and no mark mean the machine's own byte order, as in `numpy.dtype`.
#[test]
fn native_order() {
    for descr in ["=i4", "|i4", "i4", "int32"] {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1,)}}");
        let bytes = file(1, header.as_bytes(), &(-5_i32).to_ne_bytes());
        assert_eq!(Array::from_bytes(&bytes).unwrap().as_slice::<i32>().unwrap(), [-5], "{descr}");
    }
}

/// Each of these is read by `numpy.load`.
#[test]
fn spellings_that_numpy_permits() {
    let headers: [&[u8]; 8] = [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
        b"{\"shape\":(2,3,),\"descr\":\"<f4\",\"fortran_order\":False}",
        b"{'fortran_order' : False ,'shape' :( 2 ,\t3 , ) , 'descr': '<f4'}",
        b"{'descr': u'<f4', u'fortran_order': False, 'shape': (2, 3), }",
        b"  {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n",
        b"{'descr': '<f4', 'fortran_order': False,\r\n 'shape': (2,\n3),\n\n}\n\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }    \x0c",
    ];
    let expected = Array::new([2, 3], vec![0.0_f32; 6]).unwrap();
    for (header, major) in headers.iter().flat_map(|h| [(h, 1), (h, 2), (h, 3)]) {
        let array = Array::from_bytes(&file(major, header, &[0; 24]));
        assert_eq!(array.unwrap(), expected, "{major}: {}", header.escape_ascii());
    }
}

/// Python 2 wrote long numbers with an `L`; it never wrote files of version 3.0.
#[test]
fn python_2_numbers() {
    let header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 3L), }";
    for major in [1, 2] {
        let array = Array::from_bytes(&file(major, header, &[0; 6])).unwrap();
        assert_eq!(array.shape(), [2, 3]);
    }
    assert!(Array::from_bytes(&file(3, header, &[0; 6])).is_err());
}
