# The image of the velero binary for those who have a container engine; `cargo xtask image` makes the same without one.
FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY . .
RUN cargo build --release --package velero

FROM debian:bookworm-slim
COPY --from=build /source/target/release/velero /velero
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
USER 65532:65532
ENTRYPOINT ["/velero"]
