//! The two shapes every kind is made of: an open string enum and the resource around spec and status.

/// Declares an enum that is a string in JSON and keeps a string it does not know.
macro_rules! string_enum {
    (
        $(#[$meta:meta])*
        $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
            /// A value this version does not know, kept as it was read.
            Unknown(String),
        }

        impl $name {
            /// Every known value, in the order of the schema.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The value as it is written.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Unknown(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    other => Self::Unknown(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::resource::UnknownValue;

            /// Reads a known value only; use `From<&str>` to keep an unknown one.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match Self::from(text) {
                    Self::Unknown(text) => Err($crate::resource::UnknownValue {
                        type_name: stringify!($name),
                        text,
                        known: &[$($text),+],
                    }),
                    known => Ok(known),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Ok(Self::from(text.as_ref()))
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": [$($text),+] })
            }
        }
    };
}

/// Declares a namespaced kind of `velero.io`: the type with metadata, spec and status, and what its
/// definition says beside the schema.
///
/// Spec and status are plain fields, not options: Velero's Go types always write both, and a reader
/// treats a missing one as empty.
macro_rules! custom_resource {
    (
        $(#[doc = $doc:literal])+
        $name:ident {
            version: $version:literal,
            plural: $plural:literal,
            short_names: [$($short_name:literal),*],
            spec: $spec:ty,
            status: $status:ty,
            columns: [$($column:expr),* $(,)?],
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
        pub struct $name {
            /// The standard metadata of the object.
            #[serde(default, deserialize_with = "crate::wire::null_as_default")]
            pub metadata: kube::core::ObjectMeta,
            /// What is wanted.
            #[serde(default, deserialize_with = "crate::wire::null_as_default")]
            pub spec: $spec,
            /// What has been observed.
            #[serde(default, deserialize_with = "crate::wire::null_as_default")]
            pub status: $status,
        }

        impl $name {
            /// A new object with this name and spec and an empty status.
            pub fn new(namespace: &str, name: &str, spec: $spec) -> Self {
                Self {
                    metadata: kube::core::ObjectMeta {
                        name: Some(name.to_owned()),
                        namespace: Some(namespace.to_owned()),
                        ..Default::default()
                    },
                    spec,
                    status: Default::default(),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct;
                let mut object = serializer.serialize_struct(stringify!($name), 5)?;
                object.serialize_field("apiVersion", concat!("velero.io/", $version))?;
                object.serialize_field("kind", stringify!($name))?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                object.serialize_field("status", &self.status)?;
                object.end()
            }
        }

        impl kube::core::Resource for $name {
            type DynamicType = ();
            type Scope = kube::core::NamespaceResourceScope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }

            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                crate::GROUP.into()
            }

            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &kube::core::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
                &mut self.metadata
            }
        }

        impl crate::resource::VeleroResource for $name {
            type Spec = $spec;
            type Status = $status;

            const KIND: &'static str = stringify!($name);
            const VERSION: &'static str = $version;
            const PLURAL: &'static str = $plural;
            const SHORT_NAMES: &'static [&'static str] = &[$($short_name),*];
            const COLUMNS: &'static [crate::resource::PrinterColumn] = &[$($column),*];
            const DESCRIPTION: &'static str = concat!($($doc),+);

            fn spec(&self) -> &$spec {
                &self.spec
            }

            fn status(&self) -> &$status {
                &self.status
            }

            fn status_mut(&mut self) -> &mut $status {
                &mut self.status
            }
        }
    };
}
