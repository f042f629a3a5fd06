// What takes traces in tests: the code of the OpenTelemetry Collector that reads them. What it shares with Velero has the
// versions of testbed/velero, so that Go compiles it once for both.
module velero.testbed/otlp-receiver

go 1.26.0

require go.opentelemetry.io/collector/pdata v1.40.0

require (
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/hashicorp/go-version v1.7.0 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.2 // indirect
	go.opentelemetry.io/collector/featuregate v1.40.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa // indirect
	google.golang.org/grpc v1.83.1 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

// Newer than in testbed/velero: nothing that is built on it could be shared.
exclude github.com/modern-go/reflect2 v1.0.3-0.20250322232337-35a7c28c31ee
