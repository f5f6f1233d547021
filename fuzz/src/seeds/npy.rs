//! `.npy` files of each type, order and version.

fn file(version: u8, descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
    let fixed = if version == 1 { 10 } else { 12 };
    header += &" ".repeat(63 - (fixed + header.len()) % 64);
    header.push('\n');
    let length = (header.len() as u32).to_le_bytes();
    let length = if version == 1 { &length[..2] } else { &length[..] };
    [b"\x93NUMPY", &[version, 0][..], length, header.as_bytes(), data].concat()
}

/// Returns all seeds.
pub fn all() -> Vec<(String, Vec<u8>)> {
    let numbers: Vec<u8> = (0..48).collect();
    vec![
        ("f2".into(), file(1, "<f2", false, "(2, 3)", &numbers[..12])),
        ("f4".into(), file(1, "<f4", false, "(2, 3)", &numbers[..24])),
        ("f8-fortran".into(), file(1, "<f8", true, "(2, 3)", &numbers)),
        ("f4-big-endian".into(), file(1, ">f4", false, "(6,)", &numbers[..24])),
        ("i8".into(), file(1, "<i8", false, "(3, 2, 1)", &numbers)),
        ("u1".into(), file(1, "|u1", false, "(4, 12)", &numbers)),
        ("scalar".into(), file(1, "<f8", false, "()", &numbers[..8])),
        ("empty".into(), file(1, "<f4", false, "(5, 0)", &[])),
        ("version-2".into(), file(2, "<f4", false, "(6,)", &numbers[..24])),
        ("version-3".into(), file(3, "<f8", true, "(1, 6)", &numbers)),
        // 100 bytes that declare 2²⁹ rows.
        ("many-rows-of-nothing".into(), file(1, "<f4", false, "(536870912, 0)", &[])),
    ]
}
