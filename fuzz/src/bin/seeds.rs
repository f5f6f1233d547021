//! Writes the valid files of every format to `seeds`. A second run changes no byte; files with other names are kept.

use std::path::Path;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let seeds = layernorm_fuzz::seeds::all();
    for seed in &seeds {
        let folder = folder.join(seed.format);
        std::fs::create_dir_all(&folder).expect("cannot create the folder of seeds");
        std::fs::write(folder.join(&seed.name), &seed.bytes).expect("cannot write a seed");
    }
    let bytes: usize = seeds.iter().map(|seed| seed.bytes.len()).sum();
    println!("{} files, {bytes} bytes", seeds.len());
}
