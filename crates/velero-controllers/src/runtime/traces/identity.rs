//! Which trace a backup or restore is.
//!
//! Its UID is the number of its trace, and half of it that of the span which is the whole of it. So what another server does
//! after this one comes into the same trace, nothing need be written down for that, and who knows the object finds the trace.

use uuid::Uuid;

/// The number of a trace.
pub(super) type TraceId = [u8; 16];
/// The number of a span.
pub(super) type SpanId = [u8; 8];

/// The trace of a backup or restore, and the span that is the whole of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
}

impl Whole {
    /// Of an object by its UID; nothing where that is no UID of Kubernetes.
    pub(super) fn of(uid: &str) -> Option<Self> {
        let uid = Uuid::try_parse(uid).ok().filter(|uid| !uid.is_nil())?;
        Some(Self { trace: *uid.as_bytes(), span: uid.as_u64_pair().1.to_be_bytes() })
    }
}

/// A number that no other span has.
pub(super) fn new_span() -> SpanId {
    // The half with the most bits that are left to chance.
    Uuid::new_v4().as_u64_pair().1.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_the_trace_of_its_uid_on_every_server() {
        let whole = Whole::of("0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff").unwrap();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(&whole.trace), "0f1e2d3c4b5a49788695a4b3c2d1e0ff");
        assert_eq!(hex(&whole.span), "8695a4b3c2d1e0ff");
        for none in ["", "backup-1", "00000000-0000-0000-0000-000000000000"] {
            assert_eq!(Whole::of(none), None, "{none:?}");
        }
        assert_ne!(new_span(), new_span());
    }
}
