//! The two arithmetic types, with the kernels of this crate. The kernels are compiled only here, however many crates
//! call them.

use crate::math::{Constants, Function, Map};
use crate::matmul::Matmul;
use crate::pointwise::sums::ColumnSum;
use crate::pointwise::{gru, lstm, rnn};
use layernorm::parts::{MachineIsa, dispatch};

/// Defines one method per kernel. The kernel's pointers must be valid for every access that it makes.
macro_rules! kernels {
    ($($name:ident: $kernel:ident $(:: $part:ident)?;)*) => {
        /// Arithmetic type: f32 or f64.
        #[allow(private_interfaces, reason = "the kernels are private to this crate")]
        #[allow(clippy::missing_safety_doc, reason = "stated above, for all kernels")]
        pub trait Real: Constants {
            #[doc(hidden)]
            fn map(isa: MachineIsa, function: Function, values: &mut [Self]);
            $(
                #[doc(hidden)]
                unsafe fn $name(isa: MachineIsa, kernel: $kernel $(:: $part)? <Self>);
            )*
        }

        kernels!(@ f32: $($name: $kernel $(:: $part)?;)*);
        kernels!(@ f64: $($name: $kernel $(:: $part)?;)*);
    };
    (@ $t:ty: $($name:ident: $kernel:ident $(:: $part:ident)?;)*) => {
        #[allow(private_interfaces, reason = "the kernels are private to this crate")]
        impl Real for $t {
            fn map(isa: MachineIsa, function: Function, values: &mut [$t]) {
                // SAFETY: the kernel has a slice and no pointers.
                unsafe { dispatch(isa, Map { function, values }) };
            }
            $(
                unsafe fn $name(isa: MachineIsa, kernel: $kernel $(:: $part)? <$t>) {
                    // SAFETY: guaranteed by the caller.
                    unsafe { dispatch(isa, kernel) };
                }
            )*
        }
    };
}

kernels! {
    lstm_gates: lstm::Gates;
    lstm_late_gate: lstm::LateGate;
    lstm_show: lstm::Show;
    lstm_show_back: lstm::ShowBack;
    lstm_gates_back: lstm::GatesBack;
    gru_gates: gru::Gates;
    gru_mix: gru::Mix;
    gru_mix_back: gru::MixBack;
    gru_reset_back: gru::ResetBack;
    rnn_activate: rnn::Activate;
    rnn_activate_back: rnn::ActivateBack;
    column_sum: ColumnSum;
    matmul: Matmul;
}
