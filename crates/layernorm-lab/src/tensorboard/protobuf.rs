//! The few protobuf messages of event files. Field numbers are those of TensorBoard's event.proto, summary.proto,
//! tensor.proto and hparams/plugin_data.proto.

/// A message under construction. As in proto3, fields with their default are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Message(Vec<u8>);

impl Message {
    fn key(&mut self, field: u64, wire: u64) {
        self.varint(field << 3 | wire);
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(super) fn int(mut self, field: u64, number: u64) -> Message {
        if number != 0 {
            self.key(field, 0);
            self.varint(number);
        }
        self
    }

    /// A number that is written even if it is 0.
    pub(super) fn double(mut self, field: u64, number: f64) -> Message {
        self.key(field, 1);
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// Bytes, text or a message that are written even if they are empty.
    pub(super) fn bytes(mut self, field: u64, bytes: impl AsRef<[u8]>) -> Message {
        self.key(field, 2);
        self.varint(bytes.as_ref().len() as u64);
        self.0.extend_from_slice(bytes.as_ref());
        self
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// What an event says.
pub(super) enum What<'a> {
    /// The version of the format; the first event of every file.
    Version,
    /// Values at the event's step, encoded by [`summary`].
    Summary(&'a [u8]),
    /// A session starts: what earlier files of the folder say about this step and later ones is obsolete.
    Start,
}

/// An event, encoded.
pub(super) fn event(seconds: f64, step: u64, what: &What<'_>) -> Vec<u8> {
    let event = Message::default().double(1, seconds).int(2, step);
    match what {
        What::Version => event.bytes(3, "brain.Event:2"),
        What::Summary(summary) => event.bytes(5, summary),
        // SessionLog.status = START.
        What::Start => event.bytes(7, Message::default().int(1, 1)),
    }
    .into_bytes()
}

/// The shape of a tensor.
fn shape(sizes: &[u64]) -> Message {
    let size = |shape: Message, &size: &u64| shape.bytes(2, Message::default().int(1, size));
    sizes.iter().fold(Message::default(), size)
}

/// Types of tensors.
const FLOAT: u64 = 1;
const DOUBLE: u64 = 2;
const STRING: u64 = 7;

/// A scalar. TensorBoard's are f32.
pub(super) fn scalar(number: f64) -> Message {
    Message::default().int(1, FLOAT).bytes(2, shape(&[])).bytes(5, (number as f32).to_le_bytes())
}

/// A tensor `[N, 3]`.
pub(super) fn rows(rows: &[[f64; 3]]) -> Message {
    let bytes: Vec<u8> = rows.iter().flatten().flat_map(|number| number.to_le_bytes()).collect();
    Message::default().int(1, DOUBLE).bytes(2, shape(&[rows.len() as u64, 3])).bytes(4, bytes)
}

/// A scalar of type string.
pub(super) fn string(text: &str) -> Message {
    Message::default().int(1, STRING).bytes(2, shape(&[])).bytes(8, text)
}

/// A vector of strings.
pub(super) fn strings(list: &[&[u8]]) -> Message {
    let tensor = Message::default().int(1, STRING).bytes(2, shape(&[list.len() as u64]));
    list.iter().fold(tensor, |tensor, text| tensor.bytes(8, text))
}

/// An empty vector, where only the plugin's own data count.
pub(super) fn nothing() -> Message {
    Message::default().int(1, FLOAT).bytes(2, shape(&[0]))
}

/// `Summary.Value`: a tensor for one of TensorBoard's plugins, with data of its own if it takes some.
pub(super) fn value(tag: &str, plugin: &str, content: Option<&Message>, tensor: &Message) -> Message {
    let mut data = Message::default().bytes(1, plugin);
    if let Some(content) = content {
        data = data.bytes(2, content);
    }
    Message::default().bytes(1, tag).bytes(8, tensor).bytes(9, Message::default().bytes(1, data))
}

/// `Summary`: all values of an event.
pub(super) fn summary(values: &[Message]) -> Vec<u8> {
    values.iter().fold(Message::default(), |summary, value| summary.bytes(1, value)).into_bytes()
}

/// A field as it is read.
enum Field<'a> {
    Int(u64),
    Bytes(&'a [u8]),
    Other,
}

/// Takes the first `count` bytes.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn read_field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let key = read_varint(bytes)?;
    let field = match key & 7 {
        0 => Field::Int(read_varint(bytes)?),
        1 => take(bytes, 8).map(|_| Field::Other)?,
        2 => {
            let length = usize::try_from(read_varint(bytes)?).ok()?;
            Field::Bytes(take(bytes, length)?)
        }
        5 => take(bytes, 4).map(|_| Field::Other)?,
        _ => return None,
    };
    Some((key >> 3, field))
}

/// What was read of an event.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Read<'a> {
    pub(super) step: u64,
    /// Its values, encoded, if it has some.
    pub(super) summary: Option<&'a [u8]>,
    /// Whether it starts a session.
    pub(super) start: bool,
}

/// Reads an event; `None` if it is none.
pub(super) fn read_event(mut bytes: &[u8]) -> Option<Read<'_>> {
    let mut event = Read::default();
    while !bytes.is_empty() {
        match read_field(&mut bytes)? {
            (2, Field::Int(step)) => event.step = step,
            (5, Field::Bytes(summary)) => event.summary = Some(summary),
            (7, Field::Bytes(log)) => event.start = log == Message::default().int(1, 1).0,
            _ => {}
        }
    }
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(step: u64, value: Message) -> Vec<u8> {
        event(1.5, step, &What::Summary(&summary(&[value])))
    }

    /// What TensorBoard 2.21 and protobuf 7.36 write for the same values.
    #[test]
    fn messages_are_those_of_tensorboard() {
        const HEAD: &[u8] = b"\t\x00\x00\x00\x00\x00\x00\xf8?\x10\x03*";
        let known = |rest: &[u8]| [HEAD, rest].concat();
        let expected = known(b"\x20\n\x1e\n\x03a/bB\n\x08\x01\x12\x00*\x04\x00\x00\x00?J\x0b\n\t\n\x07scalars");
        assert_eq!(one(3, value("a/b", "scalars", None, &scalar(0.5))), expected);
        let expected = known(
            b"=\n;\n\x01hB&\x08\x02\x12\x08\x12\x02\x08\x01\x12\x02\x08\x03\"\x18\x00\x00\x00\x00\x00\x00\x00\x00\x00\
              \x00\x00\x00\x00\x00\xf0?\x00\x00\x00\x00\x00\x00\x00@J\x0e\n\x0c\n\nhistograms",
        );
        assert_eq!(one(3, value("h", "histograms", None, &rows(&[[0.0, 1.0, 2.0]]))), expected);
        let expected =
            known(b"$\n\"\n\x01iB\x11\x08\x07\x12\x04\x12\x02\x08\x03B\x012B\x011B\x01PJ\n\n\x08\n\x06images");
        assert_eq!(one(3, value("i", "images", None, &strings(&[b"2", b"1", b"P"]))), expected);
        let expected = known(b"\x18\n\x16\n\x01tB\x07\x08\x07\x12\x00B\x01xJ\x08\n\x06\n\x04text");
        assert_eq!(one(3, value("t", "text", None, &string("x"))), expected);
        assert_eq!(event(1.5, 0, &What::Version), b"\t\x00\x00\x00\x00\x00\x00\xf8?\x1a\rbrain.Event:2");
        assert_eq!(event(1.5, 3, &What::Start), b"\t\x00\x00\x00\x00\x00\x00\xf8?\x10\x03:\x02\x08\x01");
    }

    #[test]
    fn events_are_read_back() {
        let values = summary(&[value("a", "scalars", None, &scalar(1.0))]);
        let bytes = event(1e9, 1 << 40, &What::Summary(&values));
        assert_eq!(read_event(&bytes), Some(Read { step: 1 << 40, summary: Some(&values), start: false }));
        let start = event(1e9, 300, &What::Start);
        assert_eq!(read_event(&start), Some(Read { step: 300, summary: None, start: true }));
        for end in 1..bytes.len() {
            // Any prefix is read or refused; none is taken for the whole.
            assert_ne!(read_event(&bytes[..end]).and_then(|event| event.summary), Some(&values[..]), "{end}");
        }
        assert_eq!(read_event(&[0xff; 20]), None);
    }
}
