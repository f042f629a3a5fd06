# The image of the velero binary and its helpers, for those who have a container engine; `cargo xtask image` and
# `cargo xtask release` make the same without one.
#
#   docker build --build-arg VELERO_GIT_COMMIT="$(git rev-parse HEAD)" --build-arg VERSION=v0.1.0 .

# What decides which dependencies are compiled, and nothing of our code: as long as that stays the same, so do the layers made
# from it. A crate is there as an empty one.
FROM rust:1.95-bookworm AS manifests
WORKDIR /source
COPY . .
RUN find . -name '*.rs' ! -name lib.rs ! -name main.rs ! -name build.rs ! -path '*/src/bin/*' -delete \
    && find . -name '*.rs' ! -name lib.rs -exec sh -c 'echo "fn main() {}" > "$1"' _ {} \; \
    && find . -name lib.rs -exec truncate -s 0 {} \; \
    && find . -type f ! -name '*.rs' ! -name Cargo.toml ! -name Cargo.lock ! -name rust-toolchain.toml -delete \
    && find . -type l -delete \
    && find . -type d -empty -delete

FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY --from=manifests /source .
RUN cargo build --locked --release --package velero
COPY . .
# Which commit this is; a build that is not told says that it does not know.
ARG VELERO_GIT_COMMIT=""
# The empty crates were compiled after these files were written: without another time, cargo would take them for these.
RUN find crates plugins -name '*.rs' -exec touch {} + \
    && cargo build --locked --release --package velero
# The binaries, the shared libraries they need and the authorities they trust: no shell, nothing else.
RUN mkdir -p -m 1777 /image/tmp \
    && cp target/release/velero target/release/velero-restore-helper target/release/velero-helper /image/ \
    && ldd target/release/velero | grep -o '/[^ ]*' | xargs -I{} cp --parents --dereference {} /image/ \
    && cp --parents /etc/ssl/certs/ca-certificates.crt /image/

FROM scratch
ARG VELERO_GIT_COMMIT=""
ARG VERSION=""
LABEL org.opencontainers.image.title="velero" \
      org.opencontainers.image.description="Backup, restore and migration of Kubernetes objects" \
      org.opencontainers.image.source="https://github.com/velero-rust/velero" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$VELERO_GIT_COMMIT"
COPY --from=build /image /
USER 65532:65532
ENTRYPOINT ["/velero"]
