//! Structures that a kernel takes, written twice: in Rust, and in CUDA's C++. `device_struct!` knows where Rust puts every field,
//! and says so to the compiler of the kernels, as assertions behind their text: a kernel whose structure is another does not
//! compile. `tests/layout.rs` compares the fields' names as well.

use std::fmt::Write;

/// A field: its name in both languages, its place and its size in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name.
    pub name: &'static str,
    /// Bytes before it.
    pub offset: usize,
    /// Bytes of it.
    pub size: usize,
}

/// A structure that kernels take, as Rust lays it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its name in the kernels.
    pub name: &'static str,
    /// Bytes of it.
    pub size: usize,
    /// Its fields, in order.
    pub fields: Vec<Field>,
}

impl Layout {
    /// Assertions that C++ lays it out so.
    pub fn assertions(&self) -> String {
        let Layout { name, size, fields } = self;
        let mut out = format!("static_assert(sizeof({name}) == {size}, \"{name}: another size than the host's\");\n");
        for Field { name: field, offset, size } in fields {
            let _ = writeln!(
                out,
                "static_assert(OFFSET_OF({name}, {field}) == {offset} && sizeof((({name} *)0)->{field}) == {size}, \
                 \"{name}.{field}: not where the host puts it\");"
            );
        }
        out
    }
}

/// What stands before assertions. NVRTC has no `offsetof`, but what others make it of.
pub(crate) const PREAMBLE: &str = "\
#ifndef OFFSET_OF
#ifdef __CUDACC_RTC__
#define OFFSET_OF(type, field) __INTADDR__(&((type *)0)->field)
#else
#define OFFSET_OF(type, field) __builtin_offsetof(type, field)
#endif
#endif
";

/// What [`device_struct!`] implements.
pub(crate) trait Described {
    /// The layout.
    fn layout() -> Layout;
}

/// Declares a `repr(C)` structure with the layout of `$c` in the kernels. Fields have the same names there; `..field` is one whose
/// fields are the kernels' own, side by side with the others.
macro_rules! device_struct {
    (
        $(#[$meta:meta])*
        $visible:vis struct $name:ident $(<$parameter:ident>)? as $c:literal {
            $($field:ident: $type:ty,)*
            $(.. $flat:ident: $flat_type:ty, $($last:ident: $last_type:ty,)*)?
        }
    ) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        $visible struct $name $(<$parameter>)? {
            $($visible $field: $type,)*
            $($visible $flat: $flat_type, $($visible $last: $last_type,)*)?
        }

        impl $(<$parameter>)? $crate::layout::Described for $name $(<$parameter>)? {
            fn layout() -> $crate::layout::Layout {
                #[allow(unused_mut, reason = "not all have fields of others")]
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
                )?
                $crate::layout::Layout { name: $c, size: size_of::<Self>(), fields }
            }
        }
    };
}
pub(crate) use device_struct;

/// Assertions for a structure that differs with the arithmetic type.
pub(crate) fn either(narrow: &Layout, wide: &Layout) -> String {
    format!("#if ELEM == F64\n{}#else\n{}#endif\n", wide.assertions(), narrow.assertions())
}

/// [`either`] of a structure over its arithmetic type.
macro_rules! by_accumulator {
    ($($name:ident),*) => {
        [$($crate::layout::either(
            &<$name<f32> as $crate::layout::Described>::layout(),
            &<$name<f64> as $crate::layout::Described>::layout(),
        )),*].concat()
    };
}
pub(crate) use by_accumulator;
