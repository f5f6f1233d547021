//! The datasets that can be downloaded, with their URLs.

/// A dataset that can be downloaded.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name on the command line.
    pub name: &'static str,
    /// Authors and licence.
    pub licence: &'static str,
    /// URLs of folders with the files, in order of preference; each ends with `/`.
    pub mirrors: &'static [&'static str],
    /// The files.
    pub files: &'static [Remote],
    /// The [fingerprint](super::Dataset::fingerprint) of the dataset.
    pub fingerprint: &'static str,
}

/// A file that can be downloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its name, on the server and on disk.
    pub name: &'static str,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its SHA-256 in hexadecimal digits.
    pub sha256: &'static str,
}

/// Name of the embedded dataset.
pub const EMBEDDED_NAME: &str = "mnist-12k";

/// Fingerprint of the embedded dataset.
const EMBEDDED_FINGERPRINT: &str = "3fa3f47f5b93062868e9124a642702b4c59948f6835f706ec4562c3263f65205";

/// All datasets that can be downloaded.
pub static SOURCES: [Source; 2] = [MNIST, FASHION_MNIST];

/// 60,000 + 10,000 handwritten digits. The checksums are those of the files with the published MD5 sums: f68b3c2d…,
/// d53e105e…, 9fb629c4…, ec29112d….
pub const MNIST: Source = Source {
    name: "mnist",
    licence: "Yann LeCun, Corinna Cortes and Christopher J.C. Burges, CC BY-SA 3.0",
    mirrors: &["https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"],
    files: &[
        Remote {
            name: "train-images-idx3-ubyte.gz",
            bytes: 9_912_422,
            sha256: "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        },
        Remote {
            name: "train-labels-idx1-ubyte.gz",
            bytes: 28_881,
            sha256: "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        },
        Remote {
            name: "t10k-images-idx3-ubyte.gz",
            bytes: 1_648_877,
            sha256: "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        },
        Remote {
            name: "t10k-labels-idx1-ubyte.gz",
            bytes: 4_542,
            sha256: "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
    ],
    fingerprint: "9d72319f509d8b6e3adf86652f2130a7eabfef74ac355e8b14b104aab12c49f5",
};

/// 60,000 + 10,000 images of clothing. The checksums are those of the files with the published MD5 sums: 8d4fb7e6…,
/// 25c81989…, bef4ecab…, bb300cfd….
pub const FASHION_MNIST: Source = Source {
    name: "fashion-mnist",
    licence: "Zalando SE, MIT",
    // The publisher's bucket does not support HTTPS; the checksums make that safe.
    mirrors: &[
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    ],
    files: &[
        Remote {
            name: "train-images-idx3-ubyte.gz",
            bytes: 26_421_880,
            sha256: "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        },
        Remote {
            name: "train-labels-idx1-ubyte.gz",
            bytes: 29_515,
            sha256: "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        },
        Remote {
            name: "t10k-images-idx3-ubyte.gz",
            bytes: 4_422_102,
            sha256: "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        },
        Remote {
            name: "t10k-labels-idx1-ubyte.gz",
            bytes: 5_148,
            sha256: "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
    ],
    fingerprint: "978eecade04dd16e3fd6742d9b01341519c7a80af5c5b2ec0d3515cca6e72d7d",
};

/// The dataset with this name on the command line.
pub fn find(name: &str) -> Option<&'static Source> {
    SOURCES.iter().find(|source| source.name == name)
}

/// The dataset with this fingerprint.
pub(super) fn name_of(fingerprint: &str) -> Option<&'static str> {
    let known = SOURCES.iter().map(|source| (source.fingerprint, source.name));
    let mut known = known.chain([(EMBEDDED_FINGERPRINT, EMBEDDED_NAME)]);
    known.find(|(of, _)| *of == fingerprint).map(|(_, name)| name)
}
