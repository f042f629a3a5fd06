// Takes traces over HTTP as the OpenTelemetry Collector does, with its own code to read and write them (pdata), and writes them down,
// one line of JSON a request. What is no valid request is refused.
package main

import (
	"io"
	"log"
	"net/http"
	"os"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

func main() {
	address, path := os.Args[1], os.Args[2]
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("POST /v1/traces", func(answer http.ResponseWriter, asked *http.Request) {
		if err := take(file, asked); err != nil {
			log.Print(err)
			http.Error(answer, err.Error(), http.StatusBadRequest)
			return
		}
		body, _ := ptraceotlp.NewExportResponse().MarshalProto()
		answer.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = answer.Write(body)
	})
	log.Fatal(http.ListenAndServe(address, nil))
}

func take(file *os.File, asked *http.Request) error {
	body, err := io.ReadAll(http.MaxBytesReader(nil, asked.Body, 16<<20))
	if err != nil {
		return err
	}
	request := ptraceotlp.NewExportRequest()
	if err := request.UnmarshalProto(body); err != nil {
		return err
	}
	line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(request.Traces())
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return err
}
