//! Groups of columns: the arrays with which a statement receives many rows.

/// A group of columns: its fields, and their names in the statement.
macro_rules! arrays {
    ($(#[$doc:meta])* $group:ident { $($field:ident: $name:literal, $kind:ty;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(super) struct $group<'a> {
            $($field: Vec<$kind>,)*
            lifetime: std::marker::PhantomData<&'a ()>,
        }

        impl $group<'_> {
            pub(super) fn params(&self) -> impl Iterator<Item = $crate::postgres::queries::Param<'_>> {
                [$($crate::postgres::queries::param($name, &self.$field),)*].into_iter()
            }
        }
    };
}

pub(super) use arrays;
