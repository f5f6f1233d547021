//! Kernel parameter structures are declared twice: in Rust and in CUDA C++. `device_struct!` records where Rust places
//! every field, and appends assertions about it to the kernel source, so a kernel whose structure differs does not
//! compile. `tests/layout.rs` also compares the field names.

use std::fmt::Write;

/// A field: its name in both languages, its offset and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name.
    pub name: &'static str,
    /// Offset in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
}

/// A kernel parameter structure, as Rust lays it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its name in the kernels.
    pub name: &'static str,
    /// Size in bytes.
    pub size: usize,
    /// Its fields, in order.
    pub fields: Vec<Field>,
}

impl Layout {
    /// C++ assertions that the compiler lays it out the same way.
    pub fn assertions(&self) -> String {
        let Layout { name, size, fields } = self;
        let mut out = format!("static_assert(sizeof({name}) == {size}, \"{name}: size differs from the host's\");\n");
        for Field { name: field, offset, size } in fields {
            let _ = writeln!(
                out,
                "static_assert(OFFSET_OF({name}, {field}) == {offset} && sizeof((({name} *)0)->{field}) == {size}, \
                 \"{name}.{field}: offset or size differs from the host's\");"
            );
        }
        out
    }
}

/// Precedes the assertions. NVRTC has no `offsetof`, but it has the intrinsic with which other compilers define it.
pub(crate) const PREAMBLE: &str = "\
#ifndef OFFSET_OF
#ifdef __CUDACC_RTC__
#define OFFSET_OF(type, field) __INTADDR__(&((type *)0)->field)
#else
#define OFFSET_OF(type, field) __builtin_offsetof(type, field)
#endif
#endif
";

/// Implemented by [`device_struct!`].
pub(crate) trait Described {
    /// The layout.
    fn layout() -> Layout;
}

/// Declares a `repr(C)` structure with the layout of `$c` in the kernels. Fields have the same names there. `..field`
/// is a nested structure whose fields stand directly in the kernel's structure.
macro_rules! device_struct {
    (
        $(#[$meta:meta])*
        $visible:vis struct $name:ident $(<$parameter:ident>)? as $c:literal {
            $($field:ident: $type:ty,)*
            $(.. $flat:ident: $flat_type:ty, $($last:ident: $last_type:ty,)*)*
        }
    ) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        $visible struct $name $(<$parameter>)? {
            $($visible $field: $type,)*
            $($visible $flat: $flat_type, $($visible $last: $last_type,)*)*
        }

        impl $(<$parameter>)? $crate::layout::Described for $name $(<$parameter>)? {
            fn layout() -> $crate::layout::Layout {
                #[allow(unused_mut, reason = "not every structure has a nested one")]
                let mut fields = vec![$($crate::layout::Field {
                    name: stringify!($field),
                    offset: std::mem::offset_of!(Self, $field),
                    size: size_of::<$type>(),
                },)*];
                $(
                    fields.extend(<$flat_type as $crate::layout::Described>::layout().fields.into_iter().map(|field| {
                        let offset = std::mem::offset_of!(Self, $flat) + field.offset;
                        $crate::layout::Field { offset, ..field }
                    }));
                    fields.extend([$($crate::layout::Field {
                        name: stringify!($last),
                        offset: std::mem::offset_of!(Self, $last),
                        size: size_of::<$last_type>(),
                    },)*]);
                )*
                $crate::layout::Layout { name: $c, size: size_of::<Self>(), fields }
            }
        }
    };
}
pub(crate) use device_struct;

/// Assertions for a structure that depends on the arithmetic type.
pub(crate) fn either(narrow: &Layout, wide: &Layout) -> String {
    format!("#if ELEM == F64\n{}#else\n{}#endif\n", wide.assertions(), narrow.assertions())
}

/// [`either`] for structures that are generic over the arithmetic type.
macro_rules! by_accumulator {
    ($($name:ident),*) => {
        [$($crate::layout::either(
            &<$name<f32> as $crate::layout::Described>::layout(),
            &<$name<f64> as $crate::layout::Described>::layout(),
        )),*].concat()
    };
}
pub(crate) use by_accumulator;
