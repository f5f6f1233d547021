//! The extension module of the Python package `layernorm`. It turns addresses into views and calls the library. The public
//! interface, which checks arrays and their types, is in `layernorm/*.py`.

mod cuda;
mod describe;
mod detach;
mod failure;
mod flat;
mod norms;
mod openmp;
mod recurrent;
mod rows;
mod settings;
mod tensor;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use super::cuda::{CudaLayer, cuda_backward, cuda_check, cuda_forward, cuda_lacks, cuda_use_nvrtc, cuda_workspace};
    #[pymodule_export]
    use super::describe::{describe, noise_hits};
    #[pymodule_export]
    use super::norms::{backward, batch_infer, batch_infer_backward, batch_running, forward};
    #[pymodule_export]
    use super::openmp::use_openmp_of;
    #[pymodule_export]
    use super::recurrent::{Recurrent, Tape};
    #[pymodule_export]
    use super::rows::{Saved, rows_backward, rows_forward};
    #[pymodule_export]
    use super::settings::{set_isa, set_num_threads, settings};
}
