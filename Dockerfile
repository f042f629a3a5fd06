# The image of the velero binary and its helpers, for those who have a container engine; `cargo xtask image` makes the
# same without one.
FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY . .
RUN cargo build --release --package velero
# The binaries, the shared libraries they need and the authorities they trust: no shell, nothing else.
RUN mkdir -p -m 1777 /image/tmp \
    && cp target/release/velero target/release/velero-restore-helper target/release/velero-helper /image/ \
    && ldd target/release/velero | grep -o '/[^ ]*' | xargs -I{} cp --parents --dereference {} /image/ \
    && cp --parents /etc/ssl/certs/ca-certificates.crt /image/

FROM scratch
COPY --from=build /image /
USER 65532:65532
ENTRYPOINT ["/velero"]
