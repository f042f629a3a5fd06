// Repositories as Velero makes, fills, restores and maintains them, by its own packages: the peer of velero-repo.
//
//	kopia-peer [flags] COMMAND ARGUMENT...     one command
//	kopia-peer [flags] serve                   commands from the input, each a line with a JSON array
//
// The commands are create, backup FOLDER SOURCE, backup-block DEVICE SOURCE, restore SNAPSHOT FOLDER,
// forget SNAPSHOT... and maintain auto|quick|full. The answer is one line of JSON. Every command connects anew with an
// empty cache, as the pods of Velero do.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sirupsen/logrus"
)

func main() {
	place := place{}
	flag.StringVar(&place.folder, "folder", "", "the folder with the repository")
	flag.StringVar(&place.bucket, "bucket", "", "the bucket with the repository; keys are taken from AWS_*")
	flag.StringVar(&place.prefix, "prefix", "", "the prefix in the bucket")
	flag.StringVar(&place.endpoint, "endpoint", "", "host and port of S3, without TLS")
	flag.StringVar(&place.region, "region", "us-east-1", "the region of the bucket")
	flag.StringVar(&place.password, "password", "static-passw0rd", "the password of the repository")
	parallel := flag.Int("parallel", 0, "how many files are worked on at once; 0 leaves it to Velero")
	verbose := flag.Bool("verbose", false, "says what Velero logs")
	flag.Parse()

	log := logrus.New()
	log.SetOutput(os.Stderr)
	log.SetLevel(logrus.ErrorLevel)
	if *verbose {
		log.SetLevel(logrus.DebugLevel)
	}
	peer := peer{place: place, parallel: *parallel, log: log}
	if flag.Arg(0) == "serve" {
		peer.serve()
		return
	}
	answer := peer.run(flag.Args())
	say(answer)
	if answer.Error != "" {
		os.Exit(1)
	}
}

// What a command came to.
type answer struct {
	Snapshot string `json:"snapshot,omitempty"`
	Size     int64  `json:"size"`
	Error    string `json:"error,omitempty"`
}

func say(answer answer) {
	line, _ := json.Marshal(answer)
	fmt.Println(string(line))
}

func (peer *peer) serve() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var arguments []string
		if err := json.Unmarshal(lines.Bytes(), &arguments); err != nil {
			say(answer{Error: err.Error()})
			continue
		}
		say(peer.run(arguments))
	}
}

func (peer *peer) run(arguments []string) answer {
	work, err := os.MkdirTemp("", "kopia-peer-")
	if err != nil {
		return answer{Error: err.Error()}
	}
	defer os.RemoveAll(work)
	found, err := peer.command(context.Background(), work, arguments)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return found
}

func (peer *peer) command(ctx context.Context, work string, arguments []string) (answer, error) {
	count := len(arguments)
	if count == 0 {
		return answer{}, fmt.Errorf("no command")
	}
	options := peer.place.options(filepath.Join(work, "repository.conf"), filepath.Join(work, "cache"))
	switch command := arguments[0]; {
	case command == "create" && count == 1:
		return answer{}, peer.create(ctx, options)
	case command == "backup" && count == 3:
		return peer.backup(ctx, options, arguments[1], arguments[2], false)
	case command == "backup-block" && count == 3:
		return peer.backup(ctx, options, arguments[1], arguments[2], true)
	case command == "restore" && count == 3:
		return peer.restore(ctx, options, arguments[1], arguments[2])
	case command == "forget" && count > 1:
		return answer{}, peer.forget(ctx, options, arguments[1:])
	case command == "maintain" && count == 2:
		return answer{}, peer.maintain(ctx, options, arguments[1])
	default:
		return answer{}, fmt.Errorf("unknown command %s with %s arguments", command, strconv.Itoa(count-1))
	}
}
