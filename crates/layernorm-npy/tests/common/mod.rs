//! Shared by the tests.

/// A file of the given version with this header, unpadded, and this data.
pub(crate) fn file(major: u8, header: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([major, 0]);
    if major == 1 {
        bytes.extend((header.len() as u16).to_le_bytes());
    } else {
        bytes.extend((header.len() as u32).to_le_bytes());
    }
    bytes.extend(header);
    bytes.extend(data);
    bytes
}
